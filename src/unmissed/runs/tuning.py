"""Tuning: parameter selection on held-out rows, and a fast check of a method against its baseline parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.model_selection import QUICK, Choice, Goal, Sampling, choose
from unmissed.models.parameters import Parameter, parameters_of
from unmissed.models.registry import find_model, make_model
from unmissed.progress import Progress, silent
from unmissed.propensity.weighting import CONVEX

TRIES: dict[str, tuple[Any, ...]] = {
    "weighting": CONVEX,
    "C": (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""Default values to try, by parameter."""
LEAST_ROWS = 500
"""With fewer rows, `look` cannot detect a difference."""


def tune(
    method: str,
    dataset: Dataset,
    params: Mapping[str, Any] | None = None,
    tries: Mapping[str, Sequence[Any]] | None = None,
    *,
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    progress: Progress = silent,
) -> Choice:
    """Select parameters of a method by training candidates and comparing them on held-out rows.

    Parameters
    ----------
    method : a registered name
    dataset : the training rows; some of them are held out
    params : fixed parameters
    tries : for each parameter the values to try, one parameter after the other; by default weightings and C, if the
        method has them
    goal : the metric to maximize and the one that must not drop: PSP@5 and P@1 by default
    sampling : splits and sample sizes
    progress : progress callback, called after each candidate
    """
    model = make_model(method, params or {})
    rows = model.check_rows(dataset.X, dataset.Y)
    return choose(model, rows, tries or default_tries(method), goal, sampling, progress)


def look(model: Model, dataset: Dataset, progress: Progress = silent) -> Choice | None:
    """Compare a model with its baseline parameters on a few held-out rows; None if they are equal or rows too few."""
    now = model.get_params(deep=False)
    tries = {name: [now[name]] for name, value in model.baseline_params.items() if now[name] not in (value, "auto")}
    if not tries or dataset.n_samples < LEAST_ROWS:
        return None
    return choose(model, model.check_rows(dataset.X, dataset.Y), tries, sampling=QUICK, progress=progress)


def default_tries(method: str) -> dict[str, list[Any]]:
    """Return the default values to try for a method; raise if there are none."""
    known = {one.name: one for one in parameters_of(find_model(method))}
    tries = {name: [one for one in values if known[name].takes(one)] for name, values in TRIES.items() if name in known}
    tries = {name: values for name, values in tries.items() if len(values) > 1}
    if not tries:
        raise InputError(
            f"{method} has neither weightings nor C; pass --try NAME=VALUE,VALUE for one of {', '.join(known)}"
        )
    return tries


def read_tries(method: str, words: Iterable[str]) -> dict[str, list[Any]]:
    """Parse values to try, such as `C=0.1,1,10`; raise for invalid ones."""
    known = {one.name: one for one in parameters_of(find_model(method)) if not one.is_propensity}
    tries = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or name not in known:
            raise InputError(
                f"--try {word}: expected NAME=VALUE,VALUE with a parameter of {method}: {', '.join(known)}"
            )
        tries[name] = [_read(known[name], value) for value in values.split(",")]
    return tries


def _read(parameter: Parameter, word: str) -> Any:
    """Parse the value of a parameter."""
    meanings: list[Any] = [{"true": True, "false": False}.get(word.lower(), word)]
    for kind in (int, float):
        try:
            meanings.append(kind(word))
        except ValueError:
            continue
    for value in meanings:
        if parameter.takes(value):
            return float(value) if parameter.annotation is float else value
    raise InputError(f"{parameter.name} cannot be {word!r}")
