"""Sweeps in lanes in quantized arithmetic: an epoch of coordinate ascent for each label, independent of other lanes."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import no_dense
from unmissed.models.linear.dismec.lane_ascent import _saturating_add, apply_sweep, lane_sweep, sort_by_row
from unmissed.models.linear.dismec.near_margin import quantize_rows
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import pair_lines, quantize_weights

pytestmark = pytest.mark.kernel
N_SAMPLES, N_FEATURES = 60, 12
H_POSITIVE, H_NEGATIVE = np.float32(0.1), np.float32(0.5)
NOT_PACKED = np.uint32(2**32 - 1)


def nothing(n_samples):
    """Return the scores of rare features if there are none."""
    return np.zeros(n_samples + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)


class Problem:
    """Random rows, and labels whose positives are every tenth row, beginning at the index of the lane."""

    def __init__(self, seed=0, lanes=LANES, density=0.4, n_dense=0):
        rng = np.random.default_rng(seed)
        self.X = sp.random(N_SAMPLES, N_FEATURES, density, "csr", np.float32, rng)
        self.indptr, self.indices = self.X.indptr.astype(np.int64), self.X.indices.astype(np.uint32)
        self.numbers = np.empty(self.X.nnz, np.int16)
        self.bounds = tuple(np.empty(N_SAMPLES, np.float32) for _ in range(3))
        nothing_dense, self.dense_numbers = no_dense(N_SAMPLES)
        quantize_rows(self.indptr, self.X.data, nothing_dense, self.numbers, self.dense_numbers, *self.bounds)
        self.n_dense = n_dense
        if n_dense:
            self.make_dense(n_dense)
        self.extra = np.zeros((N_SAMPLES, LANES))
        self.rare_scores, self.rare_squares = nothing(N_SAMPLES), np.zeros(N_SAMPLES, np.float32)
        self.norms = np.asarray(self.X.multiply(self.X).sum(axis=1), np.float32).ravel() + np.float32(1)
        self.Y = np.arange(N_SAMPLES)[:, None] % 10 == np.arange(LANES) % 10
        self.Y[:, lanes:] = False
        self.w = np.zeros((LANES, N_FEATURES), np.float32)
        self.w[:lanes] = rng.standard_normal((LANES, N_FEATURES))[:lanes]
        self.bias = np.full(LANES, -2, np.float32)
        self.bias[:lanes] = rng.standard_normal(LANES)[:lanes]
        self.alpha = np.zeros((N_SAMPLES, LANES), np.float32)
        self.alpha[:, :lanes] = np.maximum(rng.standard_normal((N_SAMPLES, LANES)), 0)[:, :lanes]
        squares = (self.w**2).sum(axis=1)
        reach = 8 * np.sqrt(squares) + 1
        self.lanes = np.ones((4, LANES), np.float32)
        self.lanes[:] = reach / 32_000, squares, reach**2, np.full(LANES, H_NEGATIVE)
        self.h = np.full(self.Y.shape, H_POSITIVE, np.float32)
        self.inverse_weights = np.empty(0, np.float32)

    def make_dense(self, n_dense):
        """Store the first features, quantized, as dense ones."""
        row = np.repeat(np.arange(N_SAMPLES), np.diff(self.indptr))
        moved = self.indices < n_dense
        self.dense_numbers = np.zeros((N_SAMPLES, -(-n_dense // 2) * 2), np.int16)
        self.dense_numbers[row[moved], self.indices[moved]] = self.numbers[moved]
        self.indptr = np.append(0, np.cumsum(np.bincount(row[~moved], minlength=N_SAMPLES))).astype(np.int64)
        self.indices, self.numbers = self.indices[~moved], self.numbers[~moved]

    def sweep(self):
        """Sweep; return the resulting label-major weights of the features that are not dense."""
        quantized_weights = np.empty((N_FEATURES, LANES), np.int16)
        quantize_weights(self.w, self.lanes[0].astype(np.float64), quantized_weights)
        starts = np.append(0, np.cumsum(self.Y.sum(axis=1))).astype(np.int64)
        positives = starts, np.nonzero(self.Y)[1].astype(np.int32), self.h[self.Y]
        frequent = self.indptr, self.indices, self.numbers, self.dense_numbers
        X = frequent, self.rare_scores, self.rare_squares, self.bounds, self.norms, self.inverse_weights
        pairs = np.zeros((self.dense_numbers.shape[1] // 2, 2 * LANES), np.int16)
        pair_lines(quantized_weights[: self.n_dense], pairs)
        W = quantized_weights, pairs
        lane, row = np.nonzero(self.alpha.T)
        starts = np.searchsorted(lane, np.arange(LANES + 1))
        active = sort_by_row(row.astype(np.int32), self.alpha[row, lane], starts, 0, N_SAMPLES)
        lists = np.empty((LANES, N_SAMPLES), np.int32), np.empty((LANES, N_SAMPLES), np.float32)
        count = np.zeros(LANES, np.int64)
        lane_sweep(0, *X, np.float32(1), W, self.lanes, self.bias, positives, active, *lists, count)
        self.alpha[:] = 0
        for at in range(LANES):
            rows, variables = (one[at, : count[at]] for one in lists)
            assert (np.diff(rows) > 0).all()
            assert (variables > 0).all()
            self.alpha[rows, at] = variables
        back = np.empty((LANES, N_FEATURES), np.float32)
        for at in range(LANES):  # a unit weight shows the slot of a lane
            unit, position = np.zeros((LANES, N_FEATURES), np.float32), np.empty((N_FEATURES, LANES), np.int16)
            unit[at] = 1
            quantize_weights(unit, np.ones(LANES), position)
            back[at] = (quantized_weights * position).sum(axis=1) * self.lanes[0, at]
        return back


def epoch(problem, lane):
    """Reference implementation of a sweep for one label in float64; return weights, bias and dual variables."""
    X = problem.X.toarray().astype(np.float64)
    w, b = problem.w[lane].astype(np.float64), float(problem.bias[lane])
    a = problem.alpha[:, lane].astype(np.float64)
    for row in range(N_SAMPLES):
        z, h = (1, problem.h[row, lane]) if problem.Y[row, lane] else (-1, H_NEGATIVE)
        if z < 0 and len(problem.inverse_weights):
            h = h * problem.inverse_weights[row]
        score = X[row] @ w + b + problem.extra[row, lane] - (problem.rare_squares[row] * a[row] if z < 0 else 0)
        step = max(-(z * score - 1 + a[row] * h) / (problem.norms[row] + h), -a[row])
        a[row] += step
        w, b = w + step * z * X[row], b + step * z
    return w, b, a


def check_epoch(problem, before, w, lanes):
    """Check that a sweep gives the result of the reference implementation."""
    for lane in range(lanes):
        expected_w, expected_b, expected_a = epoch(before, lane)
        np.testing.assert_allclose(problem.alpha[:, lane], expected_a, atol=3e-3)
        np.testing.assert_allclose(w[lane], expected_w, atol=5e-3)
        assert problem.bias[lane] == pytest.approx(expected_b, abs=3e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lanes", [LANES, 3])
def test_a_sweep_is_an_epoch_of_coordinate_ascent(lanes, weighted):
    problem, before = Problem(lanes=lanes), Problem(lanes=lanes)
    if weighted:
        for one in (problem, before):
            rng = np.random.default_rng(6)
            one.inverse_weights = rng.uniform(0.2, 5, N_SAMPLES).astype(np.float32)
            one.h = rng.uniform(0.1, 3, one.Y.shape).astype(np.float32)
    w = problem.sweep()
    check_epoch(problem, before, w, lanes)
    for lane in range(lanes):
        assert problem.lanes[1, lane] == pytest.approx(w[lane] @ w[lane], rel=3e-2 if weighted else 1e-2), "norm"
    assert (problem.alpha >= 0).all()


def test_a_sweep_includes_the_scores_and_the_norms_of_rare_features():
    problem, before = Problem(), Problem()
    for one in (problem, before):
        rng = np.random.default_rng(4)
        one.rare_squares = rng.random(N_SAMPLES).astype(np.float32)
        one.norms += one.rare_squares
        rare_scores = sp.csr_matrix(rng.integers(0, 9, (N_SAMPLES, LANES)) * (rng.random((N_SAMPLES, LANES)) < 0.1))
        rare_scores.data *= 10**6  # quantized
        one.rare_scores = (
            rare_scores.indptr.astype(np.int64),
            rare_scores.indices.astype(np.int32),
            rare_scores.data.astype(np.int32),
        )
        one.extra = rare_scores.toarray() * one.bounds[0][:, None] * one.lanes[0]
    assert problem.extra.max() > 0.1
    w = problem.sweep()
    check_epoch(problem, before, w, LANES)


def test_a_label_gets_the_same_bits_in_a_full_group_and_in_a_group_of_one():
    together, single = Problem(), Problem(lanes=1)
    np.testing.assert_array_equal(together.sweep()[0], single.sweep()[0])
    assert together.alpha[:, 0].tobytes() == single.alpha[:, 0].tobytes()
    assert not single.alpha[:, 1:].any(), "lanes without a label stay as they are"


def test_an_update_that_would_overflow_the_quantized_weights_is_skipped():
    free, bound = Problem(), Problem()
    bound.lanes[2, 5] = bound.lanes[1, 5]
    w = bound.sweep()
    free.sweep()
    assert (w[5] ** 2).sum() <= bound.lanes[2, 5] * 1.01
    assert not np.array_equal(bound.alpha[:, 5], free.alpha[:, 5])
    others = np.arange(LANES) != 5
    np.testing.assert_array_equal(bound.alpha[:, others], free.alpha[:, others])


@pytest.mark.parametrize("lanes", [1, LANES])
def test_weights_may_change_by_more_than_the_range_of_int16(lanes):
    numbers, bounds = np.empty(2, np.int16), tuple(np.empty(2, np.float32) for _ in range(3))
    indptr = np.arange(3, dtype=np.int64)
    nothing_dense, no_numbers = no_dense(2)
    values = np.array([1, -1], np.float32)  # both are positives: one weight changes sides
    quantize_rows(indptr, values, nothing_dense, numbers, no_numbers, *bounds)
    X = (
        (indptr, np.zeros(2, np.uint32), numbers, no_numbers),
        nothing(2),
        np.zeros(2, np.float32),
        bounds,
        np.ones(2, np.float32),
        np.empty(0, np.float32),
    )
    of_lanes = np.tile(np.array([[1 / 32_000], [0], [1], [1e-3]], np.float32), LANES)
    weights, lists = np.zeros((1, LANES), np.int16), (np.zeros((LANES, 2), np.int32), np.zeros((LANES, 2), np.float32))
    bias = np.full(LANES, -2, np.float32)
    bias[:lanes] = 0
    h = np.full(2 * lanes, 1e-3, np.float32)
    positives = lanes * indptr, np.tile(np.arange(lanes, dtype=np.int32), 2), h
    active = np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    W, count = (weights, np.zeros((0, 2 * LANES), np.int16)), np.zeros(LANES, np.int64)
    lane_sweep(0, *X, np.float32(0), W, of_lanes, bias, positives, active, *lists, count)
    assert lists[0][:lanes].tolist() == [[0, 1]] * lanes
    assert lists[1][:lanes] == pytest.approx(np.tile([0.999, 1.997], (lanes, 1)), abs=1e-3)
    assert np.sort(weights[0])[:lanes] == pytest.approx(np.full(lanes, -32_000 * 0.998), abs=32)


@pytest.mark.parametrize("n_dense", [4, 5])
@pytest.mark.parametrize("lanes", [3, LANES])
def test_dense_features_give_the_same_bits_as_sparse_ones(n_dense, lanes):
    sparse, mixed = Problem(lanes=lanes), Problem(lanes=lanes, n_dense=n_dense)
    w, w_mixed = sparse.sweep(), mixed.sweep()
    assert np.array_equal(sparse.alpha, mixed.alpha)
    assert np.array_equal(sparse.bias, mixed.bias)
    assert np.array_equal(sparse.lanes, mixed.lanes)
    assert np.array_equal(w[:, n_dense:], w_mixed[:, n_dense:])


def test_quantized_weights_saturate():
    assert _saturating_add(np.int16(32_000), np.float32(5_000)) == 32_767
    assert _saturating_add(np.int16(-32_000), np.float32(-5_000)) == -32_767
    assert _saturating_add(np.int16(-32_000), np.float32(63_999.6)) == 32_000


def test_rows_that_are_not_quantized_are_skipped():
    problem = Problem()
    before = problem.alpha.copy()
    problem.bounds[2][[3, 17]] = np.inf
    problem.sweep()
    assert np.array_equal(problem.alpha[[3, 17]], before[[3, 17]])
    assert not np.array_equal(problem.alpha[4], before[4])


def test_a_sweep_is_applied_to_the_working_set_of_a_label():
    problem = Problem()
    rng = np.random.default_rng(1)
    rows = rng.permutation(N_SAMPLES)[:25].astype(np.int32)  # the first four are positives
    a = np.maximum(rng.standard_normal(25), 0).astype(np.float32)
    listed = np.sort(rng.permutation(30)[:15] + 20).astype(np.int32)  # a sweep over the rows from 20 to 50
    swept = rng.random(15).astype(np.float32) + np.float32(0.1)
    assert set(listed) & set(rows[:4]), "a positive is listed"
    now = dict(zip(listed.tolist(), swept, strict=True))
    expected = {int(row): now.get(int(row), 0) if 20 <= row < 50 else v for row, v in zip(rows[:4], a, strict=False)}
    old = zip(rows[4:], a[4:], strict=True)
    expected |= {int(row): value for row, value in old if not 20 <= row < 50 and value > 0}
    expected |= {row: value for row, value in now.items() if row not in rows[:4]}
    w, new, change = np.zeros(N_FEATURES, np.float32), *np.zeros((2, N_SAMPLES), np.float32)
    X = problem.indptr, problem.indices, problem.X.data, NOT_PACKED, no_dense(N_SAMPLES)[0]
    new_rows, new_a = apply_sweep(*X, rows, a, 4, 20, 50, listed, swept, new, change, w)
    assert new_rows[:4].tolist() == rows[:4].tolist()
    assert len(set(new_rows)) == len(new_rows)
    assert dict(zip(new_rows.tolist(), new_a, strict=True)) == pytest.approx(expected)
    signs, new_signs = np.where(np.arange(25) < 4, 1, -1), np.where(np.arange(len(new_rows)) < 4, 1, -1)
    moved = problem.X[new_rows].T @ (new_a * new_signs) - problem.X[rows].T @ (a * signs)
    np.testing.assert_allclose(w, moved, atol=1e-5)
    assert not new.any()
    assert not change.any()


def test_active_rows_of_lanes_are_sorted_by_row():
    rows = np.array([7, 3, 9, 3, 4, 5], np.int32)  # lane 0 has the first three, lane 1 none, lane 2 the others
    variables = np.array([0.5, 1, 2, 3, 0, 4], np.float32)
    indptr, lanes, values = sort_by_row(rows, variables, np.array([0, 3, 3, 6]), 3, 5)
    assert indptr.tolist() == [0, 2, 2, 3, 3, 4]  # of the rows 3 to 7; row 4 is active in no lane
    assert lanes.tolist() == [0, 2, 2, 0]
    assert values.tolist() == [1, 3, 4, 0.5]
