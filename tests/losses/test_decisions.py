"""The decision that minimizes each loss over identical rows, as tabulated in docs/derivations.md."""

import numpy as np
import pytest

from unmissed.losses import (
    convex_bound,
    cross_entropy,
    cross_entropy_from_logits,
    hinge,
    logistic,
    naive,
    squared_hinge,
    unbiased,
)

CHANCES = np.array([0.02, 0.2, 0.45, 0.55, 0.7, 0.95, 0.99])
PROPENSITIES = [0.1, 0.4, 0.6, 0.9, 1.0]
SCORES = np.linspace(-3, 3, 6001)  # the least mean of the logistic loss at a chance of 0.99 lies outside, on its side


def decided(loss, p):
    """Whether the score of least mean loss is positive, for each chance that the label is true."""
    q = (CHANCES * p)[:, None]
    mean = q * loss.positive.value(SCORES) + (1 - q) * loss.negative.value(SCORES)
    return SCORES[mean.argmin(axis=1)] > 1e-6


@pytest.mark.parametrize("p", PROPENSITIES)
@pytest.mark.parametrize("make", [hinge, squared_hinge, cross_entropy_from_logits])
def test_a_plain_loss_needs_the_written_label_to_be_likelier_than_not(make, p):
    np.testing.assert_array_equal(decided(make(), p), CHANCES * p > 0.5)


@pytest.mark.parametrize("p", PROPENSITIES)
@pytest.mark.parametrize("make", [hinge, squared_hinge, logistic])
def test_an_unbiased_loss_decides_by_the_true_label(make, p):
    np.testing.assert_array_equal(decided(unbiased(make(), p), p), CHANCES > 0.5)


@pytest.mark.parametrize("p", PROPENSITIES)
@pytest.mark.parametrize("make", [hinge, squared_hinge])
def test_a_convex_bound_decides_by_the_true_label_too(make, p):
    np.testing.assert_array_equal(decided(convex_bound(make(), p), p), CHANCES > 0.5)


@pytest.mark.parametrize("p", PROPENSITIES)
def test_the_naive_loss_decides_too_late(p):
    np.testing.assert_array_equal(decided(naive(logistic(), p), p), 1 / (1 + p) < CHANCES)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_unbiased_cross_entropy_of_a_probability_turns_concave_where_derived(p):
    edge = 1 / (1 + np.sqrt(1 - p))
    half = unbiased(cross_entropy(), p).positive
    assert half.curvature(edge - 1e-3) > 0 > half.curvature(edge + 1e-3)
