from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.propensity import WEIGHTINGS, WeightingName, costs

propensities = st.lists(st.floats(1e-3, 1), min_size=1, max_size=20).map(np.array)


@pytest.mark.parametrize("weighting", ["none", "surrogate", "floored-tail", "unbiased"])
def test_labels_that_are_never_missing_have_unweighted_costs(weighting):
    assert [part.tolist() for part in costs(weighting, [1.0, 1.0])] == [[1, 1], [0, 0], [1, 1]]


def test_the_tail_weighting_gives_labels_that_are_never_missing_no_positive_cost():
    assert costs("tail", [1.0]).positive.tolist() == [0.0]


@given(propensities)
def test_unbiased_costs_give_the_loss_of_the_true_label_in_expectation(p):
    # A true label is observed with probability p, else it is a negative; phi(m) and phi(-m) are independent.
    positive, counter, negative = costs("unbiased", p)
    np.testing.assert_allclose(p * positive, 1, rtol=1e-12)
    np.testing.assert_allclose(p * counter + (1 - p) * negative, 0, atol=1e-12)


@given(propensities)
def test_the_surrogate_is_the_unbiased_positive_cost_with_the_counter_cost_turned_over(p):
    # phi/p - (1/p - 1) phi(-m) <= (2/p - 1) phi(m) at phi(-m) = -phi(m): the paper's bound
    unbiased = costs("unbiased", p)
    np.testing.assert_allclose(costs("surrogate", p).positive, unbiased.positive - unbiased.counter, rtol=1e-12)


@given(propensities)
def test_the_tail_weighting_is_the_mean_gap_between_seen_and_true(p):
    np.testing.assert_allclose(costs("tail", p).positive, (1 - p) / p, rtol=1e-9, atol=1e-12)


def test_the_floored_tail_weighting_is_the_tail_one_where_that_costs_more_than_a_negative():
    assert costs("floored-tail", [0.25, 0.5, 0.75, 1.0]).positive.tolist() == [3.0, 1.0, 1.0, 1.0]


def test_the_names_of_weightings_are_those_that_the_type_lists():
    assert get_args(WeightingName) == tuple(WEIGHTINGS)


def test_the_balanced_weighting_is_its_formula():
    p, counts = np.array([0.25, 0.5, 1.0]), np.array([1, 3, 1000])
    expected = [(1 - 0.9) / (1 - 0.9**n) * (2 / q - 1) for q, n in zip(p, counts, strict=True)]
    np.testing.assert_allclose(costs("balanced", p, counts).positive, expected, rtol=1e-13)


def test_the_balanced_weighting_is_finite_for_labels_without_positives():
    assert np.isfinite(costs("balanced", [0.1], [0]).positive).all()


def test_the_balanced_weighting_needs_counts():
    with pytest.raises(InputError, match="needs label counts"):
        costs("balanced", [0.5])


@given(propensities)
def test_every_weighting_keeps_negatives_at_one_and_gives_float64(p):
    for weighting in WEIGHTINGS:
        result = costs(weighting, p, np.ones(p.size))
        assert all(part.dtype == np.float64 and part.shape == p.shape for part in result)
        assert (result.negative == 1).all()
        assert (result.positive >= 0).all()
        assert (weighting == "unbiased") or (result.counter == 0).all()


@given(propensities)
def test_a_smaller_propensity_never_costs_less(p):
    p = np.sort(p)
    for weighting in WEIGHTINGS:
        assert (np.diff(costs(weighting, p, np.ones(p.size)).positive) <= 0).all()


def test_bad_input_is_rejected():
    with pytest.raises(
        InputError, match="unknown weighting 'some'; known: none, surrogate, tail, floored-tail, balanced"
    ):
        costs("some", [0.5])
    with pytest.raises(InputError, match=r"label 1 has the propensity 1\.5"):
        costs("none", [0.5, 1.5])
    for wrong in ([[0.5]], 0.5):
        with pytest.raises(InputError, match="one number per label"):
            costs("none", wrong)
    with pytest.raises(InputError, match="label counts must be 1 numbers"):
        costs("balanced", [0.5], [1, 2])
    with pytest.raises(InputError, match="label counts must be 2 numbers of at least 0"):
        costs("balanced", [0.5, 0.5], [1, -1])
