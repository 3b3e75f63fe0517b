"""P, nDCG, PSP, PSnDCG and what goes with them, with their uncertainty."""

from unmissed.metrics.conventions import AUTHORS, DISMECPP, PYXCLIB, Conventions
from unmissed.metrics.deciles import Decile, by_decile, decile_of
from unmissed.metrics.evaluation import METRICS, Evaluation, LabelTally, Unseen, merge
from unmissed.metrics.scoring import evaluate
from unmissed.metrics.uncertainty import Difference, Interval, Support, compare, intervals, support, warnings

__all__ = [
    "AUTHORS",
    "DISMECPP",
    "METRICS",
    "PYXCLIB",
    "Conventions",
    "Decile",
    "Difference",
    "Evaluation",
    "Interval",
    "LabelTally",
    "Support",
    "Unseen",
    "by_decile",
    "compare",
    "decile_of",
    "evaluate",
    "intervals",
    "merge",
    "support",
    "warnings",
]
