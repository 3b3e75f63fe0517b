"""Tuning: parameters of a method, or a method, selected on held-out rows of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.models.method_registry import UNWEIGHTED, find_model, make_model, method_with_role
from unmissed.models.parameters import parameters_of
from unmissed.models.selection import Choice, Goal, Sampling, choose, compare_models, default_tries
from unmissed.progress import Progress, silent


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
    tries : for each parameter the values to try, in all combinations; by default weightings and multiples of C, l1 or
        penalty, if the method has them
    goal : the metrics to maximize and those that must not drop
    sampling : the cost of the search and the sizes of the samples
    progress : progress callback: rows trained on
    """
    model = make_model(method, params or {})
    if not tries:
        tries = {name: values for name, values in default_tries(model).items() if name not in (params or {})}
    if not tries:
        names = ", ".join(one.name for one in parameters_of(type(model)))
        raise InputError(
            f"{method} has no values to try by default (weighting, C, l1, penalty)"
            + (f"; pass --try NAME=VALUE,VALUE for one of {names}" if names else " and no other parameter")
        )
    return choose(model, model.check_rows(dataset), tries, goal, sampling, progress)


def compare_methods(
    methods: Sequence[str],
    dataset: Dataset,
    params: Mapping[str, Any] | None = None,
    *,
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    fastest_within: float | None = None,
    progress: Progress = silent,
) -> Choice:
    """Compare methods with their default parameters on the same held-out rows, and recommend one for a goal.

    The baseline is plain one-vs-rest if it is among the methods, else the first of them.

    Parameters
    ----------
    methods : registered names
    dataset : the training rows; some of them are held out
    params : parameters of all methods that have them, such as `n_jobs` and `propensity`
    goal : the metrics to maximize and those that must not drop
    sampling : the sizes of the samples
    fastest_within : recommend the fastest training whose metric is at most so much below the best, as a fraction
    progress : progress callback: rows trained on
    """
    if len(set(methods)) < 2:
        raise InputError("a comparison needs at least two methods, separated by commas: --methods dismec,parabel")
    plain = method_with_role(UNWEIGHTED)
    models = {}
    for name in sorted(dict.fromkeys(methods), key=lambda name: name != plain):
        known = find_model(name)._get_param_names()
        models[name] = make_model(name, {one: value for one, value in (params or {}).items() if one in known})
    rows = models[next(iter(models))].check_rows(dataset)
    return compare_models(models, rows, goal, sampling, fastest_within, progress)


def compare_text_options(
    method: str,
    datasets: Mapping[str, Dataset],
    params: Mapping[str, Any] | None = None,
    *,
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    progress: Progress = silent,
) -> Choice:
    """Compare text options on the same held-out rows; the first ones are the baseline.

    Vocabularies are learned on all rows, the held-out ones included, which are not used otherwise.

    Parameters
    ----------
    method : a registered name
    datasets : the same documents, read with each of the text options, by the name of the options
    params : parameters of the method
    goal, sampling, progress : as in `compare_methods`
    """
    first = next(iter(datasets.values()))
    for dataset in datasets.values():
        if dataset.Y.shape != first.Y.shape or (dataset.Y != first.Y).nnz:
            raise InputError("text options are compared on the same documents; got others")
    models = {name: make_model(method, params or {}) for name in datasets}
    rows = [models[name].check_rows(dataset) for name, dataset in datasets.items()]
    return compare_models(models, rows, goal, sampling, progress=progress, what="text options")


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
        if "auto" in values.split(","):
            raise InputError(f"--try {word}: auto is a search itself; name the values to try")
        tries[name] = [known[name].parse(value) for value in values.split(",")]
    return tries
