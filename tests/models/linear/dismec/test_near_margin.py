"""Rows near their margin in quantized arithmetic: no violated row is missed, in lanes and per label."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.linear.problems import make_problem
from unmissed.models.linear.design import lay_out
from unmissed.models.linear.dismec import passes as passes_module
from unmissed.models.linear.dismec.near_margin import error_bounds, list_near, quantize_rows
from unmissed.models.linear.dismec.passes import MAX_PER_LABEL, Passes
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import pair_lines, quantize_weights
from unmissed.settings import SETTINGS

WIDE = np.longdouble


@dataclass
class Label:
    positives: np.ndarray
    w: np.ndarray
    bias: np.float32
    known: float = 1.0  # of |w|^2

    @property
    def h(self):
        return np.ones(len(self.positives), np.float32)

    @property
    def square(self):
        return self.known * square(self.w)


def square(w):
    return float(w.astype(np.float64) @ w.astype(np.float64))


def near(X, W, bias, positive_row=None, n_dense=0, n_lanes=LANES):
    """Return the rows listed for each lane with their quantized slack; lane 5 may have one positive row.

    The first `n_dense` features are passed as dense ones, and the first `n_lanes` lanes as those with a label.
    """
    n, d = X.shape
    X = X.toarray() if sp.issparse(X) else np.array(X)
    dense = np.arange(n) * n_dense, X[:, :n_dense].flatten(), n_dense, np.ones(n, np.float32)
    dense_numbers = np.empty((n, -(-n_dense // 2) * 2), np.int16)
    X[:, :n_dense] = 0
    X = sp.csr_matrix(X)
    numbers, *bounds = np.empty(X.nnz, np.int16), *(np.empty(n, np.float32) for _ in range(3))
    indptr = X.indptr.astype(np.int64)
    quantize_rows(indptr, X.data, dense, numbers, dense_numbers, *bounds)
    of_lanes = np.array([error_bounds(square(w), b) for w, b in zip(W, bias, strict=True)]).T
    quantized_weights = np.empty((d, LANES), np.int16)
    quantize_weights(W, np.ascontiguousarray(of_lanes[0]), quantized_weights)
    has = np.zeros(n, bool)
    has[slice(0) if positive_row is None else positive_row] = True
    starts, lanes = np.append(0, np.cumsum(has)), np.full(has.sum(), 5, np.int32)
    rows, slack, count = np.empty((LANES, n), np.int32), np.empty((LANES, n), np.float32), np.zeros(LANES, np.int64)
    of_lanes = np.ascontiguousarray(of_lanes, np.float32)
    frequent, nothing = (indptr, X.indices.astype(np.uint32), numbers, dense_numbers), np.empty(0, np.int32)
    pairs = np.zeros((dense_numbers.shape[1] // 2, 2 * LANES), np.int16)
    pair_lines(quantized_weights[:n_dense], pairs)
    rare_scores = np.zeros(n + 1, np.int64), nothing, nothing
    positives = starts, lanes, nothing.astype(np.float32)
    arguments = tuple(bounds), (quantized_weights, pairs), n_lanes, bias, of_lanes, positives
    scores, n_scores = np.full(1, np.nan, np.float32), np.zeros(LANES, np.int64)
    list_near(0, frequent, rare_scores, *arguments, rows, slack, count, scores, n_scores)
    if positive_row is not None:
        assert n_scores[5] == 1
        x = X.toarray()[positive_row].astype(np.float64)
        assert scores[0] == pytest.approx(
            x @ W[5] + bias[5], abs=float(4e-4 * np.linalg.norm(W[5]) * np.linalg.norm(x))
        )
    assert n_scores.sum() == has.sum()
    return [(rows[lane, : count[lane]], slack[lane, : count[lane]]) for lane in range(LANES)]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    row_scale=st.integers(-40, 18),
    weight_scale=st.integers(-40, 37),
    length=st.integers(1, 60),
    share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_no_row_that_is_violated_is_missed_whatever_the_scale(seed, row_scale, weight_scale, length, share):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, length)) * (rng.random((30, length)) < 0.7) * 10.0 ** rng.integers(-3, 3, (30, 1))
    X = (X * 10.0**row_scale).astype(np.float32)
    W = (rng.standard_normal((LANES, length)) * 10.0**weight_scale).astype(np.float32)
    scores = X.astype(WIDE) @ W.T.astype(WIDE)
    row = rng.integers(0, 30, LANES)
    at_margin = -1 - scores[row, np.arange(LANES)]  # one row of each lane
    bias = np.where(abs(at_margin) < 1e38, at_margin, 0).astype(np.float32)
    violated = scores + bias.astype(WIDE) > -1
    for lane, (rows, _) in enumerate(near(X, W, bias, n_dense=int(share * length))):
        assert set(np.flatnonzero(violated[:, lane])) <= set(rows)
        assert (np.diff(rows) > 0).all()


@pytest.mark.kernel
def test_few_rows_are_listed_that_are_not_violated():
    X, _ = make_problem(3, n_samples=300, n_features=40)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((LANES, 40)).astype(np.float32)
    bias = np.full(LANES, -1, np.float32)
    slack = 1 + X.toarray().astype(np.float64) @ W.T - 1
    for lane, (rows, found) in enumerate(near(X, W, bias, positive_row=7)):
        negative = (np.arange(300) != 7) | (lane != 5)
        scale = float(np.linalg.norm(W[lane]) * np.sqrt(X.multiply(X).sum(axis=1).max()))
        assert found == pytest.approx(slack[rows, lane], abs=4e-4 * scale)
        assert set(rows) <= set(np.flatnonzero((slack[:, lane] > -8e-4 * scale) & negative))
        assert set(rows) >= set(np.flatnonzero((slack[:, lane] > 0) & negative))


def test_rows_out_of_the_range_of_quantization_are_listed():
    rows = np.zeros((4, 3), np.float32)
    rows[0, 0], rows[1, 1], rows[2] = 1e30, 1e-30, 1
    W = np.tile(np.array([-1, -1, 0], np.float32), (LANES, 1))
    listed = near(rows, W, np.full(LANES, -1.5, np.float32))[0][0]
    assert list(listed) == [0, 1]
    assert len(near(rows, np.full((LANES, 3), 1e20, np.float32), np.full(LANES, -1.5, np.float32))[0][0]) == 4


@pytest.mark.kernel
@pytest.mark.parametrize("n_lanes", [3, 16, 17, 40])
def test_few_labels_get_the_lists_that_they_have_in_full_lanes(n_lanes):
    rng = np.random.default_rng(n_lanes)
    X, W = rng.standard_normal((30, 9)).astype(np.float32), rng.standard_normal((LANES, 9)).astype(np.float32)
    bias = np.full(LANES, -1, np.float32)
    expected = near(X, W, bias, n_dense=7)
    W[n_lanes:], bias[n_lanes:] = 0, -2
    found = near(X, W, bias, n_dense=7, n_lanes=n_lanes)
    for lane in range(LANES):
        rows, slack = expected[lane] if lane < n_lanes else ([], [])
        assert np.array_equal(found[lane][0], rows)
        assert np.array_equal(found[lane][1], slack)


@pytest.fixture(params=[None, 7])
def frequent(request, monkeypatch):
    """The largest number of frequent features; None leaves the default, with which all features here are frequent."""
    if request.param is not None:
        monkeypatch.setattr(SETTINGS, "frequent_features", request.param)
    return request.param


@pytest.mark.kernel
@pytest.mark.parametrize("max_rare_scores", [8, 1])
def test_rows_are_listed_by_their_own_indices_from_any_range(frequent, max_rare_scores, monkeypatch):
    """Two ranges, or many batches, give the same lists as one."""
    X, _ = make_problem(5, n_samples=90, n_features=30)
    design = lay_out(X, bias=True, seed=0)
    passes = Passes(design, QuantizedRows(design))
    labels = _labels(design, 20)
    lanes, bounds = passes.to_lanes(labels, np.full(20, 1e-3)), np.full((4, LANES), 1e-3, np.float32)
    monkeypatch.setattr(SETTINGS, "rare_scores", max_rare_scores)
    n_batches = len(list(passes.quantized.row_batches(slice(0, 90), lanes.rare_weights)))
    assert (n_batches > 3) == (frequent is not None and max_rare_scores == 1)
    quantized_weights, first, second = (
        [
            (rows.tolist(), slack.tolist(), scores.tolist())
            for rows, slack, scores in passes._list_near(labels, lanes, part, passes.quantized.bounds, bounds)
        ]
        for part in (slice(0, 90), slice(0, 40), slice(40, 90))
    )
    assert sum(len(rows) for rows, *_ in quantized_weights) > 90
    for lane in range(len(labels)):
        assert quantized_weights[lane] == tuple(
            one + other for one, other in zip(first[lane], second[lane], strict=True)
        )


def _labels(design, n, scale=1.0):
    """Return random labels; rare features that none of their positives has get weights below 0, as in any solution."""
    rng = np.random.default_rng(1)
    labels = []
    for _ in range(n):
        positives = np.sort(rng.choice(design.n_samples, 4, replace=False)).astype(np.int32)
        w = (rng.standard_normal(design.n_features) / scale).astype(np.float32)
        theirs = [design.indices[design.indptr[row] : design.indptr[row + 1]] for row in positives]
        others = np.setdiff1d(
            np.arange(design.n_dense + SETTINGS.frequent_features, design.n_features), np.concatenate(theirs)
        )
        w[others] = -np.abs(w[others])
        labels.append(Label(positives, w, np.float32(rng.normal(-1, 0.1))))
    return labels


def _reference_scores(design, label):
    """Return the score of each row in float64."""
    dense = np.zeros((design.n_samples, design.n_features))
    dense[np.repeat(np.arange(design.n_samples), np.diff(design.indptr)), design.indices] = design.values
    begins, values, n_dense, _ = design.dense
    for row in range(design.n_samples):
        dense[row, :n_dense] = values[begins[row] : begins[row] + n_dense]
    return dense @ label.w.astype(np.float64) + label.bias


def _reference_violations(design, label, more=0.0):
    """Return the violation of each row in float64, with `more` added to its score."""
    over = np.maximum(0, 1 + _reference_scores(design, label) + more)
    over[label.positives] = 0
    return over


@pytest.mark.parametrize("scale", [1.0, 1e14, 1e-14])
@pytest.mark.parametrize(("n_dense", "few_positives", "weighted"), [(0, 2, True), (5, 64, False), (5, 2, True)])
def test_exact_passes_give_the_same_bits_in_lanes_and_per_label(
    n_dense, few_positives, weighted, scale, frequent, monkeypatch
):
    monkeypatch.setattr(passes_module, "_FEW_POSITIVES", few_positives)
    X = make_problem(5, n_samples=120, n_features=30)[0] * np.float32(scale)
    dense = X[:, :n_dense].toarray() if n_dense else None
    weights = np.random.default_rng(2).uniform(0.1, 9, 120) if weighted else None
    design = lay_out(sp.csr_matrix(X[:, n_dense:]), bias=True, seed=0, dense=dense, weights=weights)
    passes = Passes(design, QuantizedRows(design))
    assert passes.quantized.n_frequent == (n_dense + frequent if frequent else 30)
    labels = _labels(design, 20, scale)
    labels[3].w[:] = 0
    assert len(labels) > MAX_PER_LABEL
    together = [(loss, rows.copy(), slack.copy(), scores) for loss, rows, slack, scores in passes.exact(labels)]
    for label, (loss, rows, slack, scores) in zip(labels, together, strict=True):
        ((loss_per_label, rows_per_label, slack_per_label, scores_per_label),) = passes.exact([label])
        assert np.array_equal(scores, scores_per_label)
        missed = np.maximum(0, 1 - _reference_scores(design, label)[label.positives])
        assert np.maximum(0, 1 - scores) == pytest.approx(missed, rel=1e-12)
        assert loss == loss_per_label
        assert np.array_equal(rows, rows_per_label)
        assert np.array_equal(slack, slack_per_label)
        over = _reference_violations(design, label)
        assert loss == pytest.approx(design.weighted(1.0, np.arange(120)) @ over**2, rel=1e-12)
        assert np.array_equal(rows, np.flatnonzero(over > 0))


@pytest.mark.parametrize("n_samples", [120, 3000])
@pytest.mark.parametrize("scale", [1.0, 1e14, 1e-14])
def test_approximate_passes_give_the_same_bits_in_lanes_and_per_label(scale, n_samples, frequent):
    X, _ = make_problem(5, n_samples=n_samples, n_features=30)
    design = lay_out(sp.csr_matrix(X * np.float32(scale)), bias=True, seed=0)
    passes = Passes(design, QuantizedRows(design))
    labels = _labels(design, 20, scale)
    labels[3].w[:] = 0
    seen = {}

    def least(label, rows, slack, share):
        assert len(rows) == len(slack)
        seen.setdefault(id(label), []).append((slack.copy(), share))
        return float(np.quantile(slack, 0.5)) if len(slack) else 0.0

    together = [(rows.copy(), slack.copy(), scores) for rows, slack, scores in passes.approximate(labels, least)]
    assert len(labels) > MAX_PER_LABEL
    for label, (rows, slack, scores) in zip(labels, together, strict=True):
        ((rows_per_label, slack_per_label, scores_per_label),) = passes.approximate([label], least)
        assert np.array_equal(scores, scores_per_label)
        assert np.array_equal(rows, rows_per_label)
        assert np.array_equal(slack, slack_per_label)
        (sample, share), (again, _) = seen[id(label)]
        assert np.array_equal(sample, again)
        assert share == pytest.approx(1 if n_samples == 120 else 1024 / 3000)
        if scale != 1:
            continue
        label.w[SETTINGS.frequent_features :] = np.maximum(
            label.w[SETTINGS.frequent_features :], 0
        )  # others are left out
        assert scores == pytest.approx(
            _reference_scores(design, label)[label.positives], abs=1e-3 * float(1 + np.linalg.norm(label.w))
        )
        over, close = _reference_violations(design, label), 1e-3 * float(1 + np.linalg.norm(label.w))
        last = over[n_samples - round(share * n_samples) :]
        assert (
            np.sum(last > close) <= len(sample) <= np.sum(_reference_violations(design, label, close)[-len(last) :] > 0)
        )
        assert sample.max(initial=0) == pytest.approx(last.max(), abs=close)
        limit = least(label, sample, sample, share)
        assert set(np.flatnonzero(over > limit + close)) <= set(rows) <= set(np.flatnonzero(over > limit - close))


def test_approximate_passes_agree_in_lanes_and_per_label_if_sums_wrap_around():
    n = 400
    X = sp.csr_matrix(np.tile(np.random.default_rng(0).random((1, 9)).astype(np.float32), (n, 1)))
    design = lay_out(X, bias=True, seed=0)
    passes = Passes(design, QuantizedRows(design))
    labels = _labels(design, 8)
    for label in labels:
        label.w[:] = design.values[:9] * 2
        label.known = 0.1
    together = [(rows.tolist(), slack.tolist()) for rows, slack, _ in passes.approximate(labels, lambda *_: 0.0)]
    (step, *_), *_ = [error_bounds(label.square, 0.0) for label in labels]
    assert float(design.values[:9] @ labels[0].w) / step * 50_000 > 2**31 * np.linalg.norm(design.values[:9])
    for label, found in zip(labels, together, strict=True):
        ((rows, slack, _),) = passes.approximate([label], lambda *_: 0.0)
        assert (rows.tolist(), slack.tolist()) == found
