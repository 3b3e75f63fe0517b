"""Selection of parameters and of methods on held-out rows.

`goal.py` says what is better, `held_out.py` trains and evaluates candidates, `successive_halving.py` tries the
combinations of `search_space.py` in rungs, and `loss_check.py` warns before a training with a weighting that loses.
"""

from unmissed.models.selection.choice import CandidateResult, Choice
from unmissed.models.selection.goal import Goal
from unmissed.models.selection.held_out import HeldOut, Sampling
from unmissed.models.selection.loss_check import find_loss, warn_of_loss
from unmissed.models.selection.search_space import default_tries
from unmissed.models.selection.successive_halving import choose, compare_models

__all__ = [
    "CandidateResult",
    "Choice",
    "Goal",
    "HeldOut",
    "Sampling",
    "choose",
    "compare_models",
    "default_tries",
    "find_loss",
    "warn_of_loss",
]
