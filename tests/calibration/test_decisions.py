"""Decisions: references by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

from unmissed.calibration import (
    as_matrix,
    choose_above,
    choose_coverage,
    choose_f1,
    choose_macro_f1,
    choose_top,
    threshold_for_precision,
)
from unmissed.errors import InputError

LABELS = np.array([[4, 2, 0, -1], [1, 3, 2, 0]])
P = np.array([[0.2, 0.9, 0.2, 0.0], [0.5, 0.6, 0.1, 0.7]])


def random_rows(n=30, m=6, n_labels=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.choice(n_labels, m, replace=False) for _ in range(n)])
    return labels, rng.beta(0.5, 1.5, labels.shape)


def macro_f1(labels, p, chosen, n_labels):
    """Expected macro-F1 by loops."""
    total = 0.0
    for label in range(n_labels):
        here = labels == label
        true, listed, positives = p[here & chosen].sum(), (here & chosen).sum(), p[here].sum()
        total += 2 * true / (listed + positives) if listed + positives else 0
    return total / n_labels


def coverage(labels, p, chosen, n_labels):
    return np.mean([1 - np.prod(1 - p[(labels == label) & chosen]) for label in range(n_labels)])


def test_the_top_k_and_a_threshold_never_choose_padding():
    np.testing.assert_array_equal(choose_top(LABELS, P, 2), [[1, 1, 0, 0], [0, 1, 0, 1]])
    np.testing.assert_array_equal(choose_top(LABELS, P, 4), LABELS >= 0)
    np.testing.assert_array_equal(choose_above(LABELS, P, 0.5), [[0, 1, 0, 0], [1, 1, 0, 1]])
    assert not choose_above(LABELS, P, 0.0)[0, 3]
    dense = as_matrix(LABELS, choose_top(LABELS, P, 2), 5).toarray()
    np.testing.assert_array_equal(dense, [[0, 0, 1, 0, 1], [1, 0, 0, 1, 0]])


def test_the_set_of_best_expected_f1_is_that_of_an_enumeration():
    labels, p = random_rows(n=15, m=5)
    chosen = choose_f1(labels, p)
    for row in range(len(p)):
        outcomes = [(np.array(y), np.prod(np.where(y, p[row], 1 - p[row]))) for y in product([0, 1], repeat=5)]

        def expected(members, outcomes=outcomes):
            return sum(q * 2 * y[list(members)].sum() / (len(members) + y.sum()) for y, q in outcomes)

        best = max(expected(s) for size in range(1, 6) for s in combinations(range(5), size))
        assert expected(np.flatnonzero(chosen[row])) == pytest.approx(best)


def test_f1_sets_do_not_depend_on_padding_or_on_the_order_of_labels():
    labels, p = random_rows(n=600)
    expected = as_matrix(labels, choose_f1(labels, p), 12).toarray()
    order = np.random.default_rng(1).permutation(6)
    padded = np.pad(labels[:, order], ((0, 0), (0, 3)), constant_values=-1)
    found = as_matrix(padded, choose_f1(padded, np.pad(p[:, order], ((0, 0), (0, 3)))), 12).toarray()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.kernel
@pytest.mark.parametrize(("choose", "value"), [(choose_macro_f1, macro_f1), (choose_coverage, coverage)])
def test_block_coordinate_ascent_is_better_than_the_top_k_and_near_the_best(choose, value):
    labels, p = random_rows(n=5, m=4, n_labels=5)
    chosen = choose(labels, p, 2)
    assert (chosen.sum(axis=1) == 2).all()
    sets = [np.isin(np.arange(4), s) for s in combinations(range(4), 2)]
    best = max(value(labels, p, np.array(rows), 5) for rows in product(sets, repeat=5))
    assert value(labels, p, chosen, 5) > 0.97 * best
    labels, p = random_rows(n=40, m=10, n_labels=60, seed=1)
    gain = value(labels, p, choose(labels, p, 3), 60) - value(labels, p, choose_top(labels, p, 3), 60)
    assert gain > 0.01


def test_the_threshold_keeps_the_precision_with_confidence():
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(40):
        p = rng.random(3000)
        found = threshold_for_precision(p, rng.random(3000) < p, 0.8, 0.9)
        kept.append((1 + found.threshold) / 2 >= 0.8)  # the precision above t is the mean of p there
        above = p >= found.threshold
        assert found.n_cells == above.sum()
        assert found.lower >= 0.8
        # the bound is that of Clopper and Pearson: this number of hits or more has probability alpha / 50 at it
        hits = round(found.precision * found.n_cells)
        assert binom.sf(hits - 1, found.n_cells, found.lower) == pytest.approx(0.1 / 50, rel=1e-6)
        assert found.threshold < 0.85
    assert np.mean(kept) >= 0.9


def test_repeated_cells_of_a_group_count_once():
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    hits, groups = rng.random(3000) < p, np.arange(3000)
    once = threshold_for_precision(p, hits, 0.8)
    often = threshold_for_precision(np.repeat(p, 10), np.repeat(hits, 10), 0.8, groups=np.repeat(groups, 10))
    assert often.threshold == once.threshold
    assert often.n_cells == 10 * once.n_cells
    assert often.lower == pytest.approx(once.lower, abs=1e-4)  # the + 1 of the bound counts differently
    assert threshold_for_precision(p, hits, 0.8, groups=groups).lower == pytest.approx(once.lower, abs=1e-12)
    sure = threshold_for_precision(np.ones(1000), np.ones(1000, bool), 0.9, groups=np.arange(1000) // 100)
    assert sure.threshold == np.inf  # ten groups are not enough


def test_many_improbable_cells_do_not_make_the_threshold_coarse():
    rng = np.random.default_rng(0)
    p = np.append(rng.random(4000), np.full(200_000, 0.001))
    found = threshold_for_precision(p, rng.random(len(p)) < p, 0.8)
    assert 0.6 < found.threshold < 0.7  # the precision above 0.6 is 0.8
    assert threshold_for_precision(np.zeros(10), np.zeros(10, bool), 0.5).threshold == np.inf


def test_an_unreachable_precision_has_an_infinite_threshold():
    found = threshold_for_precision([0.9, 0.8], [True, True], 0.99)
    assert found.threshold == np.inf
    assert found.lower == pytest.approx(0.001**0.5)  # two of two hits, at the level 0.05 / 50
    assert found.n_cells == 0
    assert threshold_for_precision([], [], 0.5).threshold == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_top(LABELS, P, 0), "at least 1"),
        (lambda: choose_top(LABELS, P[:1], 1), "one shape"),
        (lambda: choose_f1(LABELS, P + 0.5), "row 0: the probability 1.4"),
        (lambda: choose_above(LABELS, P, float("nan")), "not a number"),
        (lambda: threshold_for_precision([0.5], [True], 1.0), "between 0 and 1"),
        (lambda: threshold_for_precision([0.5], [True, False], 0.5), "as many"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.kernel
def test_the_ascent_ends_in_a_maximum_over_the_sets_of_each_row():
    for choose, value in ((choose_macro_f1, macro_f1), (choose_coverage, coverage)):
        labels, p = random_rows(n=40, m=5, n_labels=14, seed=3)
        labels[::4, 3:] = -1  # rows with three candidates
        p = np.where(labels >= 0, p, 0.0)
        chosen = choose(labels, p, 2)
        assert (chosen.sum(axis=1) == 2).all()
        reached = value(labels, p, chosen, 14)
        for row in range(40):
            for members in combinations(np.flatnonzero(labels[row] >= 0), 2):
                other = chosen.copy()
                other[row] = np.isin(np.arange(5), members)
                assert value(labels, p, other, 14) <= reached * (1 + 2e-6)


@pytest.mark.kernel
def test_more_labels_than_candidates_chooses_all_candidates():
    for choose in (choose_macro_f1, choose_coverage):
        np.testing.assert_array_equal(choose(LABELS, P, 9), LABELS >= 0)
        assert choose(np.empty((0, 3), int), np.empty((0, 3)), 2).shape == (0, 3)


def test_labels_without_probability_change_nothing():
    labels, p = np.array([[0, 1], [0, 1]]), np.array([[0.0, 0.5], [0.0, 0.5]])
    np.testing.assert_array_equal(choose_macro_f1(labels, p, 1), [[False, True], [False, True]])


def test_a_sure_label_can_be_taken_from_a_row_again():
    labels, p = np.array([[0, 1], [0, 1], [0, 1]]), np.array([[1.0, 0.9], [1.0, 0.2], [1.0, 0.1]])
    chosen = choose_coverage(labels, p, 1)
    assert coverage(labels, p, chosen, 2) > 0.95  # 0.5 for the most probable label of each row
