"""The solver reaches the optimum, its certificate is valid, and results do not depend on the grouping of labels."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from tests.models.linear.problems import dense_weights, make_problem, naive_objective, naive_optimum, solve
from unmissed.errors import InputError
from unmissed.models import PWDiSMEC
from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.numerics.workspace import workspace
from unmissed.settings import SETTINGS

KINDS = {"regularized": True, "free": "free", "none": False}
EXACT = SquaredHinge(tol=1e-5, prune=0.0)


@pytest.fixture(scope="module", params=[None, 4], autouse=True)
def frequent(request):
    """Run all tests with rare features stored apart, too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            patch.setattr(SETTINGS, "frequent_features", request.param)
        yield request.param


@pytest.mark.kernel
@pytest.mark.parametrize("bias", ["regularized", "free", "none"])
def test_objective_is_the_least_and_the_gap_bounds_the_excess(bias):
    X, Y = make_problem(0, n_samples=60, n_features=12, n_labels=3)
    positive, negative = [1.0, 3.5, 0.4], [1.0, 1.0, 0.7]
    shard = solve(SquaredHinge(tol=1e-5, prune=0.0, fit_bias=KINDS[bias]), X, Y, positive, negative)
    W = dense_weights(shard, X.shape[1])
    for label in range(3):
        y = Y[:, [label]].toarray().ravel() > 0
        reached = naive_objective(X, y, W[label], float(shard.bias[label]), positive[label], negative[label], bias)
        best = naive_optimum(X, y, positive[label], negative[label], bias)
        assert shard.objective[label] == pytest.approx(reached, rel=1e-5), "the objective is that of the weights"
        assert best <= reached * (1 + 1e-6), "nothing beats the optimum"
        assert reached - best <= shard.gap[label] * reached + 2e-6 * reached, "the gap bounds the excess"
        assert shard.gap[label] <= 1e-5


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_samples=st.integers(1, 80), cost=st.floats(0.05, 30))
@example(seed=6849, n_samples=60, cost=29.0)  # gains little an epoch, far from the optimum
def test_every_label_of_any_problem_is_certified(seed, n_samples, cost):
    X, Y = make_problem(seed, n_samples=n_samples, n_features=9, n_labels=4)
    shard = solve(SquaredHinge(tol=1e-3), X, Y, positive=np.full(4, cost))
    assert (shard.gap <= 1e-3).all()
    assert np.isfinite(shard.objective).all()


def test_costs_of_one_give_linear_svc():
    X, Y = make_problem(3)
    shard = solve(replace(EXACT, tol=1e-6), X, Y)
    ours = X @ dense_weights(shard, X.shape[1]).T + shard.bias
    for label in range(Y.shape[1]):
        y = Y[:, [label]].toarray().ravel()
        theirs = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000, random_state=0).fit(X.astype(float), y)
        assert ours[:, label] == pytest.approx(theirs.decision_function(X), abs=4e-3)


def test_an_integer_cost_equals_that_many_duplicated_rows():
    X, Y = make_problem(5, n_labels=1)
    y = Y.toarray().ravel() > 0
    thrice = np.concatenate([np.arange(len(y)), np.flatnonzero(y), np.flatnonzero(y)])
    weighted = solve(EXACT, X, Y, positive=[3.0])
    repeated = solve(EXACT, X[thrice], Y[thrice])
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-5)
    assert X @ dense_weights(weighted, X.shape[1])[0] == pytest.approx(
        X @ dense_weights(repeated, X.shape[1])[0], abs=5e-3
    )


def test_permuted_rows_features_and_labels_change_nothing():
    X, Y = make_problem(6)
    rng = np.random.default_rng(0)
    rows, features, labels = (rng.permutation(size) for size in (*X.shape, Y.shape[1]))
    straight = solve(EXACT, X, Y)
    shuffled = solve(EXACT, sp.csr_matrix(X[rows][:, features]), Y[rows][:, labels])
    assert shuffled.objective == pytest.approx(straight.objective[labels], rel=2e-5)
    W, V = dense_weights(straight, X.shape[1]), dense_weights(shuffled, X.shape[1])
    assert pytest.approx(W[labels][:, features], abs=5e-3) == V


@pytest.mark.parametrize(("tol", "fit_bias"), [(1e-3, True), (1e-5, True), (1e-4, "free")])
def test_bits_do_not_depend_on_the_other_labels(tol, fit_bias):
    X, Y = make_problem(7, n_labels=90)
    models = [PWDiSMEC(tol=tol, fit_bias=fit_bias, block_size=size, n_jobs=2).fit(X, Y) for size in (200, 1, 7, 64)]
    joined = [
        {
            "W": np.vstack([dense_weights(shard, X.shape[1]) for shard in model.shards_]),
            **{
                name: np.concatenate([getattr(shard, name) for shard in model.shards_])
                for name in ("bias", "objective", "gap", "epochs")
            },
        }
        for model in models
    ]
    for other in joined[1:]:
        for name, values in joined[0].items():
            assert np.array_equal(other[name], values), name


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cost", [0.01, 1.0, 30.0])
def test_the_gap_of_a_free_bias_bounds_the_excess(seed, cost):
    X, Y = make_problem(seed, n_samples=40, n_features=6, n_labels=3)
    costs = np.full(3, cost)
    shard = solve(SquaredHinge(tol=1e-3, prune=0.0, fit_bias="free"), X, Y, costs, costs)
    for label in range(3):
        y = Y[:, [label]].toarray().ravel() > 0
        best = naive_optimum(X, y, cost, cost, "free")
        assert shard.objective[label] - best <= shard.gap[label] * shard.objective[label] + 2e-6 * best
        assert shard.gap[label] <= 1e-3


def test_the_gap_of_a_free_bias_that_hardly_moves_is_valid():
    X = sp.csr_matrix(np.full((4, 1), 0.001, np.float32))
    shard = solve(SquaredHinge(prune=0.0, fit_bias="free"), X, [[1], [0], [0], [0]], [0.01], [0.01])
    best = naive_optimum(X, np.array([True, False, False, False]), 0.01, 0.01, "free")
    assert shard.objective[0] - best <= shard.gap[0] * shard.objective[0] + 1e-9


@pytest.mark.parametrize("cost", [1e-8, 1e-3])
def test_tiny_costs_are_solved_as_they_are(cost):
    X, Y = make_problem(13, n_labels=2)
    shard = solve(SquaredHinge(prune=0.0), X, Y, np.full(2, cost), np.full(2, cost))
    assert (shard.gap <= 1e-3).all()
    best = naive_optimum(X, Y[:, [0]].toarray().ravel() > 0, cost, cost, "regularized")
    assert shard.objective[0] == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("fill", [0.0, 1.0])
@pytest.mark.parametrize("bias", ["regularized", "free"])
def test_labels_on_no_row_and_on_every_row_are_solved(fill, bias):
    X, _ = make_problem(8)
    Y = np.full((X.shape[0], 1), fill, np.float32)
    shard = solve(SquaredHinge(tol=1e-5, prune=0.0, fit_bias=KINDS[bias]), X, Y)
    best = naive_optimum(X, Y.ravel() > 0, 1.0, 1.0, bias)
    assert shard.objective[0] == pytest.approx(best, rel=2e-5, abs=1e-9)
    assert shard.gap[0] <= 1e-5
    scores = X @ dense_weights(shard, X.shape[1])[0] + shard.bias[0]
    assert (np.sign(scores) == (1 if fill else -1)).all()


def test_a_cost_of_zero_ignores_the_positives():
    X, Y = make_problem(9, n_labels=1)
    rest = Y.toarray().ravel() == 0
    ignored = solve(EXACT, X, Y, positive=[0.0])
    absent = solve(EXACT, X[rest], Y[rest])
    assert ignored.objective[0] == pytest.approx(absent.objective[0], rel=1e-4)


@pytest.mark.parametrize("max_rounds", [1, 2])
def test_rounds_that_run_out_are_reported_in_the_gap(max_rounds):
    X, Y = make_problem(10)
    costs = np.full(5, 300.0)
    shard = solve(SquaredHinge(tol=1e-6, prune=0.0, max_rounds=max_rounds), X, Y, costs, costs)
    assert (shard.gap > 1e-6).any(), "few rounds cannot reach 1e-6, and the certificate says so"
    W = dense_weights(shard, X.shape[1])
    for label in range(Y.shape[1]):
        y = Y[:, [label]].toarray().ravel() > 0
        reached = naive_objective(X, y, W[label], float(shard.bias[label]), 300.0, 300.0, "regularized")
        assert shard.objective[label] == pytest.approx(reached, rel=1e-5), "the certificate is that of these weights"


def unit_problem(seed):
    """Return a problem with L2-normalized rows, one column per label."""
    X, Y = make_problem(seed, n_labels=20)
    return sp.csr_matrix(normalize(X[X.getnnz(axis=1) > 0].astype(float)).astype(np.float32)), Y[X.getnnz(axis=1) > 0]


def test_pruning_drops_only_small_weights_and_biases():
    X, Y = unit_problem(11)
    shards = [solve(SquaredHinge(prune=prune), X, Y) for prune in (0.0, 0.2)]
    unpruned, pruned = (np.column_stack([dense_weights(shard, X.shape[1]), shard.bias]) for shard in shards)
    assert np.array_equal(pruned, np.where(np.abs(unpruned) >= np.float32(0.2), unpruned, 0))
    assert (pruned[:, :-1] != 0).sum() < (unpruned[:, :-1] != 0).sum()
    assert (pruned[:, -1] != 0).sum() < (unpruned[:, -1] != 0).sum(), "some biases are small, too"


def test_the_effect_of_pruning_on_a_score_is_bounded():
    X, Y = unit_problem(11)
    unpruned, pruned = (solve(SquaredHinge(prune=prune), X, Y) for prune in (0.0, 0.2))
    W, V = dense_weights(unpruned, X.shape[1]), dense_weights(pruned, X.shape[1])
    moved = np.abs((X @ W.T + unpruned.bias) - (X @ V.T + pruned.bias)).max(axis=0)
    assert (moved <= pruned.pruned * (1 + 1e-5)).all()
    expected = np.linalg.norm(W - V, axis=1) + np.abs(unpruned.bias - pruned.bias)
    assert pruned.pruned == pytest.approx(expected, rel=1e-5)
    assert not unpruned.pruned.any()


@pytest.mark.parametrize("scale", [1e-3, 300.0])
def test_pruning_means_the_same_whatever_the_scale_of_the_rows(scale):
    X, Y = unit_problem(11)
    unit = SquaredHinge(tol=1e-6, prune=0.2, fit_bias=False)
    scaled = solve(unit, X * np.float32(scale), Y, np.full(20, 1 / scale**2), np.full(20, 1 / scale**2))
    straight = solve(unit, X, Y)
    W, V = dense_weights(straight, X.shape[1]), scale * dense_weights(scaled, X.shape[1])
    close = np.abs(np.abs(W) - 0.2) < 0.01  # what is near the threshold may fall on either side
    assert (((W != 0) == (V != 0)) | close | (np.abs(np.abs(V) - 0.2) < 0.01)).all()
    assert scaled.pruned == pytest.approx(straight.pruned, rel=0.3)


def test_long_rows_do_not_empty_a_model():
    shard = solve(SquaredHinge(), sp.csr_matrix(300 * np.eye(6, dtype=np.float32)), np.eye(6))
    scores = 300 * np.eye(6) @ dense_weights(shard, 6).T + shard.bias
    assert (scores.argmax(axis=1) == np.arange(6)).all()


@pytest.mark.kernel
def test_empty_rows_and_unused_features_do_no_harm():
    X, Y = make_problem(12, n_samples=40, n_features=8, n_labels=2)
    holes = sp.csr_matrix(sp.vstack([X, sp.csr_matrix((3, 8), dtype=np.float32)]))
    wide = sp.csr_matrix((holes.data, holes.indices, holes.indptr), shape=(43, 11))
    labels = sp.csr_matrix(sp.vstack([Y, np.zeros((3, 2))]))
    shard = solve(EXACT, wide, labels)
    for label in range(2):
        y = labels[:, [label]].toarray().ravel() > 0
        assert shard.objective[label] == pytest.approx(naive_optimum(wide, y, 1.0, 1.0, "regularized"), rel=2e-5)
    assert shard.features.max() < 8, "a feature that never occurs gets no weight"


def block_of(Y, rows=None, **changes):
    """Return a block of all labels of Y; with `rows`, Y has only those rows of a larger X."""
    Y = sp.csc_matrix(Y)
    numbers = Y.indices if rows is None else rows[Y.indices]
    ones = np.ones(Y.shape[1])
    return LabelBlock(**{"first": 0, "starts": Y.indptr, "rows": numbers, "positive": ones, "negative": ones} | changes)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [0, 1, 30, 60])
def test_a_subset_of_rows_is_solved_as_if_nothing_else_were_there(size):
    X, Y = make_problem(14, n_samples=60, n_features=40, n_labels=3)
    rows = np.sort(np.random.default_rng(size).permutation(60)[:size])
    prepared = EXACT.prepare(X, rows)
    inside, separate = prepared.solve(block_of(Y[rows], rows)), EXACT.prepare(X[rows]).solve(block_of(Y[rows]))
    for name, values in separate.arrays.items():
        assert np.array_equal(inside.arrays[name], values), name
    assert prepared.design.n_features == len(np.unique(X[rows].indices)), "features of other rows take no memory"


def test_rows_outside_the_prepared_ones_are_refused():
    X, _ = make_problem(15, n_samples=20, n_labels=1)
    for rows in ([3, 2], [2, 2], [-1, 2], [4, 20], [0.5], [[1]]):
        with pytest.raises(InputError, match="rows must be"):
            EXACT.prepare(X, rows)
    for chosen, named in ((None, 20), (None, -1), (np.arange(5), 5), (np.arange(0), 0)):
        block = LabelBlock(0, np.array([0, 1]), np.array([named], np.int32), np.ones(1), np.ones(1))
        with pytest.raises(InputError, match="a label block names a row"):
            EXACT.prepare(X, chosen).solve(block)


def test_each_label_has_the_initial_solution_of_its_negative_cost():
    X, Y = make_problem(16, n_labels=40)
    negative = np.random.default_rng(0).uniform(0.5, 2, 40)  # more costs than cached initial solutions
    together = solve(EXACT, X, Y, negative=negative)
    for label in (0, 17, 39):
        separate = EXACT.prepare(X).solve(
            block_of(Y[:, [label]], first=label, positive=np.ones(1), negative=negative[[label]])
        )
        assert separate.objective[0] == together.objective[label]
        assert np.array_equal(dense_weights(separate, X.shape[1])[0], dense_weights(together, X.shape[1])[label])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive": [1.0, -1.0]}, "label 6 has the positive cost -1"),
        ({"negative": [np.nan, 1.0]}, "label 5 has the negative cost nan"),
        ({"positive": [np.inf, 1.0]}, "label 5 has the positive cost inf"),
        (
            {"counter": [0.0, -0.5]},
            "label 6 has the counter cost -0.5: its problem is not convex for the squared-hinge loss",
        ),
    ],
)
def test_costs_that_cannot_be_solved_are_refused(change, message):
    X, Y = make_problem(17, n_labels=2)
    with pytest.raises(InputError, match=message):
        EXACT.prepare(X).solve(block_of(Y, first=5, **{name: np.array(costs) for name, costs in change.items()}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tol": "small"}, "tol must be a number, at least 1e-06; got 'small'"),
        ({"tol": 1e-7}, "tol must be a number, at least 1e-06"),
        ({"prune": None}, "prune must be a number, at least 0"),
        ({"prune": np.nan}, "prune must be a number, at least 0"),
        ({"fit_bias": 1}, "fit_bias must be True, False or 'free'"),
        ({"max_rounds": 0}, "max_rounds must be an integer from 1 to 2147483647"),
        ({"max_rounds": 2.5}, "max_rounds must be an integer from 1 to 2147483647"),
        ({"random_state": 2**63}, "random_state must be an integer from 0 to 4611686018427387903"),
    ],
)
def test_bad_parameters_are_refused_when_a_solver_is_made(change, message):
    with pytest.raises(InputError, match=message):
        SquaredHinge(**change)


def test_workspaces_are_reused_by_the_same_thread(frequent):
    name = f"test with {frequent}"
    first = workspace(name, (3, 4))
    assert np.may_share_memory(first, workspace(name, (2, 5)))
    assert not np.may_share_memory(first, workspace(name, (30, 40)))
    with ThreadPoolExecutor(1) as pool:
        assert not np.may_share_memory(workspace(name, (30, 40)), pool.submit(workspace, name, (30, 40)).result())
    assert workspace(name, (2,), np.int64).dtype == np.int64
    large = (2**25,)
    assert all(workspace(name, shape).ctypes.data % 64 == 0 for shape in [(7, 7), (1000, 1000), large])
    assert not np.may_share_memory(workspace(name, large), workspace(name, large)), "large arrays are not kept"


@pytest.mark.kernel
@pytest.mark.parametrize("full", [0.0, 0.3, 1.0])
def test_rows_with_every_feature_are_solved_like_others(full):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 11)) * (rng.random((60, 11)) < 0.4)
    X[rng.random(60) < full] = rng.standard_normal(11)
    X[: int(60 * full)] += rng.uniform(0.1, 0.2, (int(60 * full), 11))
    Y = (X @ rng.standard_normal((11, 2)) > 0.5).astype(float)
    shard = solve(EXACT, sp.csr_matrix(X.astype(np.float32)), Y)
    for label in range(2):
        y = Y[:, label] > 0
        best = naive_optimum(sp.csr_matrix(X.astype(np.float32)), y, 1.0, 1.0, "regularized")
        assert shard.objective[label] == pytest.approx(best, rel=2e-5)
    assert (shard.gap <= 1e-5).all()


@pytest.mark.parametrize(("module", "name"), [("dismec.label_state", "move_to_float32"), ("design", "count_rows")])
def test_an_interrupted_solve_does_not_affect_the_next(module, name, monkeypatch):
    X, Y = make_problem(4, n_labels=8)
    before = solve(EXACT, X, Y)
    patched = import_module(f"unmissed.models.linear.{module}")
    done = getattr(patched, name)

    def interrupted(*arguments):
        if name == "count_rows":
            done(*arguments)  # what it counted is not taken back
        raise KeyboardInterrupt

    monkeypatch.setattr(patched, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(EXACT, X, Y)
    monkeypatch.undo()
    after = solve(EXACT, X, Y)
    for one, other in zip(before.arrays.values(), after.arrays.values(), strict=True):
        assert np.array_equal(one, other)
