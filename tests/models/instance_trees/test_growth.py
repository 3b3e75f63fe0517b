"""Training of instance trees against reference implementations."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.execution.work_stealing import WorkStealingPool
from unmissed.models.instance_trees.growth import InstanceTree, TreeGrower, csr_arrays
from unmissed.models.instance_trees.kernels import choose_sides, gather_columns, gather_labels, make_leaf, sort_by_key
from unmissed.settings import SETTINGS

SEED = np.uint64(88172645463325252)


def corpus(n_rows=60, n_features=30, n_labels=12, seed=0):
    """Rows whose features predict their labels; some rows have no labels, one has no features."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_rows, n_labels)) < 0.15
    X = truth @ (rng.random((n_labels, n_features)) < 0.2) + 0.2 * (rng.random((n_rows, n_features)) < 0.1)
    X[n_rows // 2] = 0
    X = sp.csr_matrix(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9), dtype=np.float32)
    return X, sp.csr_matrix(truth, dtype=np.float32)


def xorshift(state):
    state ^= (state << 13) & (2**64 - 1)
    state ^= state >> 7
    return state ^ ((state << 17) & (2**64 - 1))


def reference_sides(Y, gains, seed):
    """Reference implementation of the alternation between label rankings and sides."""
    n_rows, n_labels = Y.shape
    sides, state = [], int(seed)
    for _ in range(n_rows):
        state = xorshift(state)
        sides.append(1 if state >> 20 & 1 else -1)
    inverse_dcg = [1 / sum(1 / np.log(1 + j) for j in range(1, int(y.sum()) + 1)) if y.any() else 0 for y in Y]
    before, values = -np.inf, []
    while True:
        worth = {}
        for side in (1, -1):
            mine = [i for i in range(n_rows) if sides[i] == side]
            sums = [sum(inverse_dcg[i] * gains[label] * Y[i, label] for i in mine) for label in range(n_labels)]
            order = sorted(range(n_labels), key=lambda label, sums=sums: (-sums[label], label))
            discount = {label: gains[label] / np.log(2 + rank) for rank, label in enumerate(order)}
            worth[side] = [
                inverse_dcg[i] * sum(discount[label] for label in np.flatnonzero(Y[i])) for i in range(n_rows)
            ]
        for i in range(n_rows):
            if abs(worth[1][i] - worth[-1][i]) > 1e-6:
                sides[i] = 1 if worth[1][i] > worth[-1][i] else -1
        values.append(np.mean([worth[sides[i]][i] for i in range(n_rows)]))
        if values[-1] - before < 1e-6:
            return np.array(sides), values
        before = values[-1]


def discounts(n_labels):
    return (1 / np.log(2 + np.arange(n_labels))).astype(np.float32)


@pytest.mark.kernel
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scored", [False, True])
def test_sides_match_the_reference_alternation(seed, scored):
    _, Y = corpus(40, seed=seed)
    gains = np.random.default_rng(seed).uniform(1, 9, Y.shape[1]) if scored else np.ones(Y.shape[1])
    starts, numbers, distinct = gather_labels(
        *csr_arrays(Y)[:2], np.arange(40, dtype=np.int32), np.zeros(Y.shape[1], np.int32)
    )
    sizes = np.diff(starts)
    best = np.cumsum(np.concatenate([[0], discounts(30)]))[sizes]
    inverse_dcg = np.divide(1, best, out=np.zeros(40), where=best > 0).astype(np.float32)
    side = np.empty(40, np.float32)
    state = SEED ^ np.uint64(seed)
    n_first = choose_sides(starts, numbers, gains[distinct].astype(np.float32), inverse_dcg, discounts(30), state, side)
    expected, values = reference_sides(Y.toarray()[:, distinct], gains[distinct], state)
    assert np.array_equal(side, expected)
    assert n_first == (side > 0).sum()
    assert 0 < n_first < 40
    assert len(values) > 2
    assert np.diff(values)[:-1].min() > 0, "nDCG increases until the last step"


@pytest.mark.kernel
@pytest.mark.parametrize("n_labels", [30, 150])
def test_labels_are_sorted_by_key_and_ties_by_number_from_any_initial_order(n_labels):
    rng = np.random.default_rng(0)
    keys, order = rng.integers(0, 9, n_labels).astype(np.float64), rng.permutation(n_labels)
    sort_by_key(keys, order)
    assert np.array_equal(order, np.lexsort((np.arange(n_labels), keys)))


@pytest.mark.kernel
def test_labels_are_renumbered_in_order_of_first_occurrence():
    _, Y = corpus()
    rows, position = np.array([7, 3, 20, 41], np.int32), np.zeros(Y.shape[1], np.int32)
    starts, numbers, distinct = gather_labels(*csr_arrays(Y)[:2], rows, position)
    assert not position.any()
    assert np.array_equal(np.sort(distinct), np.flatnonzero(Y[rows].sum(axis=0).A1))
    for at, row in enumerate(rows):
        assert np.array_equal(distinct[numbers[starts[at] : starts[at + 1]]], Y[row].indices)


@pytest.mark.kernel
def test_columns_contain_every_feature_that_can_have_a_nonzero_weight():
    X, _ = corpus(80, 40)
    X.data[::5] *= -1
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(80)[:50]).astype(np.int32)
    side = rng.choice([-1, 1], 50).astype(np.float32)
    cost = rng.uniform(0.5, 2, 50).astype(np.float32)
    tally, cursor = np.zeros((40, 2), np.float32), np.zeros(40, np.int64)
    starts, column_rows, values, features = gather_columns(*csr_arrays(X), rows, side, cost, tally, cursor)
    assert not tally.any()
    assert not cursor.any()
    dense = X[rows].toarray()
    terms = (cost * side)[:, None] * dense
    largest = np.maximum(np.maximum(terms, 0).sum(axis=0), np.maximum(-terms, 0).sum(axis=0))
    assert np.array_equal(np.sort(features), np.flatnonzero(largest > 1))
    assert 0 < len(features) < 40
    for column in range(len(starts) - 1):
        found = np.zeros(50)
        found[column_rows[starts[column] : starts[column + 1]]] = values[starts[column] : starts[column + 1]]
        expected = np.ones(50) if column == len(features) else dense[:, features[column]]
        assert np.array_equal(found, expected)


@pytest.mark.kernel
def test_a_leaf_has_the_means_of_its_rows_best_first():
    _, Y = corpus()
    gains = np.random.default_rng(1).uniform(1, 3, Y.shape[1]).astype(np.float32)
    rows = np.arange(5, 25, dtype=np.int32)
    labels, means = make_leaf(*csr_arrays(Y)[:2], gains, rows, 4, np.zeros(Y.shape[1], np.int32))
    expected = gains * Y[rows].toarray().mean(axis=0)
    order = np.lexsort((np.arange(len(expected)), -expected))[:4]
    assert np.array_equal(labels, order)
    assert means == pytest.approx(expected[order], rel=1e-6)


def grower(X, Y, gains=None, n_cores=1, **changed):
    settings = {"max_leaf": 5, "leaf_labels": 100, "C": 4.0, "max_steps": 10, "tol": 0.01, **changed}
    gains = np.ones(Y.shape[1], np.float32) if gains is None else gains
    return TreeGrower(X, Y, gains, **settings, pool=WorkStealingPool(n_cores))


def leaf_of(tree, x):
    """Return the leaf that a dense row reaches."""
    node = 0 if len(tree.children) else -1
    while node >= 0:
        part = slice(tree.starts[node], tree.starts[node + 1])
        score = x[tree.features[part]] @ tree.weights[part] + tree.constants[node]
        node = tree.children[node, 0 if score > 0 else 1]
    return ~node


def test_a_leaf_has_the_mean_labels_of_its_training_rows():
    X, Y = corpus(200)
    gains = np.random.default_rng(1).uniform(1, 3, Y.shape[1]).astype(np.float32)
    tree = grower(X, Y, gains).grow_tree(5)
    leaves = np.array([leaf_of(tree, x) for x in X.toarray()])
    assert np.array_equal(np.bincount(leaves, minlength=len(tree.leaf_rows)), tree.leaf_rows)
    assert len(tree.leaf_rows) > 15
    assert len(tree.children) == len(tree.leaf_rows) - 1
    for leaf in range(len(tree.leaf_rows)):
        expected = gains * Y[leaves == leaf].toarray().mean(axis=0)
        found = np.zeros(Y.shape[1])
        part = slice(tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1])
        found[tree.labels[part]] = tree.means[part]
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("small", [1, 20, 80])
@pytest.mark.parametrize("n_cores", [1, 3])
def test_task_sizes_and_the_number_of_threads_do_not_change_the_leaves_of_rows(small, n_cores, monkeypatch):
    X, Y = corpus(200)
    expected = grower(X, Y).grow_tree(5)
    monkeypatch.setattr(SETTINGS, "small_node", small)
    tree = grower(X, Y, n_cores=n_cores).grow_tree(5)
    again = grower(X, Y, n_cores=1).grow_tree(5)
    for name, array in again.arrays.items():
        assert np.array_equal(tree.arrays[name], array), name
    assert not tree.find_damage(X.shape[1], Y.shape[1])
    assert tree.weights.sum() == pytest.approx(expected.weights.sum(), rel=1e-5)
    for x in X.toarray():
        one, other = leaf_of(tree, x), leaf_of(expected, x)
        assert tree.leaf_rows[one] == expected.leaf_rows[other]
        part, same = (
            slice(t.leaf_starts[leaf], t.leaf_starts[leaf + 1]) for t, leaf in ((tree, one), (expected, other))
        )
        assert np.array_equal(tree.labels[part], expected.labels[same])


def test_another_seed_grows_another_tree_and_a_separator_balances_its_sides():
    X, Y = corpus(200)
    one, other = grower(X, Y).grow_tree(5), grower(X, Y).grow_tree(6)
    assert not np.array_equal(one.features, other.features)
    sides = one.rows_below()
    assert sides[0].sum() == 200
    assert sides[0].min() > 40


def test_depths_and_rows_are_counted_down_the_tree():
    X, Y = corpus(200)
    tree = grower(X, Y).grow_tree(5)
    inner, leaves = tree.depths()
    below = tree.rows_below()

    def check(node, depth):
        if node < 0:
            assert leaves[~node] == depth
            return tree.leaf_rows[~node]
        assert inner[node] == depth
        counts = [check(child, depth + 1) for child in tree.children[node]]
        assert np.array_equal(below[node], counts)
        return sum(counts)

    assert check(0, 0) == 200


def test_a_node_that_cannot_be_split_is_a_leaf():
    X, Y = corpus(30)
    for tree in (
        grower(X * 0, Y).grow_tree(1),
        grower(X, Y, max_leaf=30).grow_tree(1),
        grower(X, sp.csr_matrix(Y.shape, dtype=np.float32)).grow_tree(1),
        grower(X, sp.csr_matrix(np.ones(Y.shape, np.float32))).grow_tree(1),
    ):
        assert len(tree.children) == 0
        assert tree.leaf_rows.tolist() == [30]
    assert grower(X, Y, max_leaf=29).grow_tree(1).children.size


def test_a_leaf_keeps_its_best_labels_only():
    X, Y = corpus(200)
    tree = grower(X, Y, leaf_labels=2).grow_tree(5)
    assert np.diff(tree.leaf_starts).max() == 2


def damaged_trees(tree):
    """Yield invalid trees."""
    arrays = tree.arrays
    loop = arrays["children"].copy()
    loop[3, 1] = 3
    far, low = arrays["children"].copy(), arrays["children"].copy()
    far[0, 0] = len(far)
    low[0, 0] = -len(tree.leaf_rows) - 1
    yield {**arrays, "children": loop}
    yield {**arrays, "children": far}
    yield {**arrays, "children": low}
    yield {**arrays, "children": arrays["children"][:, :1]}
    yield {**arrays, "constants": arrays["constants"][1:]}
    yield {**arrays, "leaf_rows": arrays["leaf_rows"][:0], "leaf_starts": np.zeros(1, np.int64)}
    for name in ("starts", "leaf_starts"):
        yield {**arrays, name: arrays[name][1:]}
        yield {**arrays, name: arrays[name] + 1}
        yield {**arrays, name: np.concatenate([arrays[name][:1], arrays[name][1:][::-1]])}
    for name in ("features", "labels"):
        yield {**arrays, name: arrays[name] - 1 - arrays[name].min()}
        yield {**arrays, name: arrays[name] + 1000}
        yield {**arrays, name: arrays[name][1:]}
    for name in ("weights", "means"):
        yield {**arrays, name: arrays[name][1:]}


def test_invalid_trees_are_detected():
    X, Y = corpus(200)
    tree = grower(X, Y).grow_tree(5)
    assert tree.find_damage(X.shape[1], Y.shape[1]) == ""
    for arrays in damaged_trees(tree):
        assert InstanceTree(**arrays).find_damage(X.shape[1], Y.shape[1])
