"""How likely a true label was written down, and what follows from it for the costs of a loss."""

from unmissed.propensity.missing import drop_labels
from unmissed.propensity.models import (
    Constant,
    FromTable,
    Jain,
    Propensity,
    PropensityLike,
    as_propensity,
    default_propensity,
    describe,
    fit_parts,
    fit_range,
    from_description,
    parse,
)
from unmissed.propensity.weighting import WEIGHTINGS, Costs, WeightingName, costs

__all__ = [
    "WEIGHTINGS",
    "Constant",
    "Costs",
    "FromTable",
    "Jain",
    "Propensity",
    "PropensityLike",
    "WeightingName",
    "as_propensity",
    "costs",
    "default_propensity",
    "describe",
    "drop_labels",
    "fit_parts",
    "fit_range",
    "from_description",
    "parse",
]
