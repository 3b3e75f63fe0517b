"""The paper's loss curves of a positive label: standard, unbiased, and convex upper bound, as figure and table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unmissed.archive import write_text
from unmissed.losses import (
    convex_bound,
    cross_entropy_from_logits,
    hinge,
    naive,
    shifted_zero_one,
    squared_hinge,
    unbiased,
    zero_one,
)
from unmissed.reports.study_figures import SketchCurve, draw_loss_sketch

PLAIN, UNBIASED, BOUND = "--", ":", "-"
FURTHER = "-."  # not in the paper
_BOUNDS, _ENTROPY = "0-1, hinge, squared hinge", "cross-entropy of a logit"


def sketch_curves(scores: npt.NDArray[np.float64], p: float) -> list[SketchCurve]:
    """Return the curves of the figure at the scores: gray, blue and green as in the paper, and cross-entropy.

    In the paper the dotted lines are unbiased losses, but for the green one, which is the square of the convex hinge.
    """
    once, convex = hinge(), convex_bound(hinge(), p)
    squared, entropy = squared_hinge(), cross_entropy_from_logits()
    rows = [
        (_BOUNDS, "0-1", "0.5", PLAIN, zero_one().positive.value(scores)),
        (_BOUNDS, "0-1, unbiased", "0.5", UNBIASED, unbiased(zero_one(), p).positive.value(scores)),
        (_BOUNDS, "0-1, unbiased and shifted", "0.5", BOUND, shifted_zero_one(p).positive.value(scores)),
        (_BOUNDS, "hinge", "tab:blue", PLAIN, once.positive.value(scores)),
        (_BOUNDS, "hinge, unbiased", "tab:blue", UNBIASED, unbiased(once, p).positive.value(scores)),
        (_BOUNDS, "hinge, convex bound", "tab:blue", BOUND, convex.positive.value(scores)),
        (_BOUNDS, "squared hinge", "tab:green", PLAIN, squared.positive.value(scores)),
        (_BOUNDS, "squared hinge, unbiased", "tab:green", FURTHER, unbiased(squared, p).positive.value(scores)),
        (_BOUNDS, "squared hinge, convex bound", "tab:green", BOUND, convex_bound(squared, p).positive.value(scores)),
        (_BOUNDS, "square of the convex hinge", "tab:green", UNBIASED, convex.positive.value(scores) ** 2),
        (_ENTROPY, "cross-entropy", "tab:purple", PLAIN, entropy.positive.value(scores)),
        (_ENTROPY, "cross-entropy, unbiased", "tab:purple", UNBIASED, unbiased(entropy, p).positive.value(scores)),
        (_ENTROPY, "cross-entropy, naive", "tab:purple", BOUND, naive(entropy, p).positive.value(scores)),
    ]
    return [SketchCurve(*row) for row in rows]


def study_losses(out: Path, p: float = 0.5) -> list[Path]:
    """Write `losses.png`, `losses.svg` and `losses.csv` into a folder and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    scores = np.round(np.arange(-200, 301) / 100, 2)
    curves = sketch_curves(scores, p)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["score", *(curve.label for curve in curves)])
    writer.writerows(np.column_stack([scores, *(curve.heights for curve in curves)]).round(12).tolist())
    table = out / "losses.csv"
    write_text(table, stream.getvalue())
    kink = float(unbiased(hinge(), p).positive.value(-1.0)) if p < 1 else None
    return [*draw_loss_sketch(out / "losses", scores, curves, propensity=p, kink=kink), table]
