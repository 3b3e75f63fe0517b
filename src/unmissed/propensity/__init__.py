"""Propensities: the probability that a true label is observed, and the costs that follow from it.

`models.py` has the propensity models (`Jain`, `FlattenedJain`, `Constant`, `FromTable`); start there.
`frequency_curve.py` has `FrequencyCurve`, which audits and duplicates give, `cell_propensities.py` one p per observed
positive. `weighting.py` turns propensities into costs of positives and negatives. `simulation.py` removes labels at
random according to a propensity model.
"""

from unmissed.propensity.cell_propensities import CellPropensities
from unmissed.propensity.frequency_curve import FrequencyCurve
from unmissed.propensity.models import (
    SPECS,
    Constant,
    FlattenedJain,
    FromTable,
    Jain,
    Propensity,
    PropensityLike,
    as_propensity,
    cells_of,
    default_propensity,
    describe,
    estimate_parts,
    estimate_range,
    from_description,
    parse,
)
from unmissed.propensity.simulation import drop_labels
from unmissed.propensity.weighting import WEIGHTINGS, Costs, WeightingName, costs

__all__ = [
    "SPECS",
    "WEIGHTINGS",
    "CellPropensities",
    "Constant",
    "Costs",
    "FlattenedJain",
    "FrequencyCurve",
    "FromTable",
    "Jain",
    "Propensity",
    "PropensityLike",
    "WeightingName",
    "as_propensity",
    "cells_of",
    "costs",
    "default_propensity",
    "describe",
    "drop_labels",
    "estimate_parts",
    "estimate_range",
    "from_description",
    "parse",
]
