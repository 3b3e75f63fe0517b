"""Sweeps in lanes, in whole numbers: an epoch of coordinate ascent for each label, whoever is beside it."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.kernels.lanes import _moved, by_row, follow, lane_sweep
from unmissed.kernels.near import round_rows
from unmissed.kernels.transpose import round_weights
from unmissed.kernels.vectors import LANES

pytestmark = pytest.mark.kernel
N_SAMPLES, N_FEATURES = 60, 12
H_POSITIVE, H_NEGATIVE = np.float32(0.1), np.float32(0.5)
NOT_PACKED = np.uint32(2**32 - 1)


def nothing(n_samples):
    """What rare features give to rows where there are none."""
    return np.zeros(n_samples + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)


class Problem:
    """Random rows, and labels whose positives are every tenth row, begun at the lane's number."""

    def __init__(self, seed=0, lanes=LANES, density=0.4):
        rng = np.random.default_rng(seed)
        self.X = sp.random(N_SAMPLES, N_FEATURES, density, "csr", np.float32, rng)
        self.indptr, self.indices = self.X.indptr.astype(np.int64), self.X.indices.astype(np.uint32)
        self.numbers = np.empty(self.X.nnz, np.int16)
        self.bounds = tuple(np.empty(N_SAMPLES, np.float32) for _ in range(3))
        round_rows(self.indptr, self.X.data, self.numbers, *self.bounds)
        self.extra = np.zeros((N_SAMPLES, LANES))
        self.given, self.rare_squares = nothing(N_SAMPLES), np.zeros(N_SAMPLES, np.float32)
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
        self.lanes = np.ones((5, LANES), np.float32)
        self.lanes[:] = reach / 32_000, squares, reach**2, np.full(LANES, H_POSITIVE), np.full(LANES, H_NEGATIVE)

    def sweep(self):
        """Sweep; return the weights that it left, by label."""
        whole = np.empty((N_FEATURES, LANES), np.int16)
        round_weights(self.w, self.lanes[0].astype(np.float64), whole)
        starts = np.append(0, np.cumsum(self.Y.sum(axis=1))).astype(np.int64)
        positives = starts, np.nonzero(self.Y)[1].astype(np.int32)
        X = (self.indptr, self.indices, self.numbers), self.given, self.rare_squares, self.bounds, self.norms
        lane, row = np.nonzero(self.alpha.T)
        starts = np.searchsorted(lane, np.arange(LANES + 1))
        awake = by_row(row.astype(np.int32), self.alpha[row, lane], starts, 0, N_SAMPLES)
        lists = np.empty((LANES, N_SAMPLES), np.int32), np.empty((LANES, N_SAMPLES), np.float32)
        count = np.zeros(LANES, np.int64)
        lane_sweep(0, *X, np.float32(1), whole, self.lanes, self.bias, positives, awake, *lists, count)
        self.alpha[:] = 0
        for at in range(LANES):
            rows, variables = (one[at, : count[at]] for one in lists)
            assert (np.diff(rows) > 0).all()
            assert (variables > 0).all()
            self.alpha[rows, at] = variables
        back = np.empty((LANES, N_FEATURES), np.float32)
        for at in range(LANES):  # a unit weight tells where a lane stands
            unit, place = np.zeros((LANES, N_FEATURES), np.float32), np.empty((N_FEATURES, LANES), np.int16)
            unit[at] = 1
            round_weights(unit, np.ones(LANES), place)
            back[at] = (whole * place).sum(axis=1) * self.lanes[0, at]
        return back


def epoch(problem, lane):
    """The same for one label, in float64 and by the book; return its weights, bias and dual variables."""
    X = problem.X.toarray().astype(np.float64)
    w, b = problem.w[lane].astype(np.float64), float(problem.bias[lane])
    a = problem.alpha[:, lane].astype(np.float64)
    for row in range(N_SAMPLES):
        z, h = (1, H_POSITIVE) if problem.Y[row, lane] else (-1, H_NEGATIVE)
        score = X[row] @ w + b + problem.extra[row, lane] - (problem.rare_squares[row] * a[row] if z < 0 else 0)
        step = max(-(z * score - 1 + a[row] * h) / (problem.norms[row] + h), -a[row])
        a[row] += step
        w, b = w + step * z * X[row], b + step * z
    return w, b, a


def check_epoch(problem, before, w, lanes):
    """What a sweep left is what an epoch by the book leaves."""
    for lane in range(lanes):
        expected_w, expected_b, expected_a = epoch(before, lane)
        np.testing.assert_allclose(problem.alpha[:, lane], expected_a, atol=3e-3)
        np.testing.assert_allclose(w[lane], expected_w, atol=5e-3)
        assert problem.bias[lane] == pytest.approx(expected_b, abs=3e-3)


@pytest.mark.parametrize("lanes", [LANES, 3])
def test_a_sweep_is_an_epoch_of_coordinate_ascent(lanes):
    problem, before = Problem(lanes=lanes), Problem(lanes=lanes)
    w = problem.sweep()
    check_epoch(problem, before, w, lanes)
    for lane in range(lanes):
        assert problem.lanes[1, lane] == pytest.approx(w[lane] @ w[lane], rel=1e-2), "the length is kept"
    assert (problem.alpha >= 0).all()


def test_a_sweep_counts_in_what_rare_features_give_and_what_a_row_has_of_them():
    problem, before = Problem(), Problem()
    for one in (problem, before):
        rng = np.random.default_rng(4)
        one.rare_squares = rng.random(N_SAMPLES).astype(np.float32)
        one.norms += one.rare_squares
        given = sp.csr_matrix(rng.integers(0, 9, (N_SAMPLES, LANES)) * (rng.random((N_SAMPLES, LANES)) < 0.1))
        given.data *= 10**6  # in whole numbers
        one.given = given.indptr.astype(np.int64), given.indices.astype(np.int32), given.data.astype(np.int32)
        one.extra = given.toarray() * one.bounds[0][:, None] * one.lanes[0]
    assert problem.extra.max() > 0.1
    w = problem.sweep()
    check_epoch(problem, before, w, LANES)


def test_a_label_gets_the_same_bits_beside_others_and_alone():
    together, alone = Problem(), Problem(lanes=1)
    np.testing.assert_array_equal(together.sweep()[0], alone.sweep()[0])
    assert together.alpha[:, 0].tobytes() == alone.alpha[:, 0].tobytes()
    assert not alone.alpha[:, 1:].any(), "lanes without a label stay as they are"


def test_weights_that_would_outgrow_their_whole_numbers_stay():
    free, bound = Problem(), Problem()
    bound.lanes[2, 5] = bound.lanes[1, 5]
    w = bound.sweep()
    free.sweep()
    assert (w[5] ** 2).sum() <= bound.lanes[2, 5] * 1.01
    assert not np.array_equal(bound.alpha[:, 5], free.alpha[:, 5])
    others = np.arange(LANES) != 5
    np.testing.assert_array_equal(bound.alpha[:, others], free.alpha[:, others])


@pytest.mark.parametrize("lanes", [1, LANES])
def test_weights_may_move_by_more_than_16_bits_hold(lanes):
    numbers, bounds = np.empty(2, np.int16), tuple(np.empty(2, np.float32) for _ in range(3))
    indptr = np.arange(3, dtype=np.int64)
    round_rows(indptr, np.array([1, -1], np.float32), numbers, *bounds)  # both are positives: one weight changes sides
    X = (indptr, np.zeros(2, np.uint32), numbers), nothing(2), np.zeros(2, np.float32), bounds, np.ones(2, np.float32)
    of_lanes = np.tile(np.array([[1 / 32_000], [0], [1], [1e-3], [1e-3]], np.float32), LANES)
    weights, lists = np.zeros((1, LANES), np.int16), (np.zeros((LANES, 2), np.int32), np.zeros((LANES, 2), np.float32))
    bias = np.full(LANES, -2, np.float32)
    bias[:lanes] = 0
    positives = lanes * indptr, np.tile(np.arange(lanes, dtype=np.int32), 2)
    awake = np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    lane_sweep(0, *X, np.float32(0), weights, of_lanes, bias, positives, awake, *lists, np.zeros(LANES, np.int64))
    assert lists[0][:lanes].tolist() == [[0, 1]] * lanes
    assert lists[1][:lanes] == pytest.approx(np.tile([0.999, 1.997], (lanes, 1)), abs=1e-3)
    assert np.sort(weights[0])[:lanes] == pytest.approx(np.full(lanes, -32_000 * 0.998), abs=32)


def test_a_whole_weight_stops_at_the_largest():
    assert _moved(np.int16(32_000), np.float32(5_000)) == 32_767
    assert _moved(np.int16(-32_000), np.float32(-5_000)) == -32_767
    assert _moved(np.int16(-32_000), np.float32(63_999.6)) == 32_000


def test_rows_that_were_not_rounded_stay_out():
    problem = Problem()
    before = problem.alpha.copy()
    problem.bounds[2][[3, 17]] = np.inf
    problem.sweep()
    assert np.array_equal(problem.alpha[[3, 17]], before[[3, 17]])
    assert not np.array_equal(problem.alpha[4], before[4])


def test_labels_follow_what_a_sweep_did_to_their_rows():
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
    X = problem.indptr, problem.indices, problem.X.data, NOT_PACKED
    new_rows, new_a = follow(*X, rows, a, 4, 20, 50, listed, swept, new, change, w)
    assert new_rows[:4].tolist() == rows[:4].tolist()
    assert len(set(new_rows)) == len(new_rows)
    assert dict(zip(new_rows.tolist(), new_a, strict=True)) == pytest.approx(expected)
    signs, new_signs = np.where(np.arange(25) < 4, 1, -1), np.where(np.arange(len(new_rows)) < 4, 1, -1)
    moved = problem.X[new_rows].T @ (new_a * new_signs) - problem.X[rows].T @ (a * signs)
    np.testing.assert_allclose(w, moved, atol=1e-5)
    assert not new.any()
    assert not change.any()


def test_awake_rows_of_lanes_are_sorted_by_row():
    rows = np.array([7, 3, 9, 3, 4, 5], np.int32)  # lane 0 has the first three, lane 1 none, lane 2 the others
    variables = np.array([0.5, 1, 2, 3, 0, 4], np.float32)
    indptr, lanes, values = by_row(rows, variables, np.array([0, 3, 3, 6]), 3, 5)
    assert indptr.tolist() == [0, 2, 2, 3, 3, 4]  # of the rows 3 to 7; in 4 nobody is awake
    assert lanes.tolist() == [0, 2, 2, 0]
    assert values.tolist() == [1, 3, 4, 0.5]
