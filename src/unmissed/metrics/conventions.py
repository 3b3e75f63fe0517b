"""Conventions: the choices that make one metric name mean several numbers, each under a name of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from unmissed.errors import InputError
from unmissed.kernels.hits import RAW, ROW_IDEAL, ROW_RATIO, UNDIVIDED, UNNORMALISED

Variant = Literal["pyxclib", "dismecpp", "row-ratios", "fastxml", "raw"]
Policy = Literal["keep", "drop"]

SCALINGS: dict[Variant, int] = {
    "pyxclib": ROW_IDEAL,
    "dismecpp": UNDIVIDED,
    "row-ratios": ROW_RATIO,
    "fastxml": UNNORMALISED,
    "raw": RAW,
}
RERANK_DEPTH = 5  # the places among which the authors of PW-DiSMEC re-rank


@dataclass(frozen=True)
class Conventions:
    """Which of the field's several definitions the metrics follow; the defaults give pyxclib's numbers.

    Parameters
    ----------
    variant : {"pyxclib", "dismecpp", "row-ratios", "fastxml", "raw"}
        How PSP and PSnDCG are normalised. `pyxclib` (also napkinXC, PWXMC): sums over the corpus, divided by the sums
        of the best possible ranking; for PSnDCG each row is divided by its ideal, unweighted DCG first. `dismecpp`: the
        same without that division. `row-ratios`: the mean over rows of each row's ratio. `fastxml`: PSnDCG as the mean
        over rows of the weighted DCG over the DCG of k hits, not divided by the best possible (it can pass 1); PSP as
        pyxclib. `raw`: the paper's formulas before it divides by the best possible: PSP as the mean over rows of the
        weighted hits over k, PSnDCG as that of the weighted DCG over the row's ideal DCG. Both can pass 1; PSP then
        estimates the P of complete labels without bias.
    rerank : bool
        Score PSP and PSnDCG on the list that PW-DiSMEC's authors score: among the first five labels the one with the
        largest inverse propensity and a score above 0 goes first, then again among the rest. P and nDCG stay plain.
    empty_rows : {"keep", "drop"}
        Rows without a true label: they count as rows with nothing found (pyxclib), or not at all (DiSMEC++).
    unseen_labels : {"keep", "drop"}
        True labels without a positive in training: they stay in the truth, or leave it (before empty rows are dropped).
    filtered : {"ranking", "both"}
        Filtered pairs leave the ranking (pyxclib's scripts), or the ranking and the truth.
    macro : {"true", "all"}
        Macro averages go over the labels that occur in the truth, or over all labels of the data (DiSMEC++).
    """

    variant: Variant = "pyxclib"
    rerank: bool = False
    empty_rows: Policy = "keep"
    unseen_labels: Policy = "keep"
    filtered: Literal["ranking", "both"] = "ranking"
    macro: Literal["true", "all"] = "true"

    def __post_init__(self) -> None:
        allowed = {
            "variant": get_args(Variant),
            "rerank": (False, True),
            "empty_rows": get_args(Policy),
            "unseen_labels": get_args(Policy),
            "filtered": ("ranking", "both"),
            "macro": ("true", "all"),
        }
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in allowed[field.name]:
                known = ", ".join(str(word) for word in allowed[field.name])
                raise InputError(f"unknown convention {field.name}={value!r}; known: {known}")

    def describe(self) -> dict[str, Any]:
        """Return the choices as a value that JSON can hold; `Conventions(**value)` is the same again."""
        return asdict(self)


PYXCLIB = Conventions()
"""The defaults: what pyxclib computes."""
AUTHORS = Conventions(rerank=True)
"""What the published code of PW-DiSMEC prints."""
DISMECPP = Conventions(variant="dismecpp", empty_rows="drop", macro="all")
"""What DiSMEC++'s evaluation script prints."""
