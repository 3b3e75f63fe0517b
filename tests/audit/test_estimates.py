"""Estimates from answers, on simulated audits whose truth is known."""

import numpy as np
import pytest
from scipy import stats

from tests.audit.populations import answered, simulated
from unmissed.audit.accepted_shares import accepted_share
from unmissed.audit.audit_estimates import CellAnswers, estimate
from unmissed.audit.curves import curve_of, shrunk_curve
from unmissed.errors import InputError


def all_answered(yes):
    return CellAnswers(yes, 1 - yes, np.zeros_like(yes))


def true_propensities(population, dropped):
    band = population.band[dropped % population.n_labels]
    missing = np.bincount(band[band >= 0], minlength=len(population.bands))
    observed = np.array([band.n_observed for band in population.bands])
    return observed / (observed + missing)


def test_intervals_have_the_true_propensity_and_no_warning_if_it_is_constant():
    inside, rejected = [], []
    for seed in range(15):
        population, dropped = simulated(lambda label, truth: np.where(label < 50, 0.35, 0.7), seed=seed)
        true = true_propensities(population, dropped)
        sample = population.sample(600, seed)
        result = estimate(sample, all_answered(answered(sample, population, dropped)), seed)
        inside.append([one.low <= p <= one.high for one, p in zip(result.bands, true, strict=True)])
        rejected.append(result.constant_p_value < 0.01)
    assert np.mean(inside) >= 0.85
    assert np.mean(rejected) <= 0.15


def test_horvitz_thompson_is_unbiased():
    population, dropped = simulated(lambda label, truth: 0.5)
    missing = np.bincount(population.band[dropped % population.n_labels])
    found = []
    for seed in range(16):
        sample = population.sample(600, seed)
        result = estimate(sample, all_answered(answered(sample, population, dropped)))
        found.append([one.horvitz_thompson for one in result.bands])
    error = np.mean(found, axis=0) - missing
    assert (np.abs(error) < 3.5 * np.std(found, axis=0) / np.sqrt(16)).all()


def test_a_propensity_that_depends_on_the_row_is_warned_of():
    population, dropped = simulated(lambda label, truth: np.clip(0.1 + 2 * truth, 0, 0.9), n_rows=600)
    sample = population.sample(1000, 0)
    result = estimate(sample, all_answered(answered(sample, population, dropped)))
    assert result.constant_p_value < 0.01
    assert any("depends on the row" in line for line in result.warnings)


def test_intervals_have_the_true_propensity_also_if_it_depends_on_the_row():
    inside = []
    for seed in range(6):
        population, dropped = simulated(lambda label, truth: np.minimum(0.2 + 0.8 * truth, 0.9), n_rows=600, seed=seed)
        sample = population.sample(800, seed)
        result = estimate(sample, all_answered(answered(sample, population, dropped)), seed)
        true = true_propensities(population, dropped)
        inside.append([one.low <= p <= one.high for one, p in zip(result.bands, true, strict=True)])
    assert np.mean(inside) >= 0.8


@pytest.fixture(scope="module")
def audit():
    population, dropped = simulated(lambda label, truth: 0.5)
    sample = population.sample(500, 0)
    return sample, answered(sample, population, dropped)


def test_unsure_is_neither_yes_nor_no_and_its_effect_is_bounded(audit):
    sample, yes = audit
    unsure = np.zeros_like(yes)
    unsure[::10] = 1
    result = estimate(sample, CellAnswers(yes * (1 - unsure), (1 - yes) * (1 - unsure), unsure))
    assert result.n_unsure == unsure.sum()
    assert result.n_decided == len(yes) - unsure.sum()
    for one in result.bands:
        assert one.p_unsure_yes < one.p < one.p_unsure_no + 0.02
    assert any('"unsure" only' in line for line in result.warnings)


def test_equal_answers_of_two_people_change_nothing_and_agree(audit):
    sample, yes = audit
    one = estimate(sample, all_answered(yes))
    two = estimate(sample, CellAnswers(2 * yes, 2 * (1 - yes), np.zeros_like(yes)))
    assert one.bands == two.bands
    assert one.agreement is None
    assert two.agreement.agreeing == two.agreement.kappa == 1


def test_agreement_is_that_of_fleiss():
    population, _ = simulated(lambda label, truth: 0.5)
    sample = population.sample(300, 0)
    yes, no = np.zeros(len(sample), np.int64), np.zeros(len(sample), np.int64)
    yes[:4], no[:4] = [2, 0, 1, 2], [0, 2, 1, 0]
    found = estimate(sample, CellAnswers(yes, no, np.zeros_like(yes))).agreement
    chance = (5 / 8) ** 2 + (3 / 8) ** 2
    assert found.n_cells == 4
    assert found.agreeing == pytest.approx(0.75)
    assert found.kappa == pytest.approx((0.75 - chance) / (1 - chance))


def test_labels_found_outside_the_ranked_ones_are_warned_of(audit):
    sample, yes = audit
    ranked = np.array([one.is_ranked for one in sample.strata])[sample.stratum]
    result = estimate(sample, all_answered(np.where(ranked, yes, 1)))
    assert any("the finder overlooks labels" in line for line in result.warnings)


def test_the_finder_is_compared_with_the_answers_by_bin(audit):
    sample, yes = audit
    for one in estimate(sample, all_answered(yes)).finder:
        assert one.low <= one.predicted <= one.high
        assert one.share_low <= one.share <= one.share_high


def test_shares_have_the_interval_of_clopper_and_pearson_also_for_equal_weights():
    yes, stated = np.array([1, 0, 0, 1, 1, 0, 0, 0, 0, 0]), np.full(10, 0.4)
    exact = stats.binomtest(3, 10).proportion_ci(0.95, method="exact")
    for weights in (None, np.full(10, 7.0)):
        found = accepted_share(0.0, 1.0, yes, stated, weights)
        assert (found.n_decided, found.n_accepted, found.share) == (10, 3, pytest.approx(0.3))
        np.testing.assert_allclose((found.share_low, found.share_high), exact)
    uneven = accepted_share(0.0, 1.0, yes, stated, np.array([1.0, 1, 1, 2, 3, 1, 1, 3, 3, 4]))
    assert uneven.share == pytest.approx(0.3)
    assert uneven.share_high - uneven.share_low > exact.high - exact.low
    for answer in (0, 1):
        sure = accepted_share(0.0, 1.0, np.full(10, answer), np.full(10, np.nan))
        assert (sure.share_low, sure.share_high)[answer] == answer
        assert sure.share_low < sure.share_high
        assert sure.predicted is None


def test_no_answers_are_refused(audit):
    sample, yes = audit
    nothing = np.zeros_like(yes)
    with pytest.raises(InputError, match="no sampled cell has a yes or a no"):
        estimate(sample, CellAnswers(nothing, nothing, nothing))
    with pytest.raises(InputError, match="answers to 3 cells"):
        estimate(sample, CellAnswers(*np.ones((3, 3), np.int64)))


def test_the_curve_goes_through_few_bands_and_moves_uncertain_ones_of_many(audit):
    sample, yes = audit
    result = estimate(sample, all_answered(yes))
    np.testing.assert_allclose(curve_of(result).p, [one.p for one in result.bands])
    centers, p = [1, 10, 100, 1000], [0.2, 0.9, 0.4, 0.5]
    low, high = [0.19, 0.3, 0.39, 0.49], [0.21, 0.99, 0.41, 0.51]
    curve = shrunk_curve(centers, p, low, high, 100)
    moved = np.abs(np.array(curve.p) - p)
    assert moved.argmax() == 1
    assert curve.p[1] < 0.9
    assert np.delete(moved, 1).max() < 0.02
