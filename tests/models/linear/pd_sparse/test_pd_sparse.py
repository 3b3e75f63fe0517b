"""PD-Sparse reaches the optimum of a slow reference implementation and gives the same bits with any thread count."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import make_problem
from unmissed.errors import InputError
from unmissed.execution import InMemory, Piece, Work
from unmissed.models import PDSparse
from unmissed.models.linear.pd_sparse.kernels import project_row
from unmissed.models.linear.pd_sparse.solver import DualTable, HeldOutPrecision, JointHinge, JointProblem, MeanWeights


def naive_objective(X, Y, W, l1, C):
    """Return the objective of dense weights (features x labels), row by row."""
    total = float(np.sum(0.5 * W**2 + l1 * np.abs(W)))
    for row, positives in zip(X @ W, Y > 0, strict=True):
        if positives.any() and not positives.all():
            total += C * max(0.0, 1 + row[~positives].max() - row[positives].min())
    return total


def naive_project(u, n_positives, curvature, C):
    """Return the best a over a grid of sums t: positives and negatives are projected on the simplex of sum t."""

    def simplex(part, t):
        low, high = part.min() - t - 1, part.max()
        for _ in range(50):
            middle = (low + high) / 2
            if np.maximum(part - middle, 0).sum() > t:
                low = middle
            else:
                high = middle
        return np.maximum(part - high, 0)

    best, value = np.zeros_like(u), 0.5 * curvature * np.sum(u**2)
    for t in np.linspace(0, C, 201)[1:]:
        a = np.concatenate([simplex(u[:n_positives], t), simplex(u[n_positives:], t)])
        now = 0.5 * curvature * np.sum((a - u) ** 2) - t
        if now < value:
            best, value = a, now
    return best


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(8))
def test_the_projection_of_a_row_equals_a_grid_search(seed):
    rng = np.random.default_rng(seed)
    n_positives, n_negatives = rng.integers(1, 4, 2)
    u = rng.normal(size=n_positives + n_negatives) * rng.choice([0.3, 3.0])
    curvature, C = rng.uniform(0.5, 2), rng.choice([0.3, 1.0, 5.0])
    expected = naive_project(u.copy(), n_positives, curvature, C)
    total = project_row(u, n_positives, curvature, C)
    assert u == pytest.approx(expected, abs=0.01 * C)
    assert u[:n_positives].sum() == pytest.approx(total, abs=1e-9)
    assert u[n_positives:].sum() == pytest.approx(total, abs=1e-9), "positives and negatives have the same sum"
    assert 0 <= total <= C


def dense_optimum(X, Y, l1, C):
    """Return the minimum of the objective: accelerated proximal gradient on smoothed maxima, in dense float64."""
    positives = Y > 0
    kept = positives.any(axis=1) & ~positives.all(axis=1)
    X, positives = X[kept], positives[kept]
    W = np.zeros((X.shape[1], positives.shape[1]))
    best = np.inf
    for heat in np.geomspace(1, 1e-4, 13):
        step = 1 / (1 + 2 * C * np.linalg.norm(X, 2) ** 2 / heat)
        ahead, momentum = W.copy(), 1.0
        for _ in range(4000):
            scores = X @ ahead
            gain = np.where(positives, -scores, scores) / heat
            weight = np.zeros_like(scores)
            tops = []
            for kind in (~positives, positives):
                part = np.where(kind, gain, -np.inf)
                top = part.max(axis=1, keepdims=True)
                soft = np.exp(part - top)
                tops.append(top[:, 0] + np.log(soft.sum(axis=1)))
                weight += np.where(kind, soft / soft.sum(axis=1, keepdims=True), 0)
            share = 1 / (1 + np.exp(-np.clip(tops[0] + tops[1] + 1 / heat, -500, 500)))
            gradient = ahead + C * X.T @ (np.where(positives, -1, 1) * weight * share[:, None])
            moved = ahead - step * gradient
            moved = np.sign(moved) * np.maximum(np.abs(moved) - step * l1, 0)
            converged = np.abs(moved - ahead).max() <= 1e-6 * step
            grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead, W, momentum = moved + (momentum - 1) / grown * (moved - W), moved, grown
            if converged:
                break
        best = min(best, naive_objective(X, positives, W, l1, C))
    return best


def dense(weights, problem):
    W = sp.csr_matrix(weights.arrays[::-1], shape=(problem.n_features, problem.n_labels))
    return W.toarray().astype(float)


def solve_joint(solver, X, Y, epochs):
    problem = JointProblem(solver, X, Y, 1)
    for _ in range(epochs):
        weights, estimated_gap = problem.run_epoch()
        if estimated_gap <= solver.tol and problem.certify(weights).gap <= solver.tol:
            break
    return dense(weights, problem), problem.certify(weights)


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_the_objective_equals_that_of_a_reference_implementation_and_the_gap_bounds_the_excess(l1):
    X, Y = make_problem(1, n_samples=25, n_features=6, n_labels=4)
    W, certificate = solve_joint(JointHinge(l1=l1, C=0.7, tol=1e-5, fit_bias=False), X, Y, 5000)
    reached = naive_objective(X.toarray().astype(float), Y.toarray(), W, l1, 0.7)
    best = dense_optimum(X.toarray().astype(float), Y.toarray(), l1, 0.7)
    assert certificate.objective == pytest.approx(reached, rel=1e-6), "the objective is that of the weights"
    assert certificate.gap <= 1e-5
    assert certificate.objective * (1 - certificate.gap) <= best * (1 + 1e-9), "the dual objective is a lower bound"
    assert reached <= best * (1 + 1e-4), "within 0.01 % of the reference implementation"


@pytest.mark.parametrize("stored", [False, True])
def test_rows_without_features_have_loss_c_and_no_gap(stored):
    X, Y = make_problem(10, n_samples=30, n_features=6, n_labels=4)
    if stored:
        X.data[X.indptr[3] : X.indptr[6]] = 0  # explicit zeros
    else:
        X = sp.csr_matrix(X.toarray() * (np.arange(30) >= 10)[:, None].astype(np.float32))
    W, certificate = solve_joint(JointHinge(l1=0.1, C=2.0, tol=1e-4, fit_bias=False), X, Y, 2000)
    assert certificate.gap <= 1e-4
    assert certificate.objective == pytest.approx(
        naive_objective(X.toarray().astype(float), Y.toarray(), W, 0.1, 2.0), rel=1e-6
    )


def test_a_growing_hash_table_keeps_its_entries():
    X, Y = make_problem(3, n_samples=100, n_features=40, n_labels=12)
    small, large = JointProblem(JointHinge(), X, Y, 1), JointProblem(JointHinge(), X, Y, 1)
    small.table = DualTable(9)  # too small for the first epoch
    for problem in (small, large):
        for _ in range(3):
            problem.run_epoch()
    assert small.table.bits > 9
    assert np.array_equal(small.alpha, large.alpha)
    assert np.allclose(dense(small.weights(), small), dense(large.weights(), large), rtol=1e-6, atol=0)


def test_refreshing_changes_nothing_but_rounding():
    X, Y = make_problem(4, n_samples=80, n_features=20, n_labels=6)
    problem = JointProblem(JointHinge(), X, Y, 1)
    for _ in range(5):
        problem.run_epoch()
    before = dense(problem.weights(), problem)
    problem.refresh()
    assert np.allclose(dense(problem.weights(), problem), before, rtol=1e-5, atol=1e-7)


def test_results_do_not_depend_on_threads_and_a_resumed_training_gives_the_same_bytes():
    X, Y = make_problem(5, n_samples=90, n_features=20, n_labels=7)
    settings = {"early_stopping": False, "l1": 0.3, "C": 10.0, "tol": 1e-6, "max_epochs": 37, "block_size": 3}
    with pytest.warns(UserWarning, match="joint problem"):
        straight = PDSparse(n_jobs=1, **settings).fit(X, Y)
    with pytest.warns(UserWarning, match="joint problem"):
        threaded = PDSparse(n_jobs=2, **settings).fit(X, Y)

    class Dying(InMemory):
        dies = True

        def put(self, piece):
            super().put(piece)
            if self.dies and piece.key == "state/000020":
                raise KeyboardInterrupt

    pieces = Dying()
    with pytest.raises(KeyboardInterrupt):
        PDSparse(**settings).fit(X, Y, work=Work(pieces=pieces))
    assert [key for key in pieces.listed() if key.startswith("state/")] == ["state/000010", "state/000020"]
    pieces.dies = False
    with pytest.warns(UserWarning, match="joint problem"):
        resumed = PDSparse(**settings).fit(X, Y, work=Work(pieces=pieces))
    assert not [key for key in pieces.listed() if key.startswith("state/")], "a finished training keeps no state"
    for other in (threaded, resumed):
        assert other.certificate().gap == straight.certificate().gap
        for one, two in zip(straight.shards_, other.shards_, strict=True):
            for name, values in one.arrays.items():
                assert np.array_equal(values, getattr(two, name)), name


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("labels", lambda a: np.where(np.arange(len(a)) == 3, 10**8, a), "a label that is not below 7"),
        ("labels", lambda a: a - 7, "a label that is not below 7"),
        ("starts", lambda a: np.append(a[:-1], a[-1] + 1), "have different lengths"),
        ("starts", lambda a: a[::-1], "not those of 90 rows"),
        ("starts", lambda a: a[:-1], "not those of 90 rows"),
        ("starts", lambda a: np.append(np.zeros(len(a) - 1, a.dtype), a[-1]), "without one of its labels"),
        ("alpha", lambda a: a * np.nan, "not finite"),
        ("alpha", lambda a: a.astype(np.float32), "alpha is float32"),
    ],
)
def test_a_damaged_state_is_rejected_before_compiled_code_reads_it(name, damage, message):
    X, Y = make_problem(5, n_samples=90, n_features=20, n_labels=7)
    problem = JointProblem(JointHinge(), X, Y, 1)
    problem.run_epoch()
    arrays = {"starts": problem.active[0], "labels": problem.active[1], "alpha": problem.alpha}
    arrays[name] = damage(arrays[name])
    pieces = InMemory()
    pieces.put(Piece("state/000001", arrays, {"epoch": 1}))
    with pytest.raises(InputError, match=message):
        PDSparse(early_stopping=False).fit(X, Y, work=Work(pieces=pieces))


@pytest.mark.parametrize(("parameter", "value"), [("l1", -1.0), ("C", 0), ("tol", 0), ("fit_bias", "free")])
def test_invalid_parameters_are_rejected_by_name(parameter, value):
    with pytest.raises(InputError, match=f"{parameter} must be"):
        JointHinge(**{parameter: value})


def test_early_stopping_keeps_the_best_weights_on_held_out_rows_and_can_be_resumed():
    X, Y = make_problem(6, n_samples=200, n_features=25, n_labels=8)
    settings = {"early_stopping": True, "tol": 1e-6, "max_epochs": 60}
    straight = PDSparse(**settings).fit(X, Y)
    assert straight.certificate() is None
    assert straight.joint_["epochs"] < 60

    class Dying(InMemory):
        def put(self, piece):
            super().put(piece)
            if piece.key.startswith("state/"):
                raise KeyboardInterrupt

    pieces = Dying()
    for _ in range(10):  # each saved state interrupts the training
        try:
            resumed = PDSparse(**settings).fit(X, Y, work=Work(pieces=pieces))
            break
        except KeyboardInterrupt:
            continue
    for one, two in zip(straight.shards_, resumed.shards_, strict=True):
        for name, values in one.arrays.items():
            assert np.array_equal(values, getattr(two, name)), name


def test_ties_at_zero_weights_give_rows_different_negatives():
    X, Y = make_problem(7, n_samples=60, n_features=10, n_labels=50)
    problem = JointProblem(JointHinge(), X, Y, 1)
    entering_labels, losses, gains = np.zeros((60, 1), np.int32), np.empty(60), np.empty(60)
    problem._search(np.arange(60), problem.weights(), entering_labels, losses, gains)
    assert len(np.unique(entering_labels)) > 20, "ties are not broken by the label's number"


def test_the_gap_is_the_sum_of_the_terms_of_rows():
    X, Y = make_problem(8, n_samples=60, n_features=10, n_labels=8)
    solver = JointHinge(l1=0.05, C=0.7)
    problem = JointProblem(solver, X, Y, 1)
    for _ in range(3):
        weights, _ = problem.run_epoch()
    entering_labels, losses, gains = np.zeros((60, 1), np.int32), np.empty(60), np.empty(60)
    problem._search(np.arange(60), weights, entering_labels, losses, gains)
    certificate = problem.certify(weights)
    assert (solver.C * losses - gains).sum() == pytest.approx(certificate.gap * certificate.objective, rel=1e-4)


def test_held_out_precision_is_r_precision_and_mean_weights_are_the_mean():
    X, Y = make_problem(9, n_samples=50, n_features=12, n_labels=7)
    solver = JointHinge(fit_bias=False)
    problem, mean, each = JointProblem(solver, X, Y, 1), MeanWeights(12, 7), []
    for _ in range(3):
        weights, _ = problem.run_epoch()
        mean.add(weights)
        each.append(dense(weights, problem))
    W = np.mean(each, axis=0)
    assert np.allclose(dense(mean.weights(), problem), W, rtol=1e-6, atol=1e-9)
    shares = []
    for scores, positives in zip(X.toarray().astype(float) @ W, Y.toarray() > 0, strict=True):
        best = np.lexsort((positives, -scores))[: positives.sum()]  # negatives with the same score rank first
        shares.append(positives[best].mean() if positives.any() else 0.0)
    assert HeldOutPrecision(solver, X, Y, 2).precision(mean.weights()) == pytest.approx(np.mean(shares), abs=1e-9)
