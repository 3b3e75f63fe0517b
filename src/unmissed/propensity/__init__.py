"""How likely a true label was written down, and what follows from it for the costs of a loss."""

from unmissed.propensity.missing import drop_labels
from unmissed.propensity.models import Constant, FromTable, Jain, Propensity, describe, from_description, parse
from unmissed.propensity.weighting import WEIGHTINGS, Costs, costs

__all__ = [
    "WEIGHTINGS",
    "Constant",
    "Costs",
    "FromTable",
    "Jain",
    "Propensity",
    "costs",
    "describe",
    "drop_labels",
    "from_description",
    "parse",
]
