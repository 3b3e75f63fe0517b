"""Decision rules: how sets of labels are chosen from probabilities, parsed from text such as "top 5" or "p>=0.5"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unmissed.calibration.decisions import (
    Chosen,
    PrecisionThreshold,
    choose_above,
    choose_coverage,
    choose_f1,
    choose_macro_f1,
    choose_top,
    threshold_for_precision,
)
from unmissed.calibration.scored_cells import CANDIDATES
from unmissed.errors import InputError
from unmissed.ranking import Ranking

Kind = Literal["top", "p", "f1", "macro-f1", "coverage", "precision"]
_CUT, _BOUND = r"(?P<value>[0-9]{1,9})", r">=(?P<value>[0-9]*\.?[0-9]+)"
_FORMS: dict[Kind, tuple[str, str]] = {
    "top": ("top 5", f"top{_CUT}"),
    "p": ("p>=0.5", f"p{_BOUND}"),
    "f1": ("f1", "f1"),
    "macro-f1": ("macro-f1@5", f"macro-?f1@{_CUT}"),
    "coverage": ("coverage@5", f"coverage@{_CUT}"),
    "precision": ("precision>=0.8", f"precision{_BOUND}"),
}


@dataclass(frozen=True)
class DecisionRule:
    """How the labels of rows are chosen by their probabilities.

    Parameters
    ----------
    kind : {"top", "p", "f1", "macro-f1", "coverage", "precision"}
        `top`: the k most probable labels. `p`: labels of at least this probability. `f1`: the set of highest expected
        F1 of each row. `macro-f1`, `coverage`: k labels per row with a high expected macro-F1, or coverage, over all
        rows. `precision`: labels above the lowest probability that keeps this precision on held-out cells.
    value : k, the probability or the precision; None for `f1`
    """

    kind: Kind
    value: float | None = None

    @classmethod
    def parse(cls, text: str) -> DecisionRule:
        """Return the rule of a text such as "top 5"; spaces and case do not matter."""
        squeezed = "".join(text.split()).lower().replace("≥", ">=")
        for kind, (_, pattern) in _FORMS.items():
            found = re.fullmatch(pattern, squeezed)
            if found is not None:
                value = found.groupdict().get("value")
                return cls(kind, None if value is None else float(value))
        forms = ", ".join(form for form, _ in _FORMS.values())
        raise InputError(f"unknown decision {text!r}; expected one of: {forms} (with other numbers)")

    def __post_init__(self) -> None:
        if self.kind not in _FORMS:
            raise InputError(f"unknown decision {self.kind!r}; expected one of: {', '.join(_FORMS)}")
        form, pattern = _FORMS[self.kind]
        if (self.value is None) != ("value" not in pattern):
            raise InputError(f"the decision {self.kind!r} has the form {form!r}; got the number {self.value}")
        if self.value is None:
            return
        if _CUT in pattern and not (self.value >= 1 and float(self.value).is_integer()):
            raise InputError(f"{self}: the number of labels must be at least 1")
        if self.kind == "p" and not 0 <= self.value <= 1:
            raise InputError(f"{self}: a probability is between 0 and 1")
        if self.kind == "precision" and not 0 < self.value < 1:
            raise InputError(f"{self}: the precision must be above 0 and below 1")

    def __str__(self) -> str:
        return re.sub(r"[0-9.]+$", f"{self.value:g}", _FORMS[self.kind][0]) if self.value is not None else self.kind

    @property
    def by_row(self) -> bool:
        """Whether the labels of a row do not depend on other rows, so that rows can be decided in batches."""
        return self.kind not in ("macro-f1", "coverage")

    @property
    def n_candidates(self) -> int:
        """The number of labels per row to choose from, those of highest score: 50, or k if it is more."""
        return max(CANDIDATES, self._k) if _CUT in _FORMS[self.kind][1] else CANDIDATES

    @property
    def _k(self) -> int:
        return int(self.value or 0)

    def threshold(
        self, probabilities: npt.ArrayLike, observed: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> PrecisionThreshold:
        """Return the threshold that keeps the precision of this rule on held-out cells; raise if there is none.

        Parameters
        ----------
        probabilities, observed, groups : as in `threshold_for_precision`
        """
        if self.kind != "precision":
            raise InputError(f"{self}: has no precision to keep")
        found = threshold_for_precision(probabilities, observed, float(self.value or 0.0), groups=groups)
        if not np.isfinite(found.threshold):
            raise InputError(
                f"{self}: no threshold keeps this precision on {np.size(observed):,} held-out (row, label) pairs; "
                f"the highest that one keeps is {np.floor(1000 * found.lower) / 1000:g}"
            )
        return found

    def choose(self, labels: npt.ArrayLike, probabilities: npt.ArrayLike, *, seed: int = 0) -> Chosen:
        """Return which of the labels (n_samples, m), -1 for padding, are chosen by their probabilities.

        A rule for a precision is first replaced by `DecisionRule("p", rule.threshold(...).threshold)`. `seed` sets the
        start and the order of rows of a block coordinate ascent.
        """
        if self.kind == "f1":
            return choose_f1(labels, probabilities)
        if self.kind == "p":
            return choose_above(labels, probabilities, float(self.value or 0.0))
        if self.kind == "precision":
            raise InputError(
                f"{self}: needs the threshold that keeps this precision on held-out cells; see `threshold`"
            )
        if self.kind == "top":
            return choose_top(labels, probabilities, self._k)
        ascend = choose_macro_f1 if self.kind == "macro-f1" else choose_coverage
        return ascend(labels, probabilities, self._k, seed=seed)

    def decide(self, ranking: Ranking, *, seed: int = 0) -> Ranking:
        """Return a ranking with the chosen labels only, in its order; it is as wide as the largest chosen set."""
        if ranking.probabilities is None:
            raise InputError(f"{self}: the ranking has no probabilities; calibrate the model first")
        kept = ranking.keep(self.choose(ranking.labels, ranking.probabilities, seed=seed))
        return kept.top(max(1, int((kept.labels >= 0).sum(axis=1).max(initial=0))))
