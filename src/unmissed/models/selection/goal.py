"""Goal: which candidate is better than another, by paired differences on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import NamedTuple

from unmissed.errors import InputError
from unmissed.metrics import Difference, split_figure

_LIKELY = 0.8  # probability that a candidate is better than the one it replaces
Gains = Mapping[str, Difference]


class Lead(NamedTuple):
    """A difference in the mean of the goal's metrics, and an upper bound of its standard error."""

    value: float
    error: float

    @property
    def is_likely(self) -> bool:
        """Whether it is a gain with a probability of at least 80 %."""
        return self.value > 0 and self.value >= NormalDist().inv_cdf(_LIKELY) * self.error


@dataclass(frozen=True)
class Goal:
    """The metrics to maximize, and further metrics that must not drop.

    A candidate is allowed if no metric of the goal falls against the baseline: each paired interval reaches 0 and no
    loss is above `margin`. Of the allowed candidates the one with the highest mean of `metric` is best.

    Parameters
    ----------
    metric : one metric with a cut-off, such as "PSP@5", or several, whose mean is maximized
    keep : further metrics that must not drop
    level : level of the bootstrap intervals
    margin : largest accepted loss, as a fraction
    """

    metric: str | Sequence[str] = ("P@1", "P@5", "PSP@5")
    keep: str | Sequence[str] = ()
    level: float = 0.95
    margin: float = 0.005

    def __post_init__(self) -> None:
        for field in ("metric", "keep"):
            given = getattr(self, field)
            object.__setattr__(self, field, tuple(given.split(",") if isinstance(given, str) else given))
        if not self.metric:
            raise InputError("a goal has at least one metric to maximize, such as PSP@5")
        for name in self.names:
            split_figure(name)
        if not 0 < self.level < 1:
            raise InputError(f"the level of intervals is between 0 and 1; got {self.level}")

    @property
    def names(self) -> list[str]:
        """All metrics, those to maximize first."""
        return list(dict.fromkeys((*self.metric, *self.keep)))

    @property
    def cuts(self) -> list[int]:
        """The cut-offs of all metrics."""
        return sorted({split_figure(name)[1] for name in self.names})

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics without their cut-offs."""
        return sorted({split_figure(name)[0] for name in self.names})

    def falls(self, gains: Gains) -> list[str]:
        """Return the metrics that are shown to fall, or that fall by more than the margin."""
        return [name for name in self.names if not (gains[name].high >= 0 and gains[name].value >= -self.margin)]

    def shown_to_fall(self, gains: Gains) -> bool:
        """Return whether the interval of a metric is below 0."""
        return any(gains[name].high < 0 for name in self.names)

    def likely_falls(self, gains: Gains) -> bool:
        """Return whether a metric is shown to fall, or falls by more than the margin with a probability of 80 %."""
        slack = NormalDist().inv_cdf(_LIKELY)
        return self.shown_to_fall(gains) or any(
            gains[name].value + slack * self._error(gains[name]) < -self.margin for name in self.names
        )

    def lead(self, gains: Gains) -> Lead:
        """Return the difference in the mean of the metrics to maximize.

        The standard error of a mean is at most the mean of the standard errors, however the metrics are correlated.
        """
        values = [gains[name] for name in self.metric]
        return Lead(fmean(one.value for one in values), fmean(map(self._error, values)))

    def _error(self, difference: Difference) -> float:
        """Return the standard error of a difference, from the width of its interval."""
        return (difference.high - difference.low) / (2 * NormalDist().inv_cdf((1 + self.level) / 2))
