"""Duplicate labels (same positives and costs) are solved once, with the result of solving each of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.models import DiSMEC
from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec import schedule
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.linear.one_vs_rest import find_duplicate_columns
from unmissed.models.linear.ppd_sparse.solver import SparseHinge
from unmissed.models.linear.proxml.solver import L1SquaredHinge
from unmissed.settings import SETTINGS

KINDS = np.array([0, 1, 0, 2, 1, 0, 3])  # labels of the same kind have the same positives


@pytest.fixture(scope="module")
def X():
    return sp.random(80, 30, 0.2, "csr", np.float32, np.random.default_rng(0))


def block(labels, *, may_have_duplicate=True, positive=1.0):
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.permutation(80)[:7]).astype(np.int32) for _ in range(4)]
    rows = [rows[KINDS[label]] for label in labels]
    costs = np.full(len(labels), positive), np.ones(len(labels))
    starts = np.arange(len(labels) + 1, dtype=np.int64) * 7
    return LabelBlock(
        labels[0],
        starts,
        np.concatenate(rows),
        *costs,
        may_have_duplicate=np.isin(KINDS[labels], [0, 1]) & may_have_duplicate,
    )


def same(shard, other):
    return all(array.tobytes() == other.arrays[name].tobytes() for name, array in shard.arrays.items())


@pytest.mark.parametrize("solver", [SquaredHinge(), L1SquaredHinge(l1=0.1), SparseHinge(l1=0.1)])
def test_duplicate_labels_get_the_bits_of_separate_solutions(X, solver):
    plain, sharing = solver.prepare(X), solver.prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        assert same(sharing.solve(block(labels)), plain.solve(block(labels, may_have_duplicate=False)))


def test_duplicate_labels_are_solved_once_within_and_across_blocks(X, monkeypatch):
    solved = []
    run = schedule.run

    def spy(labels, method, keep, **options):
        if labels:
            solved.append([label.at for label in labels])
        run(labels, method, keep, **options)

    monkeypatch.setattr(schedule, "run", spy)
    prepared = SquaredHinge().prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        prepared.solve(block(labels))
    assert solved == [[0, 1, 3], [2]]


def test_labels_with_different_costs_are_no_duplicates(X):
    prepared = SquaredHinge().prepare(X)
    cheap, dear = prepared.solve(block([0], positive=0.1)), prepared.solve(block([0], positive=5.0))
    assert cheap.objective[0] < dear.objective[0]


def test_evicted_solutions_are_computed_again(X, monkeypatch):
    monkeypatch.setattr(SETTINGS, "duplicate_bytes", 1)
    plain, forgetful = SquaredHinge().prepare(X), SquaredHinge().prepare(X)
    for labels in ([0, 1, 2, 3], [4, 5, 6]):
        assert same(forgetful.solve(block(labels)), plain.solve(block(labels, may_have_duplicate=False)))
    assert not forgetful._duplicates._solutions
    assert forgetful._duplicates._size == 0


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), max_size=12))
def test_duplicate_columns_are_found(columns):
    Y = sp.lil_matrix((6, len(columns)), dtype=np.int8)
    for label, rows in enumerate(columns):
        for row in rows:
            Y[row, label] = 1
    expected = [columns.count(rows) > 1 for rows in columns]
    assert find_duplicate_columns(Y.tocsc()).tolist() == expected


def test_a_model_gives_duplicate_labels_the_same_classifier(X):
    Y = sp.csr_matrix(np.random.default_rng(2).random((80, 3)) < 0.1)[:, [0, 1, 0, 2, 1, 1]]
    model = DiSMEC(block_size=2).fit(X, Y)
    W = model.coef_.toarray()
    for label, other in ((0, 2), (1, 4), (1, 5)):
        np.testing.assert_array_equal(W[label], W[other])
    assert not np.array_equal(W[0], W[1])
