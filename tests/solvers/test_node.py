"""The classifiers of a tree node: their optimum, their certificates, what pruning and rounding keep."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.solvers.problems import dense_weights, make_problem, solve
from unmissed.errors import InputError
from unmissed.kernels.node_lanes import list_positives
from unmissed.solvers.node import NodeRows, NodeSolver
from unmissed.solvers.squared_hinge import SquaredHinge

pytestmark = pytest.mark.kernel


def solve_node(solver, X, Y, costs=None, negative=1.0, rows=None):
    """Solve the columns of Y over some rows of X; `costs` has the shape of Y."""
    X, Y = sp.csr_matrix(X), sp.csr_matrix(Y)
    rows = np.arange(X.shape[0]) if rows is None else rows
    design, laid = solver.lay_out(X, rows, 0)
    held = sp.csr_matrix(Y[laid])
    costs = np.ones(Y.shape) if costs is None else costs
    paid = costs[laid[np.repeat(np.arange(len(laid)), np.diff(held.indptr))], held.indices]
    return solver.solve(
        NodeRows(design, held.indptr.astype(np.int64), held.indices, paid, negative, Y.shape[1]), seed=3
    )


def dense(node, n_features):
    """The weights as a dense (n_columns, n_features) matrix."""
    W = np.zeros((len(node.bias), n_features))
    features = np.repeat(node.features, node.counts.astype(int) + 1)
    W[node.columns, features] = node.weights * node.scale[node.columns].astype(float)
    return W


def objective(X, Y, W, b, costs, negative=1.0):
    """1/2 |w|^2 + 1/2 b^2 + sum of costs times squared hinge, per column."""
    Y = Y.toarray()
    scores = X @ W.T + b
    loss = np.where(Y, costs * np.maximum(0, 1 - scores) ** 2, negative * np.maximum(0, 1 + scores) ** 2)
    return 0.5 * (W**2).sum(axis=1) + 0.5 * b**2 + loss.sum(axis=0)


@pytest.mark.parametrize("n_labels", [1, 2, 5])
def test_columns_reach_the_optimum_of_their_own_problem(n_labels):
    X, Y = make_problem(1, n_labels=n_labels)
    node = solve_node(NodeSolver(tol=1e-4, prune=0), X, Y)
    best = solve(SquaredHinge(tol=1e-5, prune=0), X, Y)
    assert (node.gap <= 1e-4).all()
    assert node.objective == pytest.approx(best.objective, rel=2e-4)
    assert dense(node, X.shape[1]) == pytest.approx(dense_weights(best, X.shape[1]), abs=0.03)
    assert node.bias == pytest.approx(best.bias, abs=0.03)


def test_the_certificate_bounds_what_the_returned_weights_cost():
    X, Y = make_problem(2, n_labels=3)
    costs = np.random.default_rng(0).uniform(0.5, 4, Y.shape)
    node = solve_node(NodeSolver(tol=0.02, prune=0), X, Y, costs, negative=0.7)
    best = solve_node(NodeSolver(tol=1e-5, prune=0, max_sweeps=1000), X, Y, costs, negative=0.7)
    reached = objective(X, Y, dense(node, X.shape[1]), node.bias.astype(float), costs, 0.7)
    assert reached == pytest.approx(node.objective, rel=1e-3)
    assert (node.gap <= 0.02).all()
    assert (node.objective * (1 - node.gap) <= best.objective * (1 + 1e-5)).all(), "no optimum below the bound"
    assert (node.objective >= best.objective * (1 - 1e-5)).all()


def test_a_whole_cost_of_a_positive_is_that_many_rows():
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


def test_only_the_rows_of_the_node_count():
    X, Y = make_problem(4, n_labels=3)
    rows = np.arange(0, X.shape[0], 2)
    solver = NodeSolver(tol=1e-5, prune=0, max_sweeps=1000)
    some, alone = solve_node(solver, X, Y, rows=rows), solve_node(solver, X[rows], Y[rows])
    assert some.objective == pytest.approx(alone.objective, rel=1e-4)
    assert set(some.features) <= set(X[rows].indices)


def test_weights_below_the_threshold_go_and_the_rest_is_rounded_finely():
    X, Y = make_problem(5)
    whole, pruned = (dense(solve_node(NodeSolver(tol=1e-3, prune=at), X, Y), X.shape[1]) for at in (0, 0.2))
    kept = pruned != 0
    assert (
        np.array_equal(kept, np.abs(whole) >= 0.2 - 1e-4) or np.abs(whole[kept ^ (np.abs(whole) >= 0.2)]).max() < 0.201
    )
    assert kept.any()
    assert not kept.all()
    finer = NodeSolver(tol=1e-3, prune=0)
    step = np.abs(whole).max(axis=1) / 32767
    assert np.array_equal(dense(solve_node(finer, X, Y), X.shape[1]), whole)
    assert (np.abs(whole[np.nonzero(whole)]) >= step.min() / 2).all()


def test_a_node_that_may_not_sweep_enough_says_so():
    X, Y = make_problem(6)
    node = solve_node(NodeSolver(tol=1e-5, max_sweeps=1), X, Y)
    assert (node.sweeps == 1).all()
    assert (node.gap > 1e-5).any()


def test_a_node_without_rows_rejects_everything():
    X, Y = make_problem(7, n_labels=3)
    node = solve_node(NodeSolver(), X, Y, rows=np.empty(0, np.int64))
    assert (node.bias == -1).all()
    assert len(node.weights) == 0
    assert (node.gap == 0).all()


def test_a_row_costs_as_much_as_the_dearest_of_its_labels_in_a_column():
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
def test_parameters_out_of_range_are_refused(params, line):
    with pytest.raises(InputError, match=line):
        NodeSolver(**params)
