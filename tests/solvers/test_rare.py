"""Rare features apart: what lists of weights give to rows is what the weights above 0 would have given."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.kernels.near import round_rows
from unmissed.kernels.rare import count_frequent, give, list_rare, split_rows
from unmissed.solvers import rounded
from unmissed.solvers.design import lay_out
from unmissed.solvers.rounded import Rounded

pytestmark = pytest.mark.kernel
N_SAMPLES, N_FEATURES, N_FREQUENT = 50, 40, 12


class Split:
    """Random rows, parted by feature, and their whole numbers as a dense matrix."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.X = sp.random(N_SAMPLES, N_FEATURES, 0.3, "csr", np.float32, rng)
        self.X.indices = self.X.indices.astype(np.uint32)
        self.X.indptr = self.X.indptr.astype(np.int64)
        numbers, bounds = np.empty(self.X.nnz, np.int16), [np.empty(N_SAMPLES, np.float32) for _ in range(3)]
        round_rows(self.X.indptr, self.X.data, numbers, *bounds)
        self.whole = np.zeros((N_SAMPLES, N_FEATURES), np.int64)
        self.whole[np.repeat(np.arange(N_SAMPLES), np.diff(self.X.indptr)), self.X.indices] = numbers
        starts, rare_starts = np.empty(N_SAMPLES + 1, np.int64), np.empty(N_FEATURES - N_FREQUENT + 1, np.int64)
        count_frequent(self.X.indptr, self.X.indices, N_FREQUENT, starts, rare_starts)
        self.frequent = starts, np.empty(starts[-1], np.uint16), np.empty(starts[-1], np.int16)
        self.rare = rare_starts, np.empty(rare_starts[-1], np.int32), np.empty(rare_starts[-1], np.int16)
        self.squares = np.empty(N_SAMPLES, np.float32)
        X = self.X.indptr, self.X.indices, self.X.data
        split_rows(*X, numbers, N_FREQUENT, self.frequent, self.rare, self.squares)


def dense(starts, indices, numbers, shape):
    """CSR arrays, whose entries may repeat, as a matrix."""
    found = np.zeros(shape, np.int64)
    np.add.at(found, (np.repeat(np.arange(shape[0]), np.diff(starts)), indices), numbers)
    return found


def test_rows_are_parted_and_nothing_is_lost():
    split = Split()
    frequent = dense(*split.frequent, (N_SAMPLES, N_FREQUENT))
    rare = dense(*split.rare, (N_FEATURES - N_FREQUENT, N_SAMPLES)).T
    assert np.array_equal(np.hstack([frequent, rare]), split.whole)
    assert rare.any()
    for begin, end in zip(split.rare[0], split.rare[0][1:], strict=False):
        assert (np.diff(split.rare[1][begin:end]) > 0).all(), "the rows of a feature rise"
    part = split.X.toarray()[:, N_FREQUENT:].astype(np.float64)
    assert split.squares == pytest.approx((part**2).sum(axis=1), rel=1e-6)


@pytest.mark.parametrize(("first", "last"), [(0, N_SAMPLES), (0, 20), (13, 31), (40, N_SAMPLES), (7, 7)])
def test_lists_give_what_weights_above_0_of_features_of_positives_give(first, last):
    split, rng = Split(1), np.random.default_rng(2)
    n_lanes, step = 6, 0.25
    W = rng.standard_normal((n_lanes, N_FEATURES)).astype(np.float32)
    positives = [np.sort(rng.choice(N_SAMPLES, n, replace=False)).astype(np.int32) for n in (1, 0, 3, 8, 2, 1)]
    steps = np.full(n_lanes, step)
    steps[4] = 0  # not rounded: no weights
    starts = np.cumsum([0, *map(len, positives)])
    X = split.X.indptr, split.X.indices
    listed = list_rare(*X, np.concatenate(positives), starts, W, N_FREQUENT, steps)
    whole = np.zeros((n_lanes, N_FEATURES), np.int64)
    for lane, rows in enumerate(positives):
        known = np.flatnonzero(split.whole[rows].any(axis=0))
        known = known[known >= N_FREQUENT]
        whole[lane, known] = np.maximum(np.rint(W[lane, known] / step), 0) * (steps[lane] > 0)
    assert (whole > 0).sum() == len(listed[2]), "each is listed once"
    given = give(first, last, split.rare, listed)
    expected = (split.whole @ whole.T)[first:last]
    assert len(given[0]) == last - first + 1
    assert np.array_equal(dense(*given, (last - first, n_lanes)), expected)
    assert expected.any() or first == last


def test_features_are_parted_where_it_pays_and_no_value_is_below_0(monkeypatch):
    X = sp.random(200, 60, 0.2, "csr", np.float32, np.random.default_rng(0))
    design = lay_out(X, bias=True, seed=0)
    assert Rounded(design).n_frequent == 60
    monkeypatch.setattr(rounded, "FREQUENT", 40)
    share = float(np.mean(design.indices >= 40))
    parted = Rounded(design)
    assert (parted.n_frequent, len(parted.rare[1])) == (40, round(share * X.nnz))
    assert len(parted.frequent[1]) + len(parted.rare[1]) == X.nnz
    monkeypatch.setattr(rounded, "RARE", 1.01 * share)
    assert Rounded(design).n_frequent == 60
    monkeypatch.setattr(rounded, "RARE", 0.99 * share)
    assert Rounded(design).n_frequent == 40
    design.values[5] *= -1
    assert Rounded(design).n_frequent == 60
