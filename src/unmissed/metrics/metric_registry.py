"""The registry of metrics: those of this package, registered ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from unmissed.errors import InputError, did_you_mean
from unmissed.metrics.builtin import BUILTIN
from unmissed.metrics.metric import CompiledMetric, LabelMetric, Metric, RowMetric

GROUP = "unmissed.metrics"
"""The entry-point group in which an installed package registers its metrics."""

_registered: dict[str, Metric] = {metric.name: metric for metric in BUILTIN}


def register(metric: Metric) -> None:
    """Register a metric, so that `evaluate`, model selection and the commands compute it and know its name.

    An installed package registers its metrics for every process by an entry point `name = "module:Class"` in the group
    `unmissed.metrics`.
    """
    metric = check_metric(metric)
    known = _registered.get(metric.name)
    if known is not None and not _same_class(known, metric):
        raise InputError(f"a metric named {metric.name!r} is already registered; choose another name")
    _registered[metric.name] = metric


def known_metrics() -> dict[str, Metric]:
    """Return all metrics by name."""
    return {**_registered, **_installed()}


def find_metrics(metrics: Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Return metrics by name; metrics themselves are returned as they are. Raise for unknown or repeated names."""
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    found = tuple(_find(one) if isinstance(one, str) else check_metric(one) for one in metrics)
    names = [metric.name for metric in found]
    repeated = [name for position, name in enumerate(names) if name in names[:position]]
    if repeated:
        raise InputError(f"the metric {repeated[0]!r} was named twice")
    if not found:
        raise InputError(f"no metric was named; known metrics: {', '.join(known_metrics())}")
    return found


def split_figure(figure: str) -> tuple[str, int]:
    """Return the name of a known metric and the cut-off of a figure such as "PSP@5"; raise for any other text."""
    name, _, cut = str(figure).rpartition("@")
    if not name:
        name, cut = cut, ""
    if name not in known_metrics():
        raise _unknown(figure, name, "@k")
    if not (cut.isascii() and cut.isdecimal() and len(cut) < 10) or int(cut) < 1:
        raise InputError(f"a figure is a metric and a cut-off, such as P@1 or PSP@5; got {figure!r}")
    return name, int(cut)


def check_metric(metric: Metric) -> Metric:
    """Return a metric; raise for what is not one, or has no valid name."""
    if isinstance(metric, type) and issubclass(metric, Metric):
        raise InputError(f"{metric.__name__} is a class; pass a metric, {metric.__name__}()")
    if not isinstance(metric, RowMetric | LabelMetric | CompiledMetric):
        raise InputError(f"a metric is a name, or an object of a subclass of RowMetric or LabelMetric; got {metric!r}")
    name = getattr(metric, "name", None)
    if not isinstance(name, str) or not name or name != " ".join(name.split()) or "@" in name or "," in name:
        raise InputError(f"{type(metric).__name__}.name must be a text without '@' and ','; got {name!r}")
    return metric


def _find(name: str) -> Metric:
    known = known_metrics()
    if name not in known:
        base, _, cut = name.partition("@")
        if base in known and cut:
            raise InputError(f"metric {name!r}: name the metric and k separately here, {base} and k = {cut}")
        raise _unknown(name, name)
    return known[name]


def _unknown(given: str, name: str, cut: str = "") -> InputError:
    known = [one + cut for one in known_metrics()]
    return InputError(f"unknown metric {given!r}; known metrics: {', '.join(known)}{did_you_mean(name + cut, known)}")


def _same_class(one: Metric, other: Metric) -> bool:
    """Return whether two metrics are of one class; a module that is run again defines its classes again."""
    left, right = type(one), type(other)
    return (left.__module__, left.__qualname__) == (right.__module__, right.__qualname__) and left is not CompiledMetric


@cache
def _installed() -> dict[str, Metric]:
    """Return the metrics of installed packages, loaded once."""
    found: dict[str, Metric] = {}
    for entry in entry_points(group=GROUP):
        try:
            value = entry.load()
            metric = check_metric(value() if isinstance(value, type) else value)
        except Exception as error:
            raise InputError(f"the entry point {entry.name!r} = {entry.value!r} in {GROUP}: {error}") from error
        known = found.get(metric.name) or _registered.get(metric.name)
        if known is not None and not _same_class(known, metric):
            raise InputError(f"the entry point {entry.name!r} in {GROUP}: a metric named {metric.name!r} exists")
        found[metric.name] = metric
    return found
