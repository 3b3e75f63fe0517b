"""Rank effects: recovered effects, a slow reference, laws, and calibrations that know ranks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from tests.calibration.test_link import draw_cells, log_loss
from unmissed.calibration import fit_calibration, rank_effects
from unmissed.calibration.monotone_map import MonotoneMap
from unmissed.calibration.rank_effects import FIRST_RANKS, RankEffects, fit_rank_effects
from unmissed.errors import InputError


def draw_ranked(n_rows=3000, seed=0):
    """Draw cells of 12 ranks whose logit is a z + b, where a and b depend on the rank and on log n."""
    rng = np.random.default_rng(seed)
    ranks = np.tile(np.arange(12), n_rows)
    z, log_counts = rng.normal(-1, 1.5, len(ranks)), rng.uniform(0.5, 6, len(ranks))
    slopes = np.where(ranks == 0, 0.6 + 0.05 * log_counts, 1.1)
    intercepts = np.where(ranks == 0, 1.0, np.where(ranks < 5, -0.2 - 0.1 * log_counts, 0.3))
    truth = expit(slopes * z + intercepts)
    return z, rng.random(len(z)) < truth, log_counts, ranks, truth


def test_effects_of_rank_and_frequency_are_recovered():
    z, observed, log_counts, ranks, truth = draw_ranked()
    effects = fit_rank_effects(z, observed, log_counts, ranks, 3000)
    found = expit(effects(z, log_counts, ranks))
    assert np.abs(found - truth).mean() < 0.015
    assert np.abs(expit(z) - truth).mean() > 0.05
    for rank in (0, 1, 7, 11):
        mine = ranks == rank
        assert abs((found - truth)[mine].mean()) < 0.02


def test_a_class_of_ranks_is_the_mode_of_the_penalized_likelihood():
    z, observed, log_counts, ranks, _ = draw_ranked(200)
    mine = ranks == 0
    found = rank_effects._fit_class(z[mine], observed[mine], log_counts[mine])
    centered, center, signs = log_counts[mine], log_counts[mine].mean(), np.where(observed[mine], 1, -1)

    def cost(w):
        logits = (w[0] + w[1] * (centered - center)) * z[mine] + w[2] + w[3] * (centered - center)
        return np.logaddexp(0, -signs * logits).sum() + 0.5 * rank_effects._RIDGE * ((w - [1, 0, 0, 0]) ** 2).sum()

    best = minimize(cost, [1, 0, 0, 0], method="BFGS", options={"gtol": 1e-8}).x
    expected = [[best[0] - center * best[1], best[1]], [best[2] - center * best[3], best[3]]]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_class_without_cells_and_few_rows_change_nothing():
    z, observed, log_counts, ranks, _ = draw_ranked()
    identity = np.array([[1.0, 0.0], [0.0, 0.0]])
    first = fit_rank_effects(*(part[ranks < 5] for part in (z, observed, log_counts, ranks)), 3000)
    np.testing.assert_array_equal(first.coefficients[5:], [identity, identity])
    assert (first.coefficients[:5] != identity).any(axis=(1, 2)).all()
    few = fit_rank_effects(z, observed, log_counts, ranks, 499)
    np.testing.assert_allclose(few(z, log_counts, ranks), z, atol=1e-12)


def test_labels_at_the_first_rank_get_their_own_probability():
    cells, truth = draw_cells(n_rows=2000)
    higher = cells.ranks == 0
    rng = np.random.default_rng(3)
    observed = np.where(higher, rng.random(len(cells)) < 0.5 * (1 + truth), cells.observed)
    calibration = fit_calibration(replace(cells, observed=observed), np.full(40, 30))
    known = calibration.probability(cells.labels, cells.scores, cells.ranks)
    unknown = calibration.probability(cells.labels, cells.scores)
    assert abs((known - observed)[higher].mean()) < 0.02
    assert (unknown - observed)[higher].mean() < -0.1
    assert log_loss(known, observed) < log_loss(unknown, observed) - 0.005


def test_ranks_are_broadcast_over_the_columns_of_a_ranking_and_checked():
    calibration = fit_calibration(draw_cells(n_rows=600)[0], np.full(40, 30))
    labels, scores = np.array([[3, 5, -1], [1, 0, 2]]), np.array([[0.5, 0.1, -np.inf], [0.4, 0.3, -0.2]])
    found = calibration.probability(labels, scores, range(3))
    assert found.dtype == np.float32
    assert found[0, 2] == 0
    np.testing.assert_array_equal(found, calibration.probability(labels, scores, [[0, 1, 2], [0, 1, 2]]))
    for ranks, message in (([0, 1], "one rank per column"), ([-1, 0, 1], "at least 0"), ([0.0, 1.0, 2.0], "integers")):
        with pytest.raises(InputError, match=message):
            calibration.probability(labels, scores, ranks)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30), st.floats(-3, 3), st.floats(0, 3))
def test_at_a_fixed_rank_a_probability_never_falls_with_the_score(seed, rank, score, step):
    cells, _ = draw_cells(n_labels=3, n_rows=40, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_effects, "_FEWEST_ROWS", 1)
        patch.setattr(rank_effects, "_RIDGE", 0.1)
        flipped = replace(cells, observed=cells.observed ^ (cells.ranks < seed % 10))
        calibration = fit_calibration(flipped, np.array([2, 10, 50]))
    for label in range(3):
        low, high = calibration.probability([label, label], [score, score + step], [rank, rank])
        assert 0 <= low <= high <= 1


def test_coefficients_of_another_shape_are_refused():
    edges = np.array([-1.0, 1.0])
    with pytest.raises(InputError, match="7 x 2 x 2"):
        RankEffects(np.zeros((len(FIRST_RANKS), 2, 1)), MonotoneMap(edges, edges))
