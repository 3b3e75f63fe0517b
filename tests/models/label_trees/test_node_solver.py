"""The classifiers of a tree node: optimum, certificates, pruning and quantization."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import dense_weights, make_problem, solve
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.models.label_trees.dense_node_solver import ColumnAscent
from unmissed.models.label_trees.node_kernels import list_positives
from unmissed.models.label_trees.node_problem import NodeRows
from unmissed.models.label_trees.node_solver import NodeSolver, _DualAscent
from unmissed.models.linear.dismec.solver import SquaredHinge

pytestmark = pytest.mark.kernel
PARTS = {"sparse": 0, "dense": 1.0, "mixed": 0.4}  # fraction of the features that are dense


def in_parts(X, fraction):
    """Return the features of a sparse matrix, the last ones as a dense part."""
    n_sparse = round((1 - fraction) * X.shape[1])
    sparse, dense = sp.csr_matrix(X[:, :n_sparse]), np.ascontiguousarray(X[:, n_sparse:].toarray())
    return Features(sparse if n_sparse else None, dense if dense.shape[1] else None)


def make_node(solver, X, Y, costs=None, negative=1.0, rows=None, dense=0):
    """Return the training problem of the columns of Y over `rows` of X; `costs` has the shape of Y."""
    X, Y = sp.csr_matrix(X), sp.csr_matrix(Y)
    rows = np.arange(X.shape[0]) if rows is None else rows
    design, row_ids = solver.lay_out(in_parts(X, dense), rows, 0)
    held = sp.csr_matrix(Y[row_ids])
    costs = np.ones(Y.shape) if costs is None else costs
    paid = costs[row_ids[np.repeat(np.arange(len(row_ids)), np.diff(held.indptr))], held.indices]
    return NodeRows(design, held.indptr.astype(np.int64), held.indices, paid, negative, Y.shape[1])


def solve_node(solver, X, Y, costs=None, negative=1.0, rows=None, dense=0):
    """Solve the columns of Y over `rows` of X; `costs` has the shape of Y."""
    return solver.solve(make_node(solver, X, Y, costs, negative, rows, dense), seed=3)


def dense(node, n_features):
    """The weights as a dense (n_columns, n_features) matrix."""
    W = np.zeros((len(node.bias), n_features))
    features = np.repeat(node.features, node.counts.astype(int) + 1)
    W[node.columns, features] = node.weights * node.scale[node.columns].astype(float)
    W[:, n_features - node.dense.shape[1] :] += node.dense * node.scale[:, None].astype(float)
    return W


def objective(X, Y, W, b, costs, negative=1.0):
    """1/2 |w|^2 + 1/2 b^2 + sum of costs times squared hinge, per column."""
    Y = Y.toarray()
    scores = X @ W.T + b
    loss = np.where(Y, costs * np.maximum(0, 1 - scores) ** 2, negative * np.maximum(0, 1 + scores) ** 2)
    return 0.5 * (W**2).sum(axis=1) + 0.5 * b**2 + loss.sum(axis=0)


@pytest.mark.parametrize("n_labels", [1, 2, 5])
@pytest.mark.parametrize("part", PARTS)
def test_each_column_reaches_the_optimum_of_its_problem(n_labels, part):
    X, Y = make_problem(1, n_labels=n_labels)
    node = solve_node(NodeSolver(tol=1e-4, prune=0), X, Y, dense=PARTS[part])
    assert (node.dense.shape[1] > 0, len(node.weights) > 0) == (part != "sparse", part != "dense")
    best = solve(SquaredHinge(tol=1e-5, prune=0), X, Y)
    assert (node.gap <= 1e-4).all()
    assert node.objective == pytest.approx(best.objective, rel=2e-4)
    assert dense(node, X.shape[1]) == pytest.approx(dense_weights(best, X.shape[1]), abs=0.03)
    assert node.bias == pytest.approx(best.bias, abs=0.03)


@pytest.mark.parametrize("part", PARTS)
def test_the_certificate_bounds_the_objective_of_the_returned_weights(part):
    X, Y = make_problem(2, n_labels=3)
    costs = np.random.default_rng(0).uniform(0.5, 4, Y.shape)
    node = solve_node(NodeSolver(tol=0.02, prune=0), X, Y, costs, negative=0.7, dense=PARTS[part])
    best = solve_node(NodeSolver(tol=1e-5, prune=0, max_sweeps=1000), X, Y, costs, negative=0.7)
    reached = objective(X, Y, dense(node, X.shape[1]), node.bias.astype(float), costs, 0.7)
    assert reached == pytest.approx(node.objective, rel=1e-3)
    assert (node.gap <= 0.02).all()
    assert (node.objective * (1 - node.gap) <= best.objective * (1 + 1e-5)).all(), "no optimum below the bound"
    assert (node.objective >= best.objective * (1 - 1e-5)).all()


def wide_bounds(node, W, b, a):
    """Return each column's objective and the best multiple of its dual point, in extended precision."""
    design, wide = node.design, np.longdouble
    X = sp.csr_matrix((design.values, design.indices.astype(np.int64), design.indptr), (len(a), len(W))).toarray()
    begins, values, n_dense, _ = design.dense
    X[:, :n_dense] = values.reshape(-1, n_dense)[begins // n_dense] if n_dense else 0
    X = np.hstack([X, np.ones((len(a), 1))]).astype(wide)
    z, costs = np.full(a.shape, wide(-1)), np.full(a.shape, wide(node.negative))
    of_row = np.repeat(np.arange(len(a)), np.diff(node.starts))
    z[of_row, node.columns], costs[of_row, node.columns] = 1, node.costs
    point = np.vstack([W, b]).astype(wide)
    primal = (point**2).sum(axis=0) / 2 + (costs * np.maximum(0, 1 - z * (X @ point)) ** 2).sum(axis=0)
    assert (a >= 0).all()
    a = np.where(costs > 0, a, wide(0))
    curved = np.divide(a**2, 2 * costs, out=np.zeros_like(a), where=costs > 0).sum(axis=0)
    quadratic = curved + ((X.T @ (a * z)) ** 2).sum(axis=0)
    return primal, np.divide(a.sum(axis=0) ** 2, 2 * quadratic, out=np.zeros_like(primal), where=quadratic > 0)


@pytest.mark.parametrize("tol", [0.05, 1e-3, 1e-6])
@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("high_cost", [1.0, 1e3])
@pytest.mark.parametrize("part", PARTS)
def test_a_claimed_gap_is_at_least_the_true_one(tol, scale, high_cost, part):
    X, Y = make_problem(8, n_labels=5)
    costs = np.random.default_rng(1).choice([0.0, 0.5, 1.0, high_cost], Y.shape)
    solver = NodeSolver(tol=tol, prune=0, max_sweeps=40)
    node = make_node(solver, X * np.float32(scale), Y, costs, negative=0.7, dense=PARTS[part])
    if part == "sparse":
        state = _DualAscent(solver, node, seed=3)
        found = state.run()
        primal, dual = wide_bounds(node, state.W[:, :5], found.bias, state.a[:, :5])
    else:
        state = ColumnAscent(node, tol, 40, seed=3)
        found = state.run(prune=0)
        primal, dual = wide_bounds(node, state.W.T, found.bias, state.a.T)
    assert (found.objective >= primal).all(), "the objective is not understated"
    assert (found.objective * (1 - found.gap.astype(np.longdouble)) <= dual * (1 + 1e-15)).all(), (
        "the dual bound is not overstated"
    )
    assert (found.gap >= (primal - dual) / primal).all()
    assert (found.gap <= (primal - dual) / primal + 1e-9).all(), "the allowance for rounding is small"
    assert ((found.sweeps == 40) | (found.gap <= tol)).all()


def test_an_integer_cost_equals_duplicated_rows():
    X, Y = make_problem(3, n_labels=2)
    Y = sp.csr_matrix(Y[:, [0, 0]])
    costs = np.ones(Y.shape)
    costs[::3] = 3
    twice = np.concatenate([np.arange(X.shape[0]), np.repeat(np.arange(0, X.shape[0], 3), 2)])
    twice = np.array([row for row in twice[X.shape[0] :] if Y[row, 0]] + list(range(X.shape[0])))
    solver = NodeSolver(tol=1e-5, prune=0, max_sweeps=1000)
    by_cost, by_rows = solve_node(solver, X, Y, costs), solve_node(solver, X[twice], Y[twice])
    assert by_cost.objective == pytest.approx(by_rows.objective, rel=1e-4)
    assert by_cost.bias == pytest.approx(by_rows.bias, abs=2e-3)


@pytest.mark.parametrize("part", PARTS)
def test_only_the_rows_of_the_node_are_used(part):
    X, Y = make_problem(4, n_labels=3)
    rows = np.arange(0, X.shape[0], 2)
    solver = NodeSolver(tol=1e-5, prune=0, max_sweeps=1000)
    subset = solve_node(solver, X, Y, rows=rows, dense=PARTS[part])
    copy = solve_node(solver, X[rows], Y[rows], dense=PARTS[part])
    assert subset.objective == pytest.approx(copy.objective, rel=1e-4)
    assert set(subset.features) <= set(X[rows].indices)


def test_weights_below_the_threshold_are_pruned_and_the_others_quantized():
    X, Y = make_problem(5)
    unpruned, pruned = (dense(solve_node(NodeSolver(tol=1e-3, prune=at), X, Y), X.shape[1]) for at in (0, 0.2))
    kept = pruned != 0
    assert (
        np.array_equal(kept, np.abs(unpruned) >= 0.2 - 1e-4)
        or np.abs(unpruned[kept ^ (np.abs(unpruned) >= 0.2)]).max() < 0.201
    )
    assert kept.any()
    assert not kept.all()
    finer = NodeSolver(tol=1e-3, prune=0)
    step = np.abs(unpruned).max(axis=1) / 32767
    assert np.array_equal(dense(solve_node(finer, X, Y), X.shape[1]), unpruned)
    assert (np.abs(unpruned[np.nonzero(unpruned)]) >= step.min() / 2).all()


def test_dense_weights_are_not_pruned():
    X, Y = make_problem(5)
    kept = dense(solve_node(NodeSolver(tol=1e-3, prune=0.2), X, Y, dense=0.4), X.shape[1])
    n_sparse = X.shape[1] - round(0.4 * X.shape[1])
    assert np.abs(kept[:, :n_sparse][kept[:, :n_sparse] != 0]).min() >= 0.2 - 1e-4
    assert (np.abs(kept[:, n_sparse:]) < 0.19).any()


def test_rows_are_visited_in_blocks_of_any_size(monkeypatch):
    X, Y = make_problem(6, n_labels=3)
    found = []
    for n_bytes in (1, 2**30):
        monkeypatch.setattr("unmissed.models.label_trees.dense_node_solver._BLOCK_BYTES", n_bytes)
        found.append(solve_node(NodeSolver(tol=1e-4, prune=0, max_sweeps=500), X, Y, dense=0.5))
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-4)
    assert all((one.gap <= 1e-4).all() for one in found)


@pytest.mark.parametrize("part", PARTS)
def test_a_node_that_does_not_converge_reports_its_gap(part):
    X, Y = make_problem(6)
    node = solve_node(NodeSolver(tol=1e-5, max_sweeps=1), X, Y, dense=PARTS[part])
    assert (node.sweeps == 1).all()
    assert (node.gap > 1e-5).any()


def test_a_node_without_rows_scores_minus_one():
    X, Y = make_problem(7, n_labels=3)
    node = solve_node(NodeSolver(), X, Y, rows=np.empty(0, np.int64))
    assert (node.bias == -1).all()
    assert len(node.weights) == 0
    assert (node.gap == 0).all()


def test_a_row_has_the_highest_cost_of_its_labels_in_a_column():
    labels = np.array([0, 2, 3, 1, 3], np.int32)
    starts = np.array([0, 3, 5])
    column_of_label = np.array([1, 0, 1, 2], np.int16)  # label 1 is elsewhere, 0 and 2 share column 0
    cost = np.array([2.0, 9.0, 5.0, 4.0])
    indptr, columns, costs = np.empty(3, np.int64), np.empty(5, np.int32), np.empty(5)
    n = list_positives(np.array([0, 1]), starts, labels, column_of_label, cost, 2, indptr, columns, costs)
    assert indptr.tolist() == [0, 2, 3]
    assert columns[:n].tolist() == [0, 1, 1]
    assert costs[:n].tolist() == [5, 4, 4]


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"tol": 0}, "tol"),
        ({"prune": -1}, "prune"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"random_state": -1}, "random"),
    ],
)
def test_parameters_out_of_range_are_rejected(params, line):
    with pytest.raises(InputError, match=line):
        NodeSolver(**params)
