"""A fast check before training: does a weighting lose against plain costs on held-out rows?"""

from __future__ import annotations

import warnings
from typing import NamedTuple

from sklearn.base import clone

from unmissed.metrics import Difference, compare
from unmissed.models.base import Model
from unmissed.models.selection.choice import say_params
from unmissed.models.selection.goal import Goal
from unmissed.models.selection.held_out import HeldOut, Sampling
from unmissed.models.selection.search_space import Params, baseline_of
from unmissed.models.training_data import TrainingData

LEAST_ROWS = 500
"""With fewer rows, the check cannot detect a difference."""
_QUICK = Sampling(most_held=2_000, most_fit=20_000, most_labels=100)  # enough to detect a large loss
_GOAL = Goal(metric="P@1", keep="PSP@5")
_checked: set[str] = set()


class WeightingWarning(UserWarning):
    """A weighting is shown to lose P@1 against plain costs on held-out rows."""


class WeightingLoss(NamedTuple):
    """Parameters that lose against the baseline: figures of both, and the paired differences."""

    params: Params
    baseline: Params
    n_held: int
    figures: dict[str, tuple[float, float]]
    gains: dict[str, Difference]

    def __str__(self) -> str:
        figures = ", ".join(
            f"{name} {100 * own:.2f} vs. {100 * other:.2f} ({_signed(self.gains[name])})"
            for name, (own, other) in self.figures.items()
        )
        return (
            f"{say_params(self.params)} is worse than {say_params(self.baseline)} on {self.n_held:,} held-out rows: "
            f"{figures}"
        )


def find_loss(model: Model, rows: TrainingData) -> WeightingLoss | None:
    """Compare a model's `risky_params` with the baseline on a few held-out rows; None without a shown loss in P@1."""
    names = model.risky_params()
    if not names or rows.n_samples < LEAST_ROWS:
        return None
    own, baseline = {name: getattr(model, name) for name in names}, baseline_of(model, names)
    held_out = HeldOut(rows, _GOAL, getattr(model, "propensity", None), _QUICK)
    part = held_out.part(1.0)._replace(n_folds=1)
    first, second = (held_out.measure(clone(model).set_params(**params), part).evaluation for params in (own, baseline))
    gains = compare(first, second, level=_GOAL.level)
    if not gains["P@1"].high < 0:
        return None
    figures = {name: (first[name], second[name]) for name in _GOAL.names}
    return WeightingLoss(own, baseline, held_out.n_held(1), figures, {name: gains[name] for name in _GOAL.names})


def warn_of_loss(model: Model, rows: TrainingData) -> None:
    """Warn with a `WeightingWarning` if a model's weighting loses; once per process and weighting.

    Nothing is checked if the filters of `warnings` ignore this category.
    """
    names = model.risky_params()
    kind = f"{type(model).__name__} {say_params({name: getattr(model, name) for name in names})}"
    if not names or kind in _checked or _is_ignored():
        return
    _checked.add(kind)
    found = find_loss(model, rows)
    if found is not None:
        instead = " or ".join(f'{name}="auto"' for name in names)
        warnings.warn(
            f"{found}; {instead} selects values without such a loss; "
            'warnings.simplefilter("ignore", unmissed.models.WeightingWarning) turns this check off',
            WeightingWarning,
            stacklevel=4,
        )


def _is_ignored() -> bool:
    """Return whether the first filter that concerns the warning ignores it."""
    for action, message, category, module, _ in warnings.filters:
        if issubclass(WeightingWarning, category) and message is None and module is None:
            return action == "ignore"
    return False


def _signed(gain: Difference) -> str:
    return f"{100 * gain.value:+.2f} [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
