"""What a goal allows and prefers."""

import pytest

from unmissed.errors import InputError
from unmissed.metrics import Difference
from unmissed.models.selection import Goal

NONE = Difference(0.0, -0.01, 0.01, 0.5)


def test_all_metrics_are_looked_at_and_each_one_once():
    goal = Goal("PSP@5,P@1", ["P@1", "P@3"])
    assert goal.names == ["PSP@5", "P@1", "P@3"]
    assert goal.cuts == [1, 3, 5]
    assert Goal().names == ["P@1", "P@5", "PSP@5"]


@pytest.mark.parametrize("name", ["P@1", "P@5", "PSP@5"])
@pytest.mark.parametrize(
    ("gain", "allowed"),
    [
        (Difference(0.001, -0.004, 0.006, 0.7), True),
        (Difference(-0.005, -0.011, 0.0, 0.03), True),
        (Difference(-0.003, -0.005, -0.0001, 0.01), False),  # a small loss, but shown
        (Difference(-0.006, -0.02, 0.008, 0.25), False),  # a loss that may be none, but half a point is exceeded
    ],
)
def test_a_loss_that_is_shown_or_larger_than_half_a_point_is_not_allowed_in_any_metric(name, gain, allowed):
    gains = {**dict.fromkeys(Goal().names, NONE), name: gain}
    assert Goal().falls(gains) == ([] if allowed else [name])
    assert Goal().shown_to_fall(gains) is (gain.high < 0)
    assert Goal(name, Goal().names, margin=1.0).falls(gains) == ([name] if gain.high < 0 else [])


@pytest.mark.parametrize(
    ("gain", "falls"),
    [
        (Difference(-0.006, -0.02, 0.008, 0.25), False),  # more than half a point, but 0.14 standard errors from it
        (Difference(-0.011, -0.021, -0.0001, 0.02), True),  # shown
        (Difference(-0.012, -0.025, 0.001, 0.03), True),  # 1.05 standard errors beyond half a point
        (Difference(-0.009, -0.020, 0.002, 0.05), False),  # 0.7 standard errors
    ],
)
def test_a_loss_is_likely_if_it_exceeds_half_a_point_with_a_probability_of_four_fifths(gain, falls):
    assert Goal().likely_falls({**dict.fromkeys(Goal().names, NONE), "P@5": gain}) is falls


@pytest.mark.parametrize(
    ("gain", "likely"),
    [
        (Difference(0.003, -0.0019, 0.0079, 0.88), True),  # 1.2 standard errors: the interval reaches 0, yet likely
        (Difference(0.002, -0.0029, 0.0069, 0.79), False),  # 0.8 standard errors
        (Difference(-0.0001, -0.0002, 0.0, 0.9), False),
        (Difference(0.0, 0.0, 0.0, 0.5), False),
    ],
)
def test_a_gain_is_likely_at_a_probability_of_four_fifths(gain, likely):
    assert Goal("PSP@5").lead({"PSP@5": gain}).is_likely is likely


def test_of_several_metrics_the_mean_counts():
    gains = {"P@1": Difference(-0.01, -0.02, 0.0, 0.1), "PSP@5": Difference(0.03, 0.01, 0.05, 1.0)}
    lead = Goal("P@1,PSP@5").lead(gains)
    assert lead.value == pytest.approx(0.01)
    assert lead.error == pytest.approx(0.015 / 1.96, rel=1e-3)
    assert Goal("PSP@5", "P@1").lead(gains).value == pytest.approx(0.03)


@pytest.mark.parametrize("name", ["PSP", "PSP@0", "P@1 ", "F9@5"])
def test_an_unknown_metric_is_refused(name):
    with pytest.raises(InputError, match=r"a figure is a metric and a cut-off|unknown metric"):
        Goal(metric=name)
    with pytest.raises(InputError, match=r"a figure is a metric and a cut-off|unknown metric"):
        Goal(keep=name)


def test_every_registered_metric_can_be_a_goal():
    assert Goal("macro F1@5", "coverage@3").metrics == ["coverage", "macro F1"]


def test_a_goal_has_a_metric_and_a_level():
    with pytest.raises(InputError, match="at least one metric"):
        Goal(metric=())
    with pytest.raises(InputError, match="between 0 and 1"):
        Goal(level=95)
