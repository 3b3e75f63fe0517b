import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.cases import cases, corpus
from unmissed.errors import InputError
from unmissed.metrics import AUTHORS, PYXCLIB, by_decile, decile_of, evaluate
from unmissed.ranking import Ranking


def test_distinct_counts_fall_into_ten_equal_groups():
    np.testing.assert_array_equal(np.bincount(decile_of(np.arange(1, 101)))[1:], 10)
    np.testing.assert_array_equal(decile_of(np.arange(1, 11)), np.arange(1, 11))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200))
def test_deciles_rise_with_counts_keep_ties_together_and_put_the_unseen_apart(counts):
    counts = np.array(counts)
    decile = decile_of(counts)
    assert ((decile == 0) == (counts == 0)).all()
    assert decile.max() <= 10
    order = np.argsort(counts)
    assert (np.diff(decile[order]) >= 0).all()
    for count in set(counts.tolist()):
        assert len(set(decile[counts == count].tolist())) == 1


@settings(deadline=None, max_examples=50)
@given(cases(), st.sampled_from([PYXCLIB, AUTHORS]), st.sampled_from([1, 3]))
def test_the_groups_add_up_to_the_totals(case, convention, k):
    found = evaluate(case.ranking, case.Y, case.inverse, (1, 3), train_counts=case.train_counts, conventions=convention)
    groups = by_decile(found, k)
    cut = found.k.index(k)
    assert sum(group.n_labels for group in groups) == case.Y.shape[1]
    assert sum(group.true for group in groups) == case.Y.nnz
    assert sum(group.hits for group in groups) == found.labels.hits[:, cut].sum()
    assert sum(group.psp_part for group in groups) == pytest.approx(found[f"PSP@{k}"], nan_ok=True)


def test_a_group_counts_its_own_labels():
    ranking, Y = corpus(50, n_labels=10)
    counts = np.arange(10)
    groups = by_decile(evaluate(ranking, Y, np.ones(10), k=3, train_counts=counts))
    assert groups[0].decile == 0
    for group in groups:
        mine = np.flatnonzero(decile_of(counts) == group.decile)
        assert (group.fewest, group.most) == (counts[mine].min(), counts[mine].max())
        if group.decile:  # nine labels are seen, each as often as its number says
            assert (group.begin, group.end) == pytest.approx(((group.fewest - 1) / 9, group.most / 9))
        assert group.k == 3
        listed = [(row, label) for row in range(50) for label in ranking.labels[row, :3] if label in mine]
        hits = sum(Y[row, label] for row, label in listed)
        assert group.listed == len(listed)
        assert group.recall == pytest.approx(hits / Y[:, mine].nnz)
        assert group.precision == pytest.approx(hits / len(listed))


def test_groups_of_a_long_tail_report_the_fraction_of_labels_that_they_cover():
    ranking, Y = corpus(30, n_labels=20)
    counts = np.r_[np.zeros(4), np.ones(9), np.full(3, 2), [5, 6, 7, 100]].astype(int)
    groups = by_decile(evaluate(ranking, Y, k=3, train_counts=counts))
    assert [group.decile for group in groups] == [0, 3, 7, 8, 9, 10]
    assert [(group.begin, group.end) for group in groups[:3]] == [(0, 0), (0, 9 / 16), (9 / 16, 12 / 16)]
    for before, after in itertools.pairwise(groups[1:]):
        assert before.end == after.begin
    assert groups[-1].end == 1


def test_deciles_need_training_counts_and_a_cut_off_that_was_evaluated():
    ranking, Y = corpus(10)
    with pytest.raises(InputError, match="train_counts"):
        by_decile(evaluate(ranking, Y))
    with pytest.raises(InputError, match=r"k = 4 was not evaluated; evaluated: 1, 3, 5"):
        by_decile(evaluate(ranking, Y, train_counts=np.ones(50, int)), 4)
    (group,) = by_decile(evaluate(ranking, Y, train_counts=np.ones(50, int)))
    assert group.psp_part is None
    assert group.k == 5  # the deepest


def test_a_group_that_is_never_true_or_never_listed_has_no_recall_or_precision():
    ranking = Ranking(np.array([[0], [0]], dtype=np.int32), np.ones((2, 1), dtype=np.float32))
    Y = np.array([[0, 1, 0], [0, 1, 0]])
    groups = by_decile(evaluate(ranking, Y, np.ones(3), k=1, train_counts=[1, 10, 0]))
    unseen, listed, true = groups
    assert np.isnan([unseen.recall, unseen.precision, listed.recall, true.precision]).all()
    assert (listed.precision, true.recall) == (0, 0)
    nothing = by_decile(evaluate(ranking, np.zeros((2, 3)), np.ones(3), k=1, train_counts=[1, 10, 0]))
    assert np.isnan([group.psp_part for group in nothing]).all()
