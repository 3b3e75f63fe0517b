"""Unbiasedness, convexity, bounds, and the numbers in the figure of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.losses import (
    NAMED,
    Curve,
    Half,
    Loss,
    Metadata,
    convex_bound,
    cross_entropy,
    cross_entropy_from_logits,
    hamming,
    hinge,
    inverse_propensities,
    logistic,
    naive,
    shifted_zero_one,
    squared_error,
    squared_hinge,
    unbiased,
    zero_one,
)

propensities = st.floats(0.01, 1.0)
chances = st.floats(0.0, 1.0)
units = st.floats(0.0, 1.0)

PLAIN = {**NAMED, "clipped": lambda: cross_entropy_from_logits(1e-7), "own": lambda: own()}
CORRECTED = {
    **{f"unbiased {name}": lambda p, make=make: unbiased(make(), p) for name, make in PLAIN.items()},
    "convex hinge": lambda p: convex_bound(hinge(), p),
    "convex squared hinge": lambda p: convex_bound(squared_hinge(), p),
    "naive cross-entropy": lambda p: naive(cross_entropy_from_logits(), p),
    "shifted 0-1": shifted_zero_one,
}


def own():
    """A loss nobody has named: exponential and quartic halves."""
    positive = Curve(lambda s: np.exp(-s / 8), lambda s: -np.exp(-s / 8) / 8, lambda s: np.exp(-s / 8) / 64)
    return Loss.of_functions(positive, Curve(lambda s: s**4, lambda s: 4 * s**3, lambda s: 12 * s**2))


def position(loss, unit):
    """Map a number in [0, 1] into the inside of a loss's domain."""
    if loss.domain == (0.0, 1.0):
        return np.float64(1e-6 + unit * (1 - 2e-6))
    return np.float64(-20 + 40 * unit)


def grid(loss, n=4001):
    return position(loss, np.linspace(0, 1, n))


@pytest.mark.parametrize("name", PLAIN)
@given(p=propensities, r=chances, unit=units)
@settings(deadline=None, max_examples=200)
def test_the_corrected_loss_of_the_observed_label_averages_to_the_loss_of_the_true_one(name, p, r, unit):
    plain = PLAIN[name]()
    s = position(plain, unit)
    corrected = unbiased(plain, p)
    estimate = r * p * corrected.positive.value(s) + (1 - r * p) * corrected.negative.value(s)
    truth = r * plain.positive.value(s) + (1 - r) * plain.negative.value(s)
    size = plain.positive.value(s) + plain.negative.value(s)
    assert estimate == pytest.approx(truth, abs=1e-13 * max(1.0, size), rel=0)


@pytest.mark.parametrize("name", PLAIN)
def test_the_derivatives_are_unbiased_too(name):
    plain = PLAIN[name]()
    s, p, r = grid(plain, 101), 0.3, 0.7
    corrected = unbiased(plain, p)
    estimate = r * p * corrected.positive.derivative(s) + (1 - r * p) * corrected.negative.derivative(s)
    np.testing.assert_allclose(
        estimate, r * plain.positive.derivative(s) + (1 - r) * plain.negative.derivative(s), atol=1e-9
    )


@pytest.mark.parametrize("name", CORRECTED)
def test_with_every_label_seen_the_correction_is_the_plain_loss_to_the_bit(name):
    corrected = CORRECTED[name](1.0)
    plain = {
        "convex hinge": hinge,
        "convex squared hinge": squared_hinge,
        "naive cross-entropy": cross_entropy_from_logits,
        "shifted 0-1": zero_one,
    }.get(name, PLAIN.get(name.removeprefix("unbiased ")))()
    s = grid(plain, 301)
    for order in ("value", "derivative", "curvature"):
        np.testing.assert_array_equal(corrected.positive.evaluate(order, s), plain.positive.evaluate(order, s))
        np.testing.assert_array_equal(corrected.negative.evaluate(order, s), plain.negative.evaluate(order, s))
    assert (corrected.convex, corrected.bounded_below) == (plain.convex, plain.bounded_below)
    assert corrected.shift == 0


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("name", CORRECTED)
def test_what_a_loss_says_of_its_convexity_is_seen_on_a_grid(name, p):
    loss = CORRECTED[name](p)
    if loss.convex is None:
        assert name == "unbiased own"
        return
    s = grid(loss)
    sag = [(h.value(s)[:-2] + h.value(s)[2:] - 2 * h.value(s)[1:-1]).min() for h in (loss.positive, loss.negative)]
    assert loss.convex == (min(sag) > -1e-9)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("name", CORRECTED)
def test_what_a_loss_says_of_its_floor_is_seen_far_out(name, p):
    loss = CORRECTED[name](p)
    if loss.bounded_below is None:
        assert name == "unbiased own"
        return
    if loss.domain == (0.0, 1.0):
        far = np.array([0.0, 1.0])  # at its ends the loss of a probability is infinite
        with np.errstate(invalid="ignore"):
            low = min(np.nanmin(half.value(far)) for half in (loss.positive, loss.negative))
    else:
        far = np.array([-1e6, -1e5, 1e5, 1e6])
        low = min(half.value(far).min() for half in (loss.positive, loss.negative))
    assert loss.bounded_below == (low > -1e3)


@pytest.mark.parametrize("name", [*PLAIN, *CORRECTED])
@given(p=propensities, unit=units)
@settings(deadline=None, max_examples=60)
def test_derivative_and_curvature_are_derivatives(name, p, unit):
    loss = PLAIN[name]() if name in PLAIN else CORRECTED[name](p)
    kinks = [-np.log(1e7 - 1), -1.0, 0.0, 0.5, 1.0, np.log(1e7 - 1)]
    s = position(loss, 0.05 + 0.9 * unit)
    if min(abs(s - kink) for kink in kinks) < 1e-3:
        return
    step = 1e-6 * (1 if loss.domain[1] == 1 else 10)
    for half in (loss.positive, loss.negative):
        for lower, upper in [(half.value, half.derivative), (half.derivative, half.curvature)]:
            rise = (lower(s + step) - lower(s - step)) / (2 * step)
            assert upper(s) == pytest.approx(rise, rel=1e-4, abs=1e-3)


def test_a_part_of_a_convex_half_is_convex_and_a_sum_with_a_concave_one_is_not_known_to_be():
    plain = hinge().positive
    assert (0.5 * plain).convex is True
    assert (0.5 * plain).bounded_below is True
    assert (0.5 * plain + 0.25 * hinge().negative).convex is True
    assert (-0.5 * plain).convex is None
    assert (0.5 * plain + 0.5 * zero_one().positive).convex is None
    assert (np.array([0.5, 0.0]) * plain).convex is True
    assert (
        Loss.of_functions(Curve(np.abs, metadata=Metadata(True, True)), np.abs).convex is None
    )  # of one half nobody said
    falling = Half.of(Curve(lambda s: -s, metadata=Metadata(convex=True, bounded_below=False)))
    assert ((plain + falling).convex, (plain + falling).bounded_below) == (True, None)


def test_the_unbiased_hinge_breaks_convexity_exactly_at_minus_one():
    half = unbiased(hinge(), 0.5).positive
    assert half.derivative(-1.001) == -2
    assert half.derivative(-0.999) == -3  # a decreasing derivative: the concave kink of the paper's red circle
    middle, chord = half.value(-1.0), (half.value(-1.5) + half.value(-0.5)) / 2
    assert (middle, chord) == (4.0, 3.75)
    assert half.convex is False


@given(p=propensities, s=st.floats(-50, 50))
@settings(deadline=None)
def test_the_convex_bounds_lie_above_the_shifted_zero_one_loss_and_touch_it(p, s):
    target = shifted_zero_one(p)
    for make in (hinge, squared_hinge):
        bound = convex_bound(make(), p)
        assert bound.positive.value(s) >= target.positive.value(s) - 1e-9
        assert bound.negative.value(s) >= target.negative.value(s)
        assert bound.positive.value(1e-12) == pytest.approx(2 / p - 1)
        assert bound.shift == pytest.approx(1 / p - 1)
        assert bound.convex
        assert bound.bounded_below


@given(p=propensities, s=st.floats(-50, 50))
@settings(deadline=None)
def test_the_shift_is_what_separates_the_shifted_loss_from_the_unbiased_one(p, s):
    lifted, exact = shifted_zero_one(p), unbiased(zero_one(), p)
    assert lifted.positive.value(s) - lifted.shift == pytest.approx(exact.positive.value(s), abs=1e-9)
    assert lifted.positive.value(s) >= -1e-9


@given(p=propensities, r=chances, s=st.floats(-20, 20))
@settings(deadline=None)
def test_the_naive_loss_is_biased_upwards_by_the_negative_half_of_missed_labels(p, r, s):
    plain = cross_entropy_from_logits()
    wrong = naive(plain, p)
    mean = r * p * wrong.positive.value(s) + (1 - r * p) * wrong.negative.value(s)
    truth = r * plain.positive.value(s) + (1 - r) * plain.negative.value(s)
    assert mean - truth == pytest.approx(r * (1 - p) * plain.negative.value(s), abs=1e-9)


@pytest.mark.parametrize(
    ("loss", "at"),
    [
        (zero_one(), {-2: 1, -1e-9: 1, 0: 0, 2: 0}),
        (unbiased(zero_one(), 0.5), {-2: 2, -1e-9: 2, 0: -1, 2: -1}),
        (shifted_zero_one(0.5), {-2: 3, -1e-9: 3, 0: 0, 2: 0}),
        (hinge(), {-2: 3, 1: 0, 2: 0}),
        (convex_bound(hinge(), 0.5), {-1: 6, 1: 0, 2: 0}),
        (unbiased(hinge(), 0.5), {-2: 6, -1: 4, 0: 1, 1: -2, 2: -3}),
        (squared_hinge(), {-1: 4, 0: 1, 1: 0, 2: 0}),
        (convex_bound(squared_hinge(), 0.5), {-1: 12, 0: 3, 1: 0, 2: 0}),
    ],
    ids=lambda value: value.name if isinstance(value, Loss) else "",
)
def test_the_curves_of_the_papers_figure_pass_through_its_coordinates(loss, at):
    for score, height in at.items():
        assert loss.positive.value(score) == height


@given(p=propensities, s=st.floats(-20, 20))
@settings(deadline=None)
def test_closed_forms_of_the_paper(p, s):
    assert unbiased(squared_error(), p).positive.value(s) == pytest.approx((1 - 2 * s) / p + s * s, abs=1e-8)
    assert unbiased(logistic(), p).positive.value(s) == pytest.approx(np.logaddexp(0, s) - s / p, abs=1e-8)
    q = 1 / (1 + np.exp(-s))
    from_probability = unbiased(cross_entropy(), p).positive.value(q)
    assert from_probability == pytest.approx(unbiased(logistic(), p).positive.value(s), rel=1e-5, abs=1e-4)


def test_squared_error_zero_one_and_hamming_agree_on_decisions():
    decisions = np.array([0.0, 1.0])
    for p in (0.2, 1.0):
        losses = [unbiased(make(), p) for make in (squared_error, hamming)]
        zero_one_scores = unbiased(zero_one(), p).positive.value(2 * decisions - 1)
        for loss in losses:
            np.testing.assert_allclose(loss.positive.value(decisions), zero_one_scores, atol=1e-12)
            np.testing.assert_array_equal(loss.negative.value(decisions), decisions)


def test_a_clipped_cross_entropy_stops_where_its_probability_is_clipped():
    loss = unbiased(cross_entropy_from_logits(1e-7), 0.1)
    edge = np.log(1 / 1e-7 - 1)
    assert loss.positive.value(edge + 5) == loss.positive.value(edge)
    assert loss.positive.derivative(edge + 5) == 0
    assert loss.positive.derivative(edge - 1) < 0
    assert loss.bounded_below
    for clip in (0.5, 0.0, -0.1):
        with pytest.raises(InputError, match="clip"):
            cross_entropy_from_logits(clip)


def test_logits_of_any_size_give_finite_losses_in_single_precision():
    scores = np.array([-1e4, -100, 0, 100, 1e4], dtype=np.float32)
    half = unbiased(cross_entropy_from_logits(), 0.25).positive
    for order in ("value", "derivative", "curvature"):
        values = half.evaluate(order, scores)
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
    np.testing.assert_allclose(half.value(scores)[[0, 4]], [4e4, -3e4])


def test_a_probability_of_one_costs_nothing_where_the_label_cannot_be_missed():
    loss = unbiased(cross_entropy(), [1.0, 0.5])
    np.testing.assert_array_equal(loss.positive.value([1.0, 1.0]), [0, -np.inf])


@pytest.mark.parametrize("p", [0.0, -0.1, 1.0001, np.nan, np.inf])
def test_a_propensity_outside_its_interval_is_rejected(p):
    for correct in (unbiased, convex_bound, naive):
        with pytest.raises(InputError, match=r"\(0, 1\]"):
            correct(hinge(), p)
        with pytest.raises(InputError, match="label 1"):
            correct(hinge(), [0.5, p])


def test_clipping_limits_the_inverse_and_does_not_change_frequent_labels():
    np.testing.assert_array_equal(inverse_propensities([0.01, 0.5], max_inverse=10), [10, 2])
    clipped = unbiased(hinge(), [0.01, 0.5], max_inverse=10)
    exact = unbiased(hinge(), [0.1, 0.5])
    np.testing.assert_allclose(clipped.positive.value([-0.5, -0.5]), exact.positive.value([-0.5, -0.5]))
    with pytest.raises(InputError, match="at least 1"):
        inverse_propensities(0.5, max_inverse=0.5)
    with pytest.raises(InputError, match="shape"):
        inverse_propensities([[0.5]])


@pytest.mark.parametrize("correct", [unbiased, naive])
def test_a_corrected_loss_bounds_the_zero_one_loss_no_longer(correct):
    assert hinge().bounds_zero_one
    with pytest.raises(InputError, match="not a convex bound of the 0-1 loss"):
        convex_bound(correct(hinge(), 0.5), 0.5)


def test_a_convex_bound_is_rejected_for_losses_that_do_not_bound_the_zero_one_loss():
    with pytest.raises(InputError, match="logistic"):
        convex_bound(logistic(), 0.5)


def test_a_pair_of_plain_functions_is_a_loss_and_says_what_it_lacks():
    loss = unbiased((lambda s: np.abs(1 - s), np.abs), 0.25)
    assert loss.positive.value(0.0) == 4
    assert loss.negative.value(2.0) == 2
    assert loss.convex is None
    with pytest.raises(InputError, match="derivative"):
        loss.positive.derivative(0.0)
