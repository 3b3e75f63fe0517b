"""Calibration and fusion of the members' lists, compared with loops over labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.models.ensembles.calibration import Sigmoid, calibrate, standardize
from unmissed.models.ensembles.fusion import Fusion
from unmissed.ranking import Ranking


def random_ranking(rng, n_samples, k, n_labels):
    """Return a ranking in which some rows list fewer than k labels."""
    labels = np.full((n_samples, k), -1)
    for row in range(n_samples):
        listed = rng.permutation(n_labels)[: rng.integers(0, k + 1)]
        labels[row, : len(listed)] = listed
    return Ranking.sort(labels, rng.normal(size=labels.shape))


def naive_scores(rankings, sigmoids, weights, row):
    """Return the score of each label that a member lists in a row."""
    listed = {int(label) for one in rankings for label in one.labels[row] if label >= 0}
    scores = dict.fromkeys(listed, 0.0)
    for label in listed:
        for one, (slope, offset), weight in zip(rankings, sigmoids, weights, strict=True):
            own = [float(s) for other, s in zip(one.labels[row], one.scores[row], strict=True) if other == label]
            full = one.labels[row, -1] >= 0
            score = own[0] if own else (float(one.scores[row, -1]) if full else -np.inf)
            scores[label] += weight / (1 + np.exp(-(slope * score + offset)))
    return scores


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_score_is_the_weighted_mean_of_probabilities(seed):
    rng = np.random.default_rng(seed)
    rankings = [random_ranking(rng, 4, int(rng.integers(1, 6)), 7) for _ in range(3)]
    sigmoids = [Sigmoid(rng.uniform(0.1, 3), rng.normal()) for _ in rankings]
    weights = rng.dirichlet(np.ones(3))
    found = Fusion.of(rankings, sigmoids).rank(weights, 9)
    assert found.labels.shape == (4, 9)
    for row in range(4):
        expected = naive_scores(rankings, sigmoids, weights, row)
        kept = found.labels[row] >= 0
        assert set(found.labels[row, kept]) == set(expected)
        assert found.scores[row, kept] == pytest.approx([expected[label] for label in found.labels[row, kept]])


def test_a_member_that_ends_its_list_gives_no_probability_to_other_labels():
    short = Ranking.sort([[3, -1]], [[9.0, 0.0]])
    full = Ranking.sort([[1, 2]], [[9.0, 8.0]])
    found = Fusion.of([short, full], [Sigmoid(1.0, 0.0)] * 2)
    by_label = dict(zip(found.labels[0], found.values[:, 0].T, strict=True))
    assert by_label[1][0] == by_label[2][0] == 0
    assert by_label[3][1] == by_label[2][1] > 0


def test_calibration_recovers_the_probability_of_a_score():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=(4000, 3)).astype(np.float32), axis=1)[:, ::-1]
    ranking = Ranking(np.tile(np.arange(3), (4000, 1)), scores)
    truth = sp.csr_matrix(rng.random(scores.shape) < 1 / (1 + np.exp(-(2 * scores - 1))))
    found = calibrate(ranking, truth)
    assert found.slope == pytest.approx(2, rel=0.1)
    assert found.offset == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize("fill", [0, 1])
def test_labels_that_are_all_wrong_or_all_correct_leave_standardized_scores(fill):
    ranking = Ranking.sort([[0, 1], [1, -1]], [[3.0, 1.0], [2.0, 0.0]])
    truth = sp.csr_matrix(np.full((2, 2), fill))
    assert calibrate(ranking, truth) == standardize(ranking)
    assert standardize(ranking)(np.float32([2.0]))[0] == pytest.approx(0.5)


def test_scores_that_say_the_opposite_keep_their_order():
    scores = np.float32([[2.0, 1.0]] * 50)
    truth = sp.csr_matrix(np.tile([0, 1], (50, 1)))
    sigmoid = calibrate(Ranking(np.tile([0, 1], (50, 1)), scores), truth)
    assert sigmoid.slope > 0


def test_separable_scores_do_not_saturate():
    scores = np.float32([[1000.0, 999.0, 0.0]] * 50)
    truth = sp.csr_matrix(np.tile([1, 1, 0], (50, 1)))
    values = calibrate(Ranking(np.tile([0, 1, 2], (50, 1)), scores), truth)(scores)
    assert (values[:, 0] > values[:, 1]).all()
    assert standardize(Ranking(np.full((2, 1), -1), np.full((2, 1), -np.inf))) == (1.0, 0.0)
