"""Calibration and fusion of the members' lists, compared with loops over labels."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.calibration import Calibration, MonotoneMap
from unmissed.models.ensembles.calibration import calibrate, standardize
from unmissed.models.ensembles.fusion import Fusion
from unmissed.ranking import Ranking


def random_ranking(rng, n_samples, k, n_labels):
    """Return a ranking in which some rows list fewer than k labels."""
    labels = np.full((n_samples, k), -1)
    for row in range(n_samples):
        listed = rng.permutation(n_labels)[: rng.integers(0, k + 1)]
        labels[row, : len(listed)] = listed
    return Ranking.sort(labels, rng.normal(size=labels.shape))


def random_calibration(rng, n_labels):
    """Return a calibration with other slopes and intercepts for each label."""
    pooled = MonotoneMap(np.array([-9.0, 9.0]), np.array([-9.0, 9.0]))
    slopes, intercepts = rng.uniform(0.1, 3, n_labels), rng.normal(size=n_labels)
    plain = Calibration.pooled_only(pooled, n_labels)
    return replace(plain, slopes=slopes.astype(np.float32), intercepts=intercepts.astype(np.float32))


def naive_scores(rankings, calibrations, weights, row):
    """Return the score of each label that a member lists in a row."""
    listed = {int(label) for one in rankings for label in one.labels[row] if label >= 0}
    scores = dict.fromkeys(listed, 0.0)
    for label in listed:
        for one, calibration, weight in zip(rankings, calibrations, weights, strict=True):
            own = [float(s) for other, s in zip(one.labels[row], one.scores[row], strict=True) if other == label]
            if not own and one.labels[row, -1] < 0:
                continue
            score = own[0] if own else float(one.scores[row, -1])
            logit = calibration.slopes[label] * score + calibration.intercepts[label]
            scores[label] += weight / (1 + np.exp(-logit))
    return scores


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_score_is_the_weighted_mean_of_probabilities(seed):
    rng = np.random.default_rng(seed)
    rankings = [random_ranking(rng, 4, int(rng.integers(1, 6)), 7) for _ in range(3)]
    calibrations = [random_calibration(rng, 7) for _ in rankings]
    weights = rng.dirichlet(np.ones(3))
    found = Fusion.of(rankings, calibrations).rank(weights, 9)
    assert found.labels.shape == (4, 9)
    for row in range(4):
        expected = naive_scores(rankings, calibrations, weights, row)
        kept = found.labels[row] >= 0
        assert set(found.labels[row, kept]) == set(expected)
        assert found.scores[row, kept] == pytest.approx([expected[label] for label in found.labels[row, kept]])


def test_a_member_that_ends_its_list_gives_no_probability_to_other_labels():
    short = Ranking.sort([[3, -1]], [[9.0, 0.0]])
    full = Ranking.sort([[1, 2]], [[9.0, 8.0]])
    found = Fusion.of([short, full], [standardize(full, 4)] * 2)
    by_label = dict(zip(found.labels[0], found.values[:, 0].T, strict=True))
    assert by_label[1][0] == by_label[2][0] == 0
    assert by_label[3][1] == by_label[2][1] > 0


def test_calibration_recovers_the_probability_of_a_score():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=(4000, 3)).astype(np.float32), axis=1)[:, ::-1]
    ranking = Ranking(np.tile(np.arange(3), (4000, 1)), scores)
    truth = sp.csr_matrix(rng.random(scores.shape) < 1 / (1 + np.exp(-(2 * scores - 1))))
    found = calibrate(ranking, truth, np.asarray(truth.sum(axis=0)).ravel())
    given = np.float32([-1, 0, 1])
    expected = 1 / (1 + np.exp(-(2 * given - 1)))
    for label in range(3):
        np.testing.assert_allclose(found.probability(np.full(3, label), given), expected, atol=0.07)


@pytest.mark.parametrize("fill", [0, 1])
def test_labels_that_are_all_wrong_or_all_correct_leave_standardized_scores(fill):
    ranking = Ranking.sort([[0, 1], [1, -1]], [[3.0, 1.0], [2.0, 0.0]])
    found = calibrate(ranking, sp.csr_matrix(np.full((2, 2), fill)), np.array([2, 2]))
    np.testing.assert_allclose(found.probability([0, 0], [2.0, 3.0]), [0.5, 1 / (1 + np.exp(-(1.5**0.5)))], rtol=1e-5)


def test_rankings_without_labels_have_a_calibration():
    empty = standardize(Ranking(np.full((2, 1), -1), np.full((2, 1), -np.inf)), 2)
    assert empty.probability([0], [1.0]) == 0.5
