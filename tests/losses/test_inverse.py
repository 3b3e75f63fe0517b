"""The factors 1/p, 2/p - 1, 1/p - 1 and 1 - 1/p, and their use in losses, weightings and torch modules."""

from fractions import Fraction

import numpy as np
import pytest

from unmissed.errors import InputError
from unmissed.losses import convex_bound, hinge, shifted_zero_one, squared_hinge, unbiased, zero_one
from unmissed.losses.inverse import (
    bound_factor,
    check_inverse_propensities,
    check_propensities,
    counter_factor,
    inverse_propensities,
    missing_odds,
)
from unmissed.metrics import evaluate
from unmissed.propensity import Constant, FromTable, costs, drop_labels
from unmissed.ranking import Ranking

P = np.array([0.125, 0.25, 0.4, 0.5, 0.8, 1.0])
INVERSE = 1 / P


def test_the_factors_are_their_formulas():
    for p in (Fraction(1, 8), Fraction(2, 5), Fraction(1)):
        assert bound_factor(1 / p) == 2 / p - 1
        assert missing_odds(1 / p) == 1 / p - 1
        assert counter_factor(1 / p) == 1 - 1 / p
    np.testing.assert_array_equal(inverse_propensities(P), 1 / P)
    np.testing.assert_array_equal(inverse_propensities(P, max_inverse=3), np.minimum(1 / P, 3))


@pytest.mark.parametrize("max_inverse", [None, 3.0])
def test_losses_use_the_shared_factors(max_inverse):
    inverse = inverse_propensities(P, max_inverse)
    zero, wide = np.zeros(P.size), np.full(P.size, -1.0)
    for make in (hinge, squared_hinge):
        bound = convex_bound(make(), P, max_inverse=max_inverse)
        np.testing.assert_array_equal(bound.positive.value(zero), bound_factor(inverse))
        np.testing.assert_array_equal(bound.negative.value(zero), np.ones(P.size))
        np.testing.assert_array_equal(bound.shift, missing_odds(inverse))
        exact = unbiased(make(), P, max_inverse=max_inverse)
        np.testing.assert_allclose(exact.positive.value(wide), inverse * make().positive.value(wide), rtol=1e-15)
        np.testing.assert_array_equal(
            exact.positive.value(-wide), counter_factor(inverse) * make().positive.value(wide)
        )
    lifted = shifted_zero_one(P, max_inverse=max_inverse)
    np.testing.assert_array_equal(lifted.shift, missing_odds(inverse))
    np.testing.assert_allclose(lifted.positive.value(wide), bound_factor(inverse), rtol=1e-15)
    np.testing.assert_array_equal(unbiased(zero_one(), P).positive.value(-wide), counter_factor(INVERSE))


def test_weightings_use_the_shared_factors():
    np.testing.assert_array_equal(costs("surrogate", P).positive, bound_factor(INVERSE))
    np.testing.assert_array_equal(costs("tail", P).positive, missing_odds(INVERSE))
    np.testing.assert_array_equal(costs("floored-tail", P).positive, np.maximum(1, missing_odds(INVERSE)))
    np.testing.assert_allclose(costs("balanced", P, np.ones(P.size)).positive, bound_factor(INVERSE), rtol=1e-14)
    np.testing.assert_array_equal(costs("unbiased", P).positive, INVERSE)
    np.testing.assert_array_equal(costs("unbiased", P).counter, counter_factor(INVERSE))


def test_torch_modules_use_the_shared_factors():
    torch = pytest.importorskip("torch")
    from unmissed.losses import torch as modules

    logits, present = torch.zeros(1, P.size, dtype=torch.float64), torch.ones(1, P.size)
    for make in (modules.ConvexHingeLoss, modules.ConvexSquaredHingeLoss):
        criterion = make(torch.tensor(P), reduction="none")
        np.testing.assert_array_equal(criterion(logits, present)[0], bound_factor(torch.tensor(INVERSE)))
    for make in (modules.UnbiasedHingeLoss, modules.UnbiasedSquaredHingeLoss):
        beyond = make(torch.tensor(P), reduction="none")(logits + 1, present)[0]
        absent = make(torch.tensor(P), reduction="none")(logits + 1, torch.zeros(1, P.size))[0]
        np.testing.assert_allclose(beyond, counter_factor(INVERSE) * absent.numpy(), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.0001, np.nan, np.inf])
def test_every_entry_point_rejects_a_propensity_outside_its_interval(wrong):
    message = rf"propensity( is)? {wrong:g}; it must lie in \(0, 1\]"
    rng = np.random.default_rng(0)
    for take in (
        check_propensities,
        inverse_propensities,
        Constant,
        lambda p: unbiased(hinge(), p),
        lambda p: FromTable([p]),
        lambda p: costs("tail", [p]),
        lambda p: drop_labels(np.eye(2), p, rng),
        lambda p: drop_labels(np.eye(2), [p, p], rng),
    ):
        with pytest.raises(InputError, match=message):
            take(wrong)


def test_the_error_for_a_propensity_names_its_label_and_its_source_and_suggests_the_inverse():
    with pytest.raises(InputError, match=r"^table\.txt: label 1 has the propensity 4; .*give 1 / value"):
        check_propensities([0.5, 4.0], "table.txt")
    with pytest.raises(InputError, match=r"^the propensity is 0; it must lie in \(0, 1\]$"):
        check_propensities(0)
    with pytest.raises(InputError, match="shape"):
        check_propensities([[0.5]])
    assert check_propensities([1, 1]).dtype == np.float64


@pytest.mark.parametrize("wrong", [0.5, 0.0, np.nan, np.inf])
def test_an_inverse_propensity_below_one_or_infinite_is_rejected(wrong):
    ranking = Ranking.sort([[0]], [[1.0]])
    for take in (
        lambda inverse: check_inverse_propensities(inverse, 2),
        lambda inverse: evaluate(ranking, np.eye(2)[:1], inverse, 1),
    ):
        advice = r" \(for a propensity give 1 / value\)" if wrong == 0.5 else ""
        message = f"label 1 has the inverse propensity {wrong:g}; expected at least 1 and finite{advice}$"
        with pytest.raises(InputError, match=message):
            take([1.0, wrong])
        with pytest.raises(InputError, match=r"have the shape \(3,\); 2 of them were expected"):
            take([1.0, 1.0, 1.0])
