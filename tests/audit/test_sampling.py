"""Samples for audits: strata, allocation, inclusion probabilities."""

import numpy as np
import pytest

from tests.audit.populations import simulated
from unmissed.audit.sampling import allocate, frequency_bands, prior_shape
from unmissed.errors import InputError


@pytest.fixture(scope="module")
def population():
    return simulated(lambda label, truth: 0.6)[0]


def test_strata_partition_the_empty_cells_and_the_observed_labels(population):
    strata, Y = population.strata(), population._Y
    assert sum(one.n_cells for one in strata) == Y.shape[0] * Y.shape[1] - Y.nnz
    assert sum(one.n_observed for one in strata) == Y.nnz
    for at, band in enumerate(population.bands):
        assert sum(one.n_observed for one in strata if one.band == at) == band.n_observed


def test_a_sample_has_distinct_empty_cells_of_their_own_stratum(population):
    sample = population.sample(600, seed=3)
    keys = sample.rows * population.n_labels + sample.labels
    assert len(np.unique(keys)) == len(sample) <= 600
    assert not np.asarray(population._Y[sample.rows, sample.labels]).any()
    ranked = np.isin(keys, population.rows * population.n_labels + population.labels)
    for number, stratum in enumerate(sample.strata):
        inside = sample.stratum == number
        assert inside.sum() == stratum.n_checks >= min(10, (stratum.n_cells + 1) // 2)
        assert (population.band[sample.labels[inside]] == stratum.band).all()
        assert (ranked[inside] == stratum.is_ranked).all()
        np.testing.assert_allclose(sample.inclusion_probability[inside], stratum.n_checks / stratum.n_cells)
        if stratum.is_ranked:
            found = sample.missing_probability[inside]
            assert stratum.low <= found.min() <= found.max() <= stratum.high


def test_a_seed_gives_the_same_sample_and_another_seed_another_one(population):
    first, again, other = (population.sample(400, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.rows, again.rows)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert (first.rows != other.rows).any()


def test_unranked_cells_are_drawn_uniformly(population):
    strata = [one._replace(n_checks=300) for one in population.strata() if not one.is_ranked]
    rng = np.random.default_rng(0)
    keys = np.concatenate([population._draw_unranked(strata[0], rng) for _ in range(20)])
    labels = np.flatnonzero(population.band == strata[0].band)
    key = np.arange(population.n_samples)[:, None] * population.n_labels + labels
    empty = (population._Y[:, labels].toarray() == 0) & ~np.isin(key, population._ranked)
    expected = empty.sum(axis=0) / empty.sum() * len(keys)
    found = np.array([(keys % population.n_labels == label).sum() for label in labels])
    assert ((found - expected) ** 2 / expected).sum() < 2 * len(labels)


def test_checks_go_where_they_lower_the_largest_variance(population):
    strata = allocate(population.strata(), population.bands, 1000)
    assert sum(one.n_checks for one in strata) == 1000
    rare = [one for one in strata if not one.is_ranked]
    assert all(one.n_checks < 200 for one in rare)  # their answers are nearly all no


def test_the_prior_of_a_stratum_is_the_posterior_of_a_poisson_rate_if_strata_do_not_differ():
    """Observed and missing labels are Poisson counts, so missing ones given observed ones are negative binomial."""
    rng, ratio = np.random.default_rng(0), 0.8
    rate = rng.gamma(30.0, 1.0, 400_000)
    observed, missing = rng.poisson(rate), rng.poisson(rate * ratio)
    missing = missing[observed == 30]
    shape = float(prior_shape(np.inf, np.array([30 + 29.5]))[0])  # the prior of the rates is worth 29.5 observed labels
    mean = ratio * (30 + 30) / 2
    assert missing.var() == pytest.approx(mean + mean**2 / shape, rel=0.05)


def test_too_few_checks_are_refused_with_the_number_that_is_needed(population):
    with pytest.raises(InputError, match=r"too few for .* give at least"):
        population.sample(20)


def test_more_checks_than_cells_check_every_ranked_cell():
    population, _ = simulated(lambda label, truth: 0.6, n_rows=30, n_labels=12)
    sample = population.sample(100_000)
    assert all(one.n_checks == one.n_cells for one in sample.strata if one.is_ranked)


def test_bands_follow_frequency_and_keep_equal_counts_together():
    counts = np.array([0, 1, 1, 1, 2, 5, 9, 100, 3, 0])
    bands = frequency_bands(counts, 3)
    assert (bands[counts == 0] == -1).all()
    assert set(bands[counts > 0]) == set(range(bands.max() + 1))
    order = np.argsort(counts, kind="stable")
    assert (np.diff(bands[order]) >= 0).all()
    assert len(set(bands[counts == 1])) == 1
    with pytest.raises(InputError, match="no label has a positive"):
        frequency_bands([0, 0], 2)
