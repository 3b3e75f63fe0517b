"""Bias and variance of the corrected losses, in closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.losses import hinge, logistic, loss_variance, squared_error


@given(p=st.floats(0.02, 1), r=st.floats(0, 1), s=st.floats(-5, 5), cap=st.floats(1, 30))
@settings(deadline=None)
def test_moments_equal_those_over_the_two_outcomes_written_out(p, r, s, cap):
    plain = logistic()
    present, absent = plain.positive.value(s), plain.negative.value(s)
    seen = loss_variance(plain, p, scores=s, relevance=r, max_inverse=cap)
    risk = r * present + (1 - r) * absent
    assert seen.risk == pytest.approx(risk)
    for weight, moments in [(1.0, seen.plain), (1 / p, seen.unbiased), (min(1 / p, cap), seen.clipped)]:
        outcomes = np.array([absent + weight * (present - absent), absent])
        chances = np.array([r * p, 1 - r * p])
        mean = (chances * outcomes).sum()
        assert moments.mean == pytest.approx(mean, abs=1e-9)
        assert moments.bias == pytest.approx(mean - risk, abs=1e-9)
        assert moments.variance == pytest.approx((chances * (outcomes - mean) ** 2).sum(), rel=1e-6, abs=1e-9)
        assert moments.squared_error == pytest.approx((chances * (outcomes - risk) ** 2).sum(), rel=1e-6, abs=1e-9)


def test_the_variance_of_the_unbiased_loss_follows_its_closed_form():
    s, p, r = np.linspace(-3, 3, 7), 0.2, 0.6
    seen = loss_variance(squared_error(), p, scores=s, relevance=r)
    np.testing.assert_allclose(seen.unbiased.variance, r * (1 / p - r) * (1 - 2 * s) ** 2)
    np.testing.assert_allclose(seen.unbiased.bias, 0, atol=1e-12)
    assert seen.clipped is None


def test_sampled_labels_agree_with_the_closed_form():
    rng = np.random.default_rng(0)
    p, r, s = 0.3, 0.4, 0.7
    observed = (rng.random(400_000) < r) & (rng.random(400_000) < p)
    seen = loss_variance(hinge(), p, scores=s, relevance=r)
    present, absent = (1 - s) / p + (1 - 1 / p) * (1 + s), 1 + s
    drawn = np.where(observed, present, absent)
    assert drawn.mean() == pytest.approx(seen.risk, abs=0.01)
    assert drawn.var() == pytest.approx(seen.unbiased.variance, rel=0.02)


def test_the_trade_is_visible_bias_falls_as_variance_rises():
    caps = [1.0, 2.0, 5.0, 20.0]
    seen = [loss_variance(hinge(), 0.05, scores=0.5, max_inverse=cap).clipped for cap in caps]
    assert np.all(np.diff([float(abs(m.bias)) for m in seen]) < 0)
    assert np.all(np.diff([float(m.variance) for m in seen]) > 0)
    assert float(seen[-1].bias) == pytest.approx(0, abs=1e-12)


def test_labels_with_their_own_propensities_run_along_the_last_axis():
    seen = loss_variance(hinge(), [0.1, 1.0], scores=np.zeros((3, 2)) + 0.5, relevance=0.5)
    assert seen.unbiased.variance.shape == (3, 2)
    assert (seen.unbiased.variance[:, 0] > seen.unbiased.variance[:, 1]).all()


def test_a_label_that_is_never_or_always_true_is_a_case_like_any_other():
    seen = loss_variance(hinge(), 0.5, scores=0.5, relevance=[0.0, 1.0])
    np.testing.assert_allclose(seen.risk, [1.5, 0.5])
    np.testing.assert_allclose(seen.unbiased.mean, [1.5, 0.5])


def test_relevance_and_propensity_are_checked():
    with pytest.raises(InputError, match="relevance"):
        loss_variance(hinge(), 0.5, scores=0.0, relevance=-0.1)
    with pytest.raises(InputError, match="relevance"):
        loss_variance(hinge(), 0.5, scores=0.0, relevance=1.2)
    with pytest.raises(InputError, match="propensity"):
        loss_variance(hinge(), 0.0, scores=0.0)
