"""Costs per row and cell, from sample weights and propensities, against LIBLINEAR and repeated rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from tests.models.linear.problems import dense_weights, make_problem, naive_optimum
from unmissed import Features
from unmissed.errors import InputError
from unmissed.models import DiSMEC, LogisticOVR, PWDiSMEC
from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Constant, FromTable, costs
from unmissed.propensity.weighting import CONVEX

EXACT = {"tol": 1e-6, "prune": 0.0, "normalize": False, "n_jobs": 1}
X, Y = make_problem(31, n_samples=150, n_features=20, n_labels=6)
RNG = np.random.default_rng(4)
WEIGHTS = RNG.uniform(0.05, 6, 150)
P = sp.csr_matrix((RNG.uniform(0.05, 1, Y.nnz), Y.indices, Y.indptr), Y.shape)
FORMS = {
    "sparse": X,
    "dense": X.toarray(),
    "mixed": Features(sp.csr_matrix(X[:, 7:]), X[:, :7].toarray()),
}
KINDS = {True: "regularized", False: "none", "free": "free"}


def objective(rows, y, w, b, cost, kind):
    slack = np.maximum(0, 1 - np.where(y, 1, -1) * (rows @ w + b))
    return 0.5 * w @ w + (0.5 * b * b if kind == "regularized" else 0) + cost @ slack**2


def liblinear(rows, y, cost, fit_bias):
    """LIBLINEAR's objective and scores with a cost per row."""
    svc = LinearSVC(C=1.0, fit_intercept=fit_bias, dual=False, tol=1e-10, max_iter=10_000)
    svc.fit(rows.astype(float), y, sample_weight=cost)
    bias = float(svc.intercept_[0]) if fit_bias else 0.0
    return objective(rows, y, svc.coef_[0], bias, cost, "regularized"), svc.decision_function(rows)


def solution(model):
    """Return the stored arrays of a fitted model."""
    pieces = [model.pieces_.get(key) for key in sorted(model.pieces_.listed())]
    return {(piece.key, name): array for piece in pieces for name, array in piece.arrays.items()}


def assert_same_bits(one, two):
    first, second = solution(one), solution(two)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert np.array_equal(array, second[name]), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_bias", [True, False])
@pytest.mark.parametrize("C", [0.05, 3.0])
def test_weights_of_rows_are_those_of_liblinear(form, fit_bias, C):
    model = DiSMEC(C=C, fit_bias=fit_bias, **EXACT).fit(FORMS[form], Y, sample_weight=WEIGHTS)
    order = np.append(np.arange(7, 20), np.arange(7)) if form == "mixed" else np.arange(20)
    rows, shard = X.toarray()[:, order], model.shards_[0]
    assert (shard.gap <= 1e-6).all()
    for label in range(6):
        y = Y[:, [label]].toarray().ravel() > 0
        best, scores = liblinear(rows, y, C * WEIGHTS, fit_bias)
        assert shard.objective[label] == pytest.approx(best, rel=1e-5)
        w, b = dense_weights(shard, 20)[label].astype(float), float(shard.bias[label])
        assert objective(rows, y, w, b, C * WEIGHTS, "regularized") == pytest.approx(best, rel=1e-5)
        assert model.decision_function(FORMS[form], [label])[:, 0] == pytest.approx(scores, abs=0.02)


@pytest.mark.parametrize("weighting", CONVEX)
def test_propensities_of_cells_are_costs_of_positives_in_liblinear(weighting):
    model = PWDiSMEC(weighting=weighting, C=0.4, **EXACT)
    model.fit(X, Y, cell_propensity=P, sample_weight=WEIGHTS)
    weighted_counts = Y.T @ WEIGHTS
    for label in range(6):
        y, p = Y[:, [label]].toarray().ravel() > 0, P[:, [label]].toarray().ravel()
        of_cells = costs(weighting, np.where(y, p, 1), np.full(150, weighted_counts[label])).positive
        cost = 0.4 * WEIGHTS * np.where(y, of_cells, 1)
        best, _ = liblinear(X.toarray(), y, np.maximum(cost, 1e-12), True)
        assert model.shards_[0].objective[label] == pytest.approx(best, rel=1e-5)
        assert model.shards_[0].gap[label] <= 1e-6


@pytest.mark.parametrize("C", [0.05, 20.0])
def test_a_free_bias_reaches_the_optimum_with_costs_of_cells(C):
    model = PWDiSMEC(weighting="surrogate", C=C, fit_bias="free", **EXACT | {"tol": 1e-5})
    shard = model.fit(X, Y, cell_propensity=P, sample_weight=WEIGHTS).shards_[0]
    for label in range(6):
        y, p = Y[:, [label]].toarray().ravel() > 0, P[:, [label]].toarray().ravel()
        best = naive_optimum(X, y, C * WEIGHTS * (2 / np.where(y, p, 1) - 1), C * WEIGHTS, "free")
        assert shard.objective[label] == pytest.approx(best, rel=3e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", [DiSMEC(**EXACT), PWDiSMEC(weighting="balanced", **EXACT)])
def test_integer_weights_are_repeated_rows(form, model):
    times = np.random.default_rng(1).integers(0, 4, 150)
    kept = np.repeat(np.arange(150), times)
    weighted = model.fit(FORMS[form], Y, sample_weight=times)
    found, labels, n_samples = weighted.shards_[0], weighted.label_counts_, weighted.n_samples_
    scores = weighted.decision_function(FORMS[form])
    assert labels.dtype == np.int64
    repeated = model.fit(FORMS[form][kept], Y[kept])
    expected = repeated.shards_[0]
    assert found.objective == pytest.approx(expected.objective, rel=3e-6), "both are certified to 1e-6"
    assert scores == pytest.approx(repeated.decision_function(FORMS[form]), abs=0.01)
    assert np.array_equal(labels, repeated.label_counts_)
    assert n_samples == repeated.n_samples_ == times.sum()


@pytest.mark.parametrize("weighted", [{}, {"cell_propensity": P}])
def test_a_weight_of_all_rows_is_a_factor_of_C(weighted):
    settings = EXACT | {"propensity": None if weighted else FromTable(np.linspace(0.2, 1, 6)), "weighting": "surrogate"}
    twice = PWDiSMEC(C=0.25, **settings).fit(X, Y, sample_weight=np.full(150, 4.0), **weighted)
    once = PWDiSMEC(C=1.0, **settings).fit(X, Y, **weighted)
    assert_same_bits(once, twice)
    odd = PWDiSMEC(C=1 / 0.7, **settings).fit(X, Y, sample_weight=np.full(150, 0.7), **weighted)
    assert odd.shards_[0].objective == pytest.approx(once.shards_[0].objective, rel=3e-6)
    assert_same_bits(once, PWDiSMEC(C=1.0, **settings).fit(X, Y, sample_weight=np.ones(150), **weighted))


@pytest.mark.parametrize("weighting", CONVEX)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_propensity_in_all_cells_of_a_label_is_that_of_the_label_bit_for_bit(weighting, form):
    settings = {"weighting": weighting, "n_jobs": 1, "block_size": 4}
    for p in (np.full(6, 0.3), np.linspace(0.1, 1, 6)):
        of_labels = PWDiSMEC(propensity=FromTable(p), **settings).fit(FORMS[form], Y)
        of_cells = PWDiSMEC(**settings).fit(FORMS[form], Y, cell_propensity=Y.multiply(p[None, :]))
        assert_same_bits(of_labels, of_cells)
    constant = PWDiSMEC(propensity=Constant(0.3), **settings).fit(FORMS[form], Y)
    assert_same_bits(constant, PWDiSMEC(**settings).fit(FORMS[form], Y, cell_propensity=0.3 * Y.astype(float)))


def test_labels_with_the_same_rows_and_other_propensities_have_other_weights():
    twice = sp.csr_matrix(sp.hstack([Y[:, :1]] * 3))
    cells = twice.multiply(np.array([[0.2, 0.2, 0.9]]))
    shard = PWDiSMEC(weighting="surrogate", **EXACT).fit(X, twice, cell_propensity=cells).shards_[0]
    assert shard.objective[0] == shard.objective[1] != shard.objective[2]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    spread=st.sampled_from([0.0, 2.0, 12.0]),
    cost=st.sampled_from([1e-2, 1.0, 1e4]),
    fit_bias=st.sampled_from([True, False, "free"]),
    n_dense=st.sampled_from([0, 2, 4]),
)
def test_certificates_bound_the_objective_and_the_optimum_whatever_the_costs(seed, spread, cost, fit_bias, n_dense):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 30)), 4
    rows = rng.standard_normal((n, d)).astype(np.float32)
    y = rows @ rng.standard_normal(d) + rng.standard_normal(n) > 0.5
    weights, cells = 10 ** rng.uniform(-spread, spread, n), cost * 10 ** rng.uniform(-1, 1, int(y.sum()))
    positives = np.flatnonzero(y).astype(np.int32)
    block = LabelBlock(0, np.array([0, len(positives)]), positives, cells, np.full(1, cost), per_cell=True)
    features = Features(sp.csr_matrix(rows[:, n_dense:]), rows[:, :n_dense] if n_dense else None)
    shard = SquaredHinge(prune=0.0, fit_bias=fit_bias).prepare(features, weights=weights).solve(block)
    of_rows = weights * cost
    of_rows[positives] = weights[positives] * cells
    order = np.append(np.arange(n_dense, d), np.arange(n_dense))
    w, b = dense_weights(shard, d)[0].astype(np.longdouble), np.longdouble(shard.bias[0])
    reached = objective(rows[:, order].astype(np.longdouble), y, w, b, of_rows, KINDS[fit_bias])
    assert reached <= shard.objective[0]
    if spread < 12:
        assert shard.gap[0] <= 1e-3
        best = naive_optimum(sp.csr_matrix(rows), y, of_rows, of_rows, KINDS[fit_bias])
        assert (1 - shard.gap[0]) * shard.objective[0] <= best * (1 + 1e-9) + 1e-12


def test_newtons_method_takes_costs_of_cells():
    hard = DiSMEC(C=1e5, fit_bias="free", tol=1e-4, prune=0.0, normalize=False, n_jobs=1)
    shard = hard.fit(20 * X, Y, sample_weight=WEIGHTS).shards_[0]
    assert (shard.gap <= 1e-4).all()
    y = Y[:, [1]].toarray().ravel() > 0
    assert shard.objective[1] <= naive_optimum(20 * X, y, 1e5 * WEIGHTS, 1e5 * WEIGHTS, "free") * (1 + 1e-3)


def test_rows_of_weight_zero_are_left_out():
    kept = np.arange(0, 150, 2)
    weights = np.zeros(150)
    weights[kept] = WEIGHTS[kept]
    left_out = PWDiSMEC(n_jobs=1).fit(X, Y, sample_weight=weights, cell_propensity=P)
    absent = PWDiSMEC(n_jobs=1).fit(X[kept], Y[kept], sample_weight=WEIGHTS[kept], cell_propensity=P[kept])
    assert_same_bits(left_out, absent)
    assert left_out.label_counts_ == pytest.approx(Y[kept].T @ WEIGHTS[kept])


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (P.toarray(), "must be a sparse matrix"),
        (P[:, :5], r"has the shape \(150, 5\), Y has \(150, 6\)"),
        (P[::-1], "has (no value for a label of Y|a value for a label that Y does not have): row 0"),
        (sp.csr_matrix((0 * P.data, P.indices, P.indptr), P.shape), "is 0 in row"),
        (2 * P, "expected above 0 and at most 1"),
    ],
)
def test_propensities_that_do_not_fit_to_the_labels_are_refused_in_one_line(cells, what):
    with pytest.raises(InputError, match=what) as refused:
        PWDiSMEC().fit(X, Y, cell_propensity=cells)
    assert "\n" not in str(refused.value)


def test_models_that_cannot_use_them_refuse_propensities_of_cells_and_weights_that_are_no_counts():
    for model in (DiSMEC(), LogisticOVR()):
        with pytest.raises(InputError, match="takes no propensities per cell"):
            model.fit(X, Y, cell_propensity=P)
    with pytest.raises(InputError, match="expected non-negative integers"):
        LogisticOVR().fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(InputError, match="unbiased weighting takes one propensity per label"):
        PWDiSMEC(weighting="unbiased").fit(X, Y, cell_propensity=P)
    with pytest.raises(InputError, match="leave one of them out"):
        PWDiSMEC(propensity=0.5).fit(X, Y, cell_propensity=P)
    rows = TrainingData.check(X, Y).weighted(WEIGHTS)
    with pytest.raises(InputError, match="LogisticOVR takes no weights of rows"):
        LogisticOVR().fit_rows(rows)


def test_parts_of_rows_keep_their_weights_and_the_propensities_of_their_cells():
    rows = TrainingData.check(X, Y).weighted(WEIGHTS).with_cell_propensity(P)
    chosen, labels = np.array([3, 17, 90]), np.array([1, 4])
    part = rows.take(chosen, labels)
    assert np.array_equal(part.weights, WEIGHTS[chosen])
    assert (part.cell_propensity != P[chosen][:, labels]).nnz == 0
    assert np.array_equal(part.cell_propensity.indices, part.Y.indices)
    assert part.total_weight == pytest.approx(WEIGHTS[chosen].sum())
