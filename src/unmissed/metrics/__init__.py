"""Ranking metrics for extreme multi-label classification, with bootstrap confidence intervals.

Start with `scoring.evaluate`: it takes a ranking, Y and 1/p, and returns an `Evaluation` (`evaluation.py`). A metric is
one class (`metric.py`). Those of this package are in `builtin.py`, and `metric_registry.py` knows them by name.
`conventions.py` names the definitions of PSP and PSnDCG that exist in the field. `hits.py` is the compiled pass over
the rows, `bootstrap.py` the compiled resampling. `uncertainty.py` has intervals and paired comparisons, `deciles.py`
results by label frequency, `annif_figures.py` the figures of Annif, and `summary.py` all of it as JSON.
"""

from unmissed.metrics.annif_figures import ANNIF_CUT_OFFS, ANNIF_METRICS, annif_figures
from unmissed.metrics.conventions import ANNIF, AUTHORS, DISMECPP, PYXCLIB, Conventions
from unmissed.metrics.deciles import Decile, by_decile, decile_of
from unmissed.metrics.evaluation import Evaluation, LabelTally, Unseen, merge
from unmissed.metrics.metric import EvaluatedLabels, EvaluatedRows, LabelMetric, Metric, RowMetric
from unmissed.metrics.metric_registry import find_metrics, known_metrics, register, split_figure
from unmissed.metrics.scoring import evaluate
from unmissed.metrics.uncertainty import Difference, Interval, Support, compare, intervals, support, warnings

__all__ = [
    "ANNIF",
    "ANNIF_CUT_OFFS",
    "ANNIF_METRICS",
    "AUTHORS",
    "DISMECPP",
    "PYXCLIB",
    "Conventions",
    "Decile",
    "Difference",
    "EvaluatedLabels",
    "EvaluatedRows",
    "Evaluation",
    "Interval",
    "LabelMetric",
    "LabelTally",
    "Metric",
    "RowMetric",
    "Support",
    "Unseen",
    "annif_figures",
    "by_decile",
    "compare",
    "decile_of",
    "evaluate",
    "find_metrics",
    "intervals",
    "known_metrics",
    "merge",
    "register",
    "split_figure",
    "support",
    "warnings",
]
