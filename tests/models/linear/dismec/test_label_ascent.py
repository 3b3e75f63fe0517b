"""Packed rows, and dual coordinate ascent over them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tests.models.linear.problems import make_problem, solve
from unmissed.models.linear.design import lay_out
from unmissed.models.linear.dismec.label_ascent import _step, ascend, best_bias_shift
from unmissed.models.linear.dismec.packed_design import PackedDesign
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.numerics.packed_rows import pack
from unmissed.settings import SETTINGS


@pytest.mark.kernel
@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n_bits=st.integers(1, 19), scale=st.sampled_from([1e-38, 1e-3, 1.0, 1e18]))
def test_a_packed_entry_holds_the_feature_and_approximates_the_value(seed, n_bits, scale):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2**n_bits, 30).astype(np.uint32)
    values = (rng.standard_normal(30) * scale).astype(np.float32)
    entries = np.empty(30, np.uint32)
    pack(features, values.view(np.uint32), n_bits, entries)
    assert np.array_equal(entries & np.uint32(2**n_bits - 1), features)
    off = np.abs(entries.view(np.float32).astype(np.float64) - values)
    assert (off <= 2.0 ** (n_bits - 24) * np.abs(values) + 2.0 ** (n_bits - 149)).all()  # half of the last bit left


@pytest.mark.kernel
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dense", [0, 5, 14])
@pytest.mark.parametrize("exact", [True, False])
def test_an_epoch_solves_for_one_variable_after_the_other(exact, n_dense, weighted):
    X, _ = make_problem(3, n_samples=40, n_features=14, n_labels=1)
    E = X[:, :n_dense].toarray()
    weights = np.random.default_rng(1).uniform(0.2, 5, 40) if weighted else None
    design = lay_out(sp.csr_matrix(X[:, n_dense:]), bias=True, seed=0, dense=E, weights=weights)
    laid = PackedDesign(design, QuantizedRows(design))
    rows, signs = np.arange(40, dtype=np.int32), np.ones(40)
    signs[5:] = -1
    h_positives = np.linspace(0.3, 0.3 + weighted, 5, dtype=np.float32)
    h_of_rows = h_positives, np.float32(0.5), design.inverse_weights
    hs = np.append(h_positives, 0.5 / design.weights[5:] if weighted else np.full(35, 0.5))
    a, w = np.zeros(40, np.float32), np.zeros(design.n_features, np.float32)
    pairs = np.zeros(2 * design.n_features, np.float32)
    state = a, np.zeros(40, np.bool_), w, pairs, np.float32(0), 0.0
    arguments = (design.norms, design.use_bias, rows, h_of_rows, *state, 0.0, 200, 1, True)
    assert laid.rows[4][1].dtype == (np.int16 if n_dense else np.float32)
    bias, square, _ = ascend(*(laid.exact if exact else laid.rows), *arguments)
    dense = np.zeros((40, design.n_features))
    dense[design.position_of_row, :n_dense] = E
    dense[np.repeat(np.arange(40), np.diff(design.indptr)), design.indices] = design.values
    gradient = signs * (dense @ (dense.T @ (a * signs)) + np.sum(a * signs)) - 1 + hs * a
    assert bias == pytest.approx(np.sum(a * signs), abs=1e-4)
    assert square == pytest.approx(w @ w, rel=1e-3 if exact else 0.02)
    limit = 1e-4 if exact else 1e-3
    assert np.abs(np.where(a > 0, gradient, np.minimum(gradient, 0))).max() < limit
    assert (a > 0).any()


@pytest.mark.kernel
@settings(deadline=None)
@given(
    gradient=st.floats(-3, 3),
    curvature=st.floats(0.5, 3),
    old=st.floats(0, 2),
    cross_derivative=st.floats(-3, 3),
    growth_curvature=st.floats(0.1, 100),
    negative=st.booleans(),
)
def test_a_step_and_the_growth_of_all_negatives_are_jointly_optimal(
    gradient, curvature, old, cross_derivative, growth_curvature, negative
):
    share = old if negative else 0.0
    step, growth, joint_curvature = _step(gradient, curvature, old, share, cross_derivative, growth_curvature, 1.0)
    if joint_curvature == curvature:
        assert step == pytest.approx(max(-gradient / curvature, -old), abs=1e-6)
        assert growth == pytest.approx(0, abs=1e-6)
        return
    assert cross_derivative * step + growth_curvature * growth == pytest.approx(0, abs=1e-9)
    left = gradient + curvature * step + cross_derivative * growth
    now = old + step + share * growth
    assert now >= -1e-12
    assert left == pytest.approx(0, abs=1e-9) or (left > 0 and now == pytest.approx(0, abs=1e-12))
    gain = -(
        gradient * step
        + 0.5 * curvature * step**2
        + cross_derivative * step * growth
        + 0.5 * growth_curvature * growth**2
    )
    assert -step * (gradient + 0.5 * joint_curvature * step) == pytest.approx(gain, abs=1e-9)


def _similar_negatives(free):
    """Return correlated negatives with a few positives, as arguments of `ascend`."""
    rng = np.random.default_rng(5)
    rows = 0.9 * rng.random(40) + 0.1 * rng.standard_normal((150, 40)) * (rng.random((150, 40)) < 0.3)
    X = sp.csr_matrix((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    design = lay_out(X, bias=True, seed=0)
    signs = np.where(np.arange(150) < 4, 1, -1).astype(np.float32)
    center = np.float32(-0.5 if free else 0)
    return design, signs, _halves(4), center


def _halves(n_positives):
    """Return h = 0.5 of all rows, as `ascend` takes it."""
    return np.full(n_positives, 0.5, np.float32), np.float32(0.5), np.empty(0, np.float32)


@pytest.mark.parametrize("free", [False, True])
def test_weights_bias_and_variables_agree_after_negatives_were_scaled(free):
    design, signs, h_of_rows, bias = _similar_negatives(free)
    center = float(bias)
    a, w = np.zeros(150, np.float32), np.zeros(design.n_features, np.float32)
    pairs = np.zeros(2 * design.n_features, np.float32)
    dense = np.zeros((150, design.n_features))
    dense[np.repeat(np.arange(150), np.diff(design.indptr)), design.indices] = design.values
    duals = []
    for _ in range(6):
        rows = np.arange(150, dtype=np.int32)
        X = *PackedDesign(design, QuantizedRows(design)).exact, design.norms, design.use_bias
        state = a, np.zeros(150, np.bool_), w, pairs, bias, float(w @ w)
        bias, square, _ = ascend(*X, rows, h_of_rows, *state, 0.0, 1, 3, True)
        assert (a >= 0).all()
        assert square == pytest.approx(w @ w, rel=1e-4)
        offset = float(np.sum(a * signs))
        assert w == pytest.approx(dense.T @ (a * signs), abs=1e-4)
        assert bias == pytest.approx(center + offset, abs=1e-4)
        duals.append(np.sum(a - 0.25 * a * a) - 0.5 * w @ w - 0.5 * offset**2 - center * offset)
    assert np.all(np.diff(duals) > -1e-4)
    gradient = signs * (dense @ w + bias) - 1 + 0.5 * a
    assert np.abs(np.where(a > 0, gradient, np.minimum(gradient, 0))).max() < 1e-4


def test_write_back_does_not_change_variables_and_bias():
    design, _, h_of_rows, bias = _similar_negatives(False)
    found = []
    for write_back in (True, False):
        a, w = np.full(150, 0.01, np.float32), np.zeros(design.n_features, np.float32)
        rows, pairs = np.arange(150, dtype=np.int32), np.zeros(2 * design.n_features, np.float32)
        X = *PackedDesign(design, QuantizedRows(design)).exact, design.norms, design.use_bias
        state = a, np.zeros(150, np.bool_), w, pairs, bias, 0.0
        now, _, epochs = ascend(*X, rows, h_of_rows, *state, 1e-4, 9, 3, write_back)
        assert w.any() == write_back
        found.append((a.tobytes(), float(now), epochs))
    assert found[0] == found[1]


def test_the_first_epoch_skips_inactive_rows_that_are_far():
    design, _, h_of_rows, bias = _similar_negatives(False)
    X = *PackedDesign(design, QuantizedRows(design)).exact, design.norms, design.use_bias
    rows, far = np.arange(150, dtype=np.int32), np.arange(150) % 3 == 0
    moved = []
    for max_epochs in (1, 200):
        a, w = np.zeros(150, np.float32), np.zeros(design.n_features, np.float32)
        a[3] = 0.01
        state = a, far.copy(), w, np.zeros(2 * design.n_features, np.float32), bias, 0.0
        ascend(*X, rows, h_of_rows, *state, 0.0, max_epochs, 3, True)
        moved.append(set(np.flatnonzero(a != 0)))
    active = {3} | set(np.flatnonzero(~far))
    assert moved[0] <= active
    assert not moved[1] <= active


def test_rows_that_cannot_be_quantized_are_solved_in_float32():
    E = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    for scale, dtype in ((1, np.int16), (1e-15, np.float32)):
        E[7] *= np.float32(scale)
        design = lay_out(sp.csr_matrix((20, 0), dtype=np.float32), bias=True, seed=0, dense=E)
        assert PackedDesign(design, QuantizedRows(design)).rows[4][1].dtype == dtype


def test_correlated_negatives_take_few_epochs():
    design, _, h_of_rows, bias = _similar_negatives(False)
    a, w = np.zeros(150, np.float32), np.zeros(design.n_features, np.float32)
    pairs = np.zeros(2 * design.n_features, np.float32)
    rows = np.arange(150, dtype=np.int32)
    far = np.zeros(150, np.bool_)
    X = *PackedDesign(design, QuantizedRows(design)).exact, design.norms, design.use_bias
    arguments = *X, rows, h_of_rows, a, far, w, pairs
    bias, square, _ = ascend(*arguments, bias, 0.0, 0.1, 1, 3, True)
    _, _, epochs = ascend(*arguments, bias, square, 1e-6, 200, 3, True)
    assert epochs <= 4  # 6 without joint steps


def test_weights_much_longer_than_the_working_set_are_not_split():
    X = sp.csr_matrix(np.eye(3, 60, dtype=np.float32))
    design = lay_out(sp.vstack([X, sp.csr_matrix(np.eye(60, dtype=np.float32))]).tocsr(), bias=True, seed=0)
    rows = np.sort(design.position_of_row[:3])
    signs, h_of_rows = np.array([1, -1, -1], np.float32), _halves(1)
    w, pairs = np.zeros(60, np.float32), np.full(120, np.nan, np.float32)
    a, bias = np.full(3, 0.1, np.float32), np.float32(-0.1)
    for at, row in enumerate(rows):
        w[design.indices[design.indptr[row]]] += signs[at] * a[at]
    X = *PackedDesign(design, QuantizedRows(design)).exact, design.norms, design.use_bias
    state = a, np.zeros(3, np.bool_), w, pairs, bias, float(w @ w)
    bias, square, _ = ascend(*X, rows, h_of_rows, *state, 0.0, 99, 1, True)
    assert np.isnan(pairs).all()
    assert square == pytest.approx(w @ w, rel=1e-4)
    Q = np.outer(signs, signs) + 1.5 * np.eye(3)  # rows have one feature each, their own, and the bias
    assert Q @ a == pytest.approx(np.ones(3), abs=1e-4)
    assert bias == pytest.approx(signs @ a, abs=1e-5)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n_positives=st.integers(0, 30), cost=st.sampled_from([0.1, 1.0, 20.0]))
def test_the_best_shift_of_the_bias_is_where_the_objective_is_least(seed, n_positives, cost):
    rng = np.random.default_rng(seed)
    slack, scores = rng.exponential(0.3, 200).astype(np.float32), rng.normal(0, 1, n_positives)
    weights, costs = rng.choice([np.ones(200), rng.uniform(0.01, 9, 200)]), cost * rng.uniform(0.1, 5, n_positives)

    def objective(shift):
        missed = np.maximum(0, 1 - scores - shift) ** 2
        over = np.maximum(0, slack + shift) ** 2
        return 0.5 * (shift - 0.4) ** 2 + 0.7 * np.sum(weights * over) + np.sum(costs * missed)

    shift = best_bias_shift(slack, weights, scores, costs, 0.7, -0.4)
    if (weights == 1).all():
        assert shift == best_bias_shift(slack, np.empty(0), scores, costs, 0.7, -0.4)
    assert shift <= 0
    best = minimize_scalar(objective, bounds=(-5, 0), method="bounded", options={"xatol": 1e-9}).x
    assert objective(shift) <= objective(best) + 1e-4


def test_too_many_features_to_pack_are_solved_unpacked(monkeypatch):
    X, Y = make_problem(4, n_samples=60, n_features=12, n_labels=3)
    before = solve(SquaredHinge(tol=1e-5), X, Y)
    monkeypatch.setattr(SETTINGS, "feature_bits", 2)
    design = lay_out(X, bias=True, seed=0)
    assert PackedDesign(design, QuantizedRows(design)).rows[1] is design.indices
    after = solve(SquaredHinge(tol=1e-5), X, Y)
    assert (after.gap <= 1e-5).all()
    assert after.objective == pytest.approx(before.objective, rel=2e-5)
