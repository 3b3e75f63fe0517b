"""Calibrated probabilities, and decisions made with them.

`folds.py` makes folds that keep similar rows together. `unmissed.models.out_of_fold` trains a model per fold and keeps
the scores of held-out rows as cells (`scored_cells.py`), in bounded memory. `link.py` fits a `Calibration` to them: one
monotone map of all labels (`monotone_map.py`), a slope and an intercept per label (`label_effects.py`), and effects of
the rank (`rank_effects.py`). `decisions.py` chooses sets of labels, by the kernels of `coordinate_ascent.py`;
`decision_rules.py` parses what to choose. `unmissed.metrics.calibration_error` measures probabilities.
"""

from unmissed.calibration.decision_rules import DecisionRule
from unmissed.calibration.decisions import (
    PrecisionThreshold,
    as_matrix,
    choose_above,
    choose_coverage,
    choose_f1,
    choose_macro_f1,
    choose_top,
    threshold_for_precision,
)
from unmissed.calibration.folds import Folds, group_similar_rows, make_folds
from unmissed.calibration.link import KEY, Calibration, TrueProbability, fit_calibration, true_probability
from unmissed.calibration.monotone_map import MonotoneMap
from unmissed.calibration.rank_effects import LAST_RANK
from unmissed.calibration.scored_cells import CANDIDATES, CELL_LAYOUT, Cells

__all__ = [
    "CANDIDATES",
    "CELL_LAYOUT",
    "KEY",
    "LAST_RANK",
    "Calibration",
    "Cells",
    "DecisionRule",
    "Folds",
    "MonotoneMap",
    "PrecisionThreshold",
    "TrueProbability",
    "as_matrix",
    "choose_above",
    "choose_coverage",
    "choose_f1",
    "choose_macro_f1",
    "choose_top",
    "fit_calibration",
    "group_similar_rows",
    "make_folds",
    "threshold_for_precision",
    "true_probability",
]
