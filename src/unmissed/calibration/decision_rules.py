"""Decision rules: how sets of labels are chosen from probabilities, parsed from text such as "top 5" or "p>=0.5"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

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
from unmissed.errors import InputError

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


class HeldOut(NamedTuple):
    """Probabilities of held-out cells, and whether the label of each was observed."""

    probabilities: npt.NDArray[np.floating]
    observed: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DecisionRule:
    """How the labels of rows are chosen by their probabilities.

    Parameters
    ----------
    kind : {"top", "p", "f1", "macro-f1", "coverage", "precision"}
        `top`: the k most probable labels. `p`: labels of at least this probability. `f1`: the set of highest expected
        F1 of each row. `macro-f1`, `coverage`: k labels per row with a high expected macro-F1, or coverage, over all
        rows. `precision`: labels above the lowest probability at which held-out cells have this precision.
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
    def needs_held_out(self) -> bool:
        """Whether `choose` needs held-out cells."""
        return self.kind == "precision"

    @property
    def n_candidates(self) -> int:
        """The number of labels per row to choose from: the 50 of highest score, or k if it is more."""
        return max(50, self._k) if _CUT in _FORMS[self.kind][1] else 50

    @property
    def _k(self) -> int:
        assert self.value is not None  # by the pattern of its form
        return int(self.value)

    def threshold(self, held_out: HeldOut | None) -> PrecisionThreshold:
        """Return the threshold that keeps the precision of this rule on held-out cells; raise if there is none."""
        if held_out is None:
            raise InputError(f"{self}: needs held-out cells, with their probabilities and whether they were observed")
        assert self.value is not None
        found = threshold_for_precision(*held_out, self.value)
        if not np.isfinite(found.threshold):
            raise InputError(
                f"{self}: no threshold keeps this precision on {len(held_out.observed):,} held-out cells; "
                "ask for a lower precision"
            )
        return found

    def choose(
        self, labels: npt.ArrayLike, probabilities: npt.ArrayLike, held_out: HeldOut | None = None, *, seed: int = 0
    ) -> Chosen:
        """Return which of the labels (n_samples, m), -1 for padding, are chosen by their probabilities.

        `held_out` is needed for a precision. `seed` sets the order of rows in a block coordinate ascent.
        """
        if self.kind == "f1":
            return choose_f1(labels, probabilities)
        if self.kind == "p":
            return choose_above(labels, probabilities, float(self.value or 0.0))
        if self.kind == "precision":
            return choose_above(labels, probabilities, self.threshold(held_out).threshold)
        if self.kind == "top":
            return choose_top(labels, probabilities, self._k)
        ascend = choose_macro_f1 if self.kind == "macro-f1" else choose_coverage
        return ascend(labels, probabilities, self._k, seed=seed)
