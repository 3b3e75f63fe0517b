"""Rare features: lists give the same scores as all positive weights of rare features."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import no_dense
from unmissed.models.linear.design import lay_out
from unmissed.models.linear.dismec.near_margin import quantize_rows
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.dismec.rare_features import (
    count_frequent,
    list_rare_weights,
    score_rare_features,
    split_rows,
)
from unmissed.settings import SETTINGS

pytestmark = pytest.mark.kernel
N_SAMPLES, N_FEATURES, N_FREQUENT = 50, 40, 12


class Split:
    """Random rows, split by feature, and their quantized values as a dense matrix."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.X = sp.random(N_SAMPLES, N_FEATURES, 0.3, "csr", np.float32, rng)
        self.X.indices = self.X.indices.astype(np.uint32)
        self.X.indptr = self.X.indptr.astype(np.int64)
        numbers, bounds = np.empty(self.X.nnz, np.int16), [np.empty(N_SAMPLES, np.float32) for _ in range(3)]
        nothing, no_numbers = no_dense(N_SAMPLES)
        quantize_rows(self.X.indptr, self.X.data, nothing, numbers, no_numbers, *bounds)
        self.quantized = np.zeros((N_SAMPLES, N_FEATURES), np.int64)
        self.quantized[np.repeat(np.arange(N_SAMPLES), np.diff(self.X.indptr)), self.X.indices] = numbers
        starts, rare_starts = np.empty(N_SAMPLES + 1, np.int64), np.empty(N_FEATURES - N_FREQUENT + 1, np.int64)
        count_frequent(self.X.indptr, self.X.indices, N_FREQUENT, starts, rare_starts)
        self.frequent = starts, np.empty(starts[-1], np.uint16), np.empty(starts[-1], np.int16)
        self.rare = rare_starts, np.empty(rare_starts[-1], np.int32), np.empty(rare_starts[-1], np.int16)
        self.squares = np.empty(N_SAMPLES, np.float32)
        X = self.X.indptr, self.X.indices, self.X.data
        split_rows(*X, numbers, N_FREQUENT, self.frequent, self.rare, self.squares)


def dense(starts, indices, numbers, shape):
    """Return CSR arrays, whose entries may repeat, as a dense matrix."""
    found = np.zeros(shape, np.int64)
    np.add.at(found, (np.repeat(np.arange(shape[0]), np.diff(starts)), indices), numbers)
    return found


def test_split_rows_have_all_entries():
    split = Split()
    frequent = dense(*split.frequent, (N_SAMPLES, N_FREQUENT))
    rare = dense(*split.rare, (N_FEATURES - N_FREQUENT, N_SAMPLES)).T
    assert np.array_equal(np.hstack([frequent, rare]), split.quantized)
    assert rare.any()
    for begin, end in zip(split.rare[0], split.rare[0][1:], strict=False):
        assert (np.diff(split.rare[1][begin:end]) > 0).all(), "the rows of a feature rise"
    part = split.X.toarray()[:, N_FREQUENT:].astype(np.float64)
    assert split.squares == pytest.approx((part**2).sum(axis=1), rel=1e-6)


@pytest.mark.parametrize(("first", "last"), [(0, N_SAMPLES), (0, 20), (13, 31), (40, N_SAMPLES), (7, 7)])
def test_lists_score_the_positive_weights_of_features_of_positives(first, last):
    split, rng = Split(1), np.random.default_rng(2)
    n_lanes, step = 6, 0.25
    W = rng.standard_normal((n_lanes, N_FEATURES)).astype(np.float32)
    positives = [np.sort(rng.choice(N_SAMPLES, n, replace=False)).astype(np.int32) for n in (1, 0, 3, 8, 2, 1)]
    steps = np.full(n_lanes, step)
    steps[4] = 0  # not quantized: no weights
    starts = np.cumsum([0, *map(len, positives)])
    X = split.X.indptr, split.X.indices
    rare_weights = list_rare_weights(*X, np.concatenate(positives), starts, W, N_FREQUENT, steps)
    quantized = np.zeros((n_lanes, N_FEATURES), np.int64)
    for lane, rows in enumerate(positives):
        known = np.flatnonzero(split.quantized[rows].any(axis=0))
        known = known[known >= N_FREQUENT]
        quantized[lane, known] = np.maximum(np.rint(W[lane, known] / step), 0) * (steps[lane] > 0)
    assert (quantized > 0).sum() == len(rare_weights[2]), "each is listed once"
    rare_scores = score_rare_features(first, last, split.rare, rare_weights)
    expected = (split.quantized @ quantized.T)[first:last]
    assert len(rare_scores[0]) == last - first + 1
    assert np.array_equal(dense(*rare_scores, (last - first, n_lanes)), expected)
    assert expected.any() or first == last


def test_features_are_split_if_it_pays_and_no_value_is_negative(monkeypatch):
    X = sp.random(200, 60, 0.2, "csr", np.float32, np.random.default_rng(0))
    design = lay_out(X, bias=True, seed=0)
    assert QuantizedRows(design).n_frequent == 60
    monkeypatch.setattr(SETTINGS, "frequent_features", 40)
    share = float(np.mean(design.indices >= 40))
    parted = QuantizedRows(design)
    assert (parted.n_frequent, len(parted.rare[1])) == (40, round(share * X.nnz))
    assert len(parted.frequent[1]) + len(parted.rare[1]) == X.nnz
    monkeypatch.setattr(SETTINGS, "rare_fraction", 1.01 * share)
    assert QuantizedRows(design).n_frequent == 60
    monkeypatch.setattr(SETTINGS, "rare_fraction", 0.99 * share)
    assert QuantizedRows(design).n_frequent == 40
    design.values[5] *= -1
    assert QuantizedRows(design).n_frequent == 60
