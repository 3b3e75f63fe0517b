"""Choice: the result of a search, with every candidate that was tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from unmissed.metrics import Difference
from unmissed.models.selection.goal import Goal


class CandidateResult(NamedTuple):
    """A candidate: parameters, its last rung, metrics, differences to the baseline in that rung, and the verdict.

    `seconds` is the time of its training in that rung; None if it was not measured.
    """

    params: dict[str, Any]
    rung: int
    n_fit: int
    n_held: int
    figures: dict[str, float]
    gains: dict[str, Difference]
    verdict: str
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as a value that JSON can hold."""
        gains = {
            name: {part: _finite(one) for part, one in gain._asdict().items()} for name, gain in self.gains.items()
        }
        return {
            "params": self.params,
            "rung": self.rung,
            "rows_trained_on": self.n_fit,
            "rows_held_out": self.n_held,
            "figures": {name: _finite(value) for name, value in self.figures.items()},
            "gains": gains,
            "verdict": self.verdict,
            **({} if self.seconds is None else {"seconds": self.seconds}),
        }


@dataclass(frozen=True)
class Choice:
    """The chosen parameters, the baseline, and all candidates; no candidates if there were too few rows."""

    goal: Goal
    params: dict[str, Any]
    baseline: dict[str, Any]
    candidates: list[CandidateResult]
    n_labels: int = 0

    @property
    def chosen(self) -> CandidateResult | None:
        """The chosen candidate; None if there were too few rows to compare candidates."""
        return next((one for one in self.candidates if one.params == self.params), None)

    def to_json(self) -> dict[str, Any]:
        """Return the choice as a value that JSON can hold."""
        return {
            "metric": list(self.goal.metric),
            "keep": list(self.goal.keep),
            "level": self.goal.level,
            "params": self.params,
            "baseline": self.baseline,
            "labels": self.n_labels,
            "candidates": [one.to_json() for one in self.candidates],
        }


def say_params(params: Mapping[str, Any]) -> str:
    """Return parameters as text: `weighting tail, C 1`."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in params.items()
    )


def _finite(value: float) -> float | None:
    """Return a float for JSON; None if it is not finite."""
    return float(value) if isfinite(value) else None
