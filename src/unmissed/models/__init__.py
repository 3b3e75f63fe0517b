"""The systems of the paper, one file each, with scikit-learn's manners."""

from unmissed.models.dismec import DiSMEC, PWDiSMEC
from unmissed.models.one_vs_rest import OneVsRest, UncertifiedWarning

__all__ = ["DiSMEC", "OneVsRest", "PWDiSMEC", "UncertifiedWarning"]
