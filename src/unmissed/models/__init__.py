"""The systems of the paper, one file each, with scikit-learn's manners."""

from unmissed.models.dismec import DiSMEC, PWDiSMEC
from unmissed.models.one_vs_rest import OneVsRest, UncertifiedWarning
from unmissed.models.popularity import Popularity

__all__ = ["DiSMEC", "OneVsRest", "PWDiSMEC", "Popularity", "UncertifiedWarning"]
