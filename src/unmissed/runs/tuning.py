"""The verb tune: parameters of a method chosen on held-out rows, and a quick look at whether a method is worth it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.choosing import QUICK, Choice, Goal, Sampling, choose
from unmissed.models.dismec import CANDIDATES
from unmissed.models.parameters import Parameter, parameters_of
from unmissed.models.registry import find_model, make_model
from unmissed.progress import Progress, silent

TRIES: dict[str, tuple[Any, ...]] = {
    "weighting": ("none", *CANDIDATES),
    "C": (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""What is tried of these parameters where nobody says."""
LEAST_ROWS = 500
"""Of fewer rows a quick look says nothing."""


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
    """Choose parameters of a method by training candidates on some rows and comparing them on others.

    Parameters
    ----------
    method : a name in the registry
    dataset : the training rows; those that candidates are measured on are held out of them
    params : parameters that stay as they are
    tries : for each parameter the values to try, one parameter after the other; by default weightings and C, as far as
        the method has them
    goal : the metric to raise and the one to keep: PSP@5 and P@1 by default
    sampling : how much of the data candidates see
    progress : told how many candidates are done
    """
    model = make_model(method, params or {})
    rows = model.check_rows(dataset.X, dataset.Y)
    return choose(model, rows, tries or default_tries(method), goal, sampling, progress)


def look(model: Model, dataset: Dataset, progress: Progress = silent) -> Choice | None:
    """Compare a model with its plain parameters on a few held-out rows; None where there is nothing to compare."""
    now = model.get_params(deep=False)
    tries = {name: [now[name]] for name, value in model.plain.items() if now[name] not in (value, "auto")}
    if not tries or dataset.n_samples < LEAST_ROWS:
        return None
    return choose(model, model.check_rows(dataset.X, dataset.Y), tries, sampling=QUICK, progress=progress)


def default_tries(method: str) -> dict[str, list[Any]]:
    """Return what is tried of a method where nobody says, or ask for it."""
    known = {one.name: one for one in parameters_of(find_model(method))}
    tries = {name: [one for one in values if known[name].takes(one)] for name, values in TRIES.items() if name in known}
    tries = {name: values for name, values in tries.items() if len(values) > 1}
    if not tries:
        raise InputError(
            f"{method} has neither weightings nor C; say what to try (--try NAME=VALUE,VALUE), of {', '.join(known)}"
        )
    return tries


def read_tries(method: str, words: Iterable[str]) -> dict[str, list[Any]]:
    """Read what to try, each as `C=0.1,1,10`, with values that the method's parameter can have."""
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
    """Return the value that a word means for a parameter."""
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
