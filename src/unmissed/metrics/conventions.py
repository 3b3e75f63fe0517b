"""Conventions: named choices between the field's competing definitions of PSP, PSnDCG and macro averages."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from unmissed.errors import InputError
from unmissed.metrics.hits import RAW, ROW_IDEAL, ROW_RATIO, UNDIVIDED, UNNORMALIZED

Variant = Literal["pyxclib", "dismecpp", "row-ratios", "fastxml", "raw"]
Policy = Literal["keep", "drop"]

SCALINGS: dict[Variant, int] = {
    "pyxclib": ROW_IDEAL,
    "dismecpp": UNDIVIDED,
    "row-ratios": ROW_RATIO,
    "fastxml": UNNORMALIZED,
    "raw": RAW,
}
RERANK_DEPTH = 5  # number of leading labels that the published code of PW-DiSMEC re-ranks


@dataclass(frozen=True)
class Conventions:
    """Which of the field's several definitions the metrics follow; the defaults give pyxclib's numbers.

    Parameters
    ----------
    variant : {"pyxclib", "dismecpp", "row-ratios", "fastxml", "raw"}
        How PSP and PSnDCG are normalized.

        - `pyxclib` (also napkinXC, PWXMC): the sum over all rows, divided by the sum of the best possible ranking. For
          PSnDCG, each row is first divided by its ideal unweighted DCG.
        - `dismecpp`: as `pyxclib`, without the division by the ideal DCG.
        - `row-ratios`: the mean over rows of each row's ratio.
        - `fastxml`: PSP as `pyxclib`. PSnDCG is the mean over rows of the weighted DCG, divided by the DCG of k hits
          and not by the best possible. It can exceed 1.
        - `raw`: the paper's formulas before normalization. PSP is the mean over rows of the weighted hits over k,
          PSnDCG the mean of the weighted DCG over the row's ideal DCG. Both can exceed 1. PSP is then an unbiased
          estimate of P on complete labels.
    rerank : bool
        Compute PSP and PSnDCG on the re-ranked list of PW-DiSMEC's published code: the first five labels, those with a
        positive score sorted by decreasing inverse propensity. P and nDCG use the original list.
    empty_rows : {"keep", "drop"}
        Rows without a true label: score them 0 (pyxclib) or ignore them (DiSMEC++).
    unseen_labels : {"keep", "drop"}
        True labels without a training positive: keep them in Y or remove them, before empty rows are dropped.
    filtered : {"ranking", "both"}
        Remove filtered pairs from the ranking (pyxclib's scripts), or from the ranking and Y.
    macro : {"true", "all"}
        Macro-average over the labels with a true row, or over all labels (DiSMEC++, Annif).
    empty_ndcg : {"zero", "one"}
        nDCG of a row without a true label that is kept: 0 (pyxclib) or 1 (Annif).
    """

    variant: Variant = "pyxclib"
    rerank: bool = False
    empty_rows: Policy = "keep"
    unseen_labels: Policy = "keep"
    filtered: Literal["ranking", "both"] = "ranking"
    macro: Literal["true", "all"] = "true"
    empty_ndcg: Literal["zero", "one"] = "zero"

    def __post_init__(self) -> None:
        allowed = {
            "variant": get_args(Variant),
            "rerank": (False, True),
            "empty_rows": get_args(Policy),
            "unseen_labels": get_args(Policy),
            "filtered": ("ranking", "both"),
            "macro": ("true", "all"),
            "empty_ndcg": ("zero", "one"),
        }
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in allowed[field.name]:
                known = ", ".join(str(word) for word in allowed[field.name])
                raise InputError(f"unknown convention {field.name}={value!r}; known: {known}")

    def describe(self) -> dict[str, Any]:
        """Return the conventions as a JSON-serializable dict; `Conventions(**value)` restores them."""
        return asdict(self)


PYXCLIB = Conventions()
"""The defaults, as computed by pyxclib."""
AUTHORS = Conventions(rerank=True)
"""As computed by the published code of PW-DiSMEC."""
DISMECPP = Conventions(variant="dismecpp", empty_rows="drop", macro="all")
"""As computed by the evaluation script of DiSMEC++."""
ANNIF = Conventions(macro="all", empty_ndcg="one")
"""As computed by Annif's command eval; `annif_figures` gives its figures."""
PRESETS: dict[str, Conventions] = {"pyxclib": PYXCLIB, "authors": AUTHORS, "dismecpp": DISMECPP, "annif": ANNIF}
"""Conventions by name."""
