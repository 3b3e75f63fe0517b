"""Labels with the same positives and costs: solved once, and as if each had been solved."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.models import DiSMEC
from unmissed.models.one_vs_rest import occur_again
from unmissed.solvers import schedule, twins
from unmissed.solvers.design import LabelBlock
from unmissed.solvers.l1_squared_hinge import L1SquaredHinge
from unmissed.solvers.sparse_hinge import SparseHinge
from unmissed.solvers.squared_hinge import SquaredHinge

KINDS = np.array([0, 1, 0, 2, 1, 0, 3])  # labels of one kind have the same positives


@pytest.fixture(scope="module")
def X():
    return sp.random(80, 30, 0.2, "csr", np.float32, np.random.default_rng(0))


def block(labels, *, again=True, positive=1.0):
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.permutation(80)[:7]).astype(np.int32) for _ in range(4)]
    rows = [rows[KINDS[label]] for label in labels]
    costs = np.full(len(labels), positive), np.ones(len(labels))
    starts = np.arange(len(labels) + 1, dtype=np.int64) * 7
    return LabelBlock(labels[0], starts, np.concatenate(rows), *costs, again=np.isin(KINDS[labels], [0, 1]) & again)


def same(shard, other):
    return all(array.tobytes() == other.arrays[name].tobytes() for name, array in shard.arrays.items())


@pytest.mark.parametrize("solver", [SquaredHinge(), L1SquaredHinge(l1=0.1), SparseHinge(l1=0.1)])
def test_twins_get_the_bits_that_they_would_have_got_alone(X, solver):
    plain, sharing = solver.prepare(X), solver.prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        assert same(sharing.solve(block(labels)), plain.solve(block(labels, again=False)))


def test_twins_are_solved_once_in_a_block_and_in_the_next(X, monkeypatch):
    solved = []
    run = schedule.run

    def spy(labels, method, keep):
        solved.append([label.at for label in labels])
        run(labels, method, keep)

    monkeypatch.setattr(schedule, "run", spy)
    prepared = SquaredHinge().prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        prepared.solve(block(labels))
    assert solved == [[0, 1, 3], [2]]


def test_labels_whose_rows_cost_something_else_are_no_twins(X):
    prepared = SquaredHinge().prepare(X)
    cheap, dear = prepared.solve(block([0], positive=0.1)), prepared.solve(block([0], positive=5.0))
    assert cheap.objective[0] < dear.objective[0]


def test_what_was_forgotten_is_solved_again(X, monkeypatch):
    monkeypatch.setattr(twins, "_MOST", 1)
    plain, forgetful = SquaredHinge().prepare(X), SquaredHinge().prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        assert same(forgetful.solve(block(labels)), plain.solve(block(labels, again=False)))
    assert not forgetful._twins._solutions
    assert forgetful._twins._size == 0


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), max_size=12))
def test_columns_that_occur_again_are_found(columns):
    Y = sp.lil_matrix((6, len(columns)), dtype=np.int8)
    for label, rows in enumerate(columns):
        for row in rows:
            Y[row, label] = 1
    expected = [columns.count(rows) > 1 for rows in columns]
    assert occur_again(Y.tocsc()).tolist() == expected


def test_a_model_gives_twins_the_same_classifier(X):
    Y = sp.csr_matrix(np.random.default_rng(2).random((80, 3)) < 0.1)[:, [0, 1, 0, 2, 1, 1]]
    model = DiSMEC(block_size=2).fit(X, Y)
    W = model.coef_.toarray()
    for label, other in ((0, 2), (1, 4), (1, 5)):
        np.testing.assert_array_equal(W[label], W[other])
    assert not np.array_equal(W[0], W[1])
