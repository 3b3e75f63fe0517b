"""The registry of methods: the one place that names systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from unmissed.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from unmissed.models.base import Model

GROUP = "unmissed.models"
"""The group of entry points under which an installed package offers models of its own."""


LINEAR, TREES, EMBEDDINGS, FLOOR = "linear one-vs-rest", "tree based", "embedding based", "floor"
"""The families of methods, as the paper's main table groups them."""


@dataclass(frozen=True)
class Method:
    """Where a method's class is, as `module:Class`, one line on what it does, its name in print, and its family."""

    place: str
    summary: str
    title: str = ""
    family: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.place.rpartition(":")[2].rpartition(".")[2])


METHODS: dict[str, Method] = {
    "dismec": Method("unmissed.models.dismec:DiSMEC", "one squared-hinge SVM per label", family=LINEAR),
    "pw-dismec": Method(
        "unmissed.models.dismec:PWDiSMEC", "the same with propensity-weighted positives", "PW-DiSMEC", LINEAR
    ),
    "leml": Method("unmissed.models.leml:LEML", "a linear map of low rank from features to labels", family=EMBEDDINGS),
    "sleec": Method(
        "unmissed.models.sleec:SLEEC",
        "votes of the nearest rows in embeddings that keep label neighbours",
        family=EMBEDDINGS,
    ),
    "parabel": Method("unmissed.models.parabel:Parabel", "balanced binary trees over labels", family=TREES),
    "bonsai": Method("unmissed.models.bonsai:Bonsai", "shallow trees over labels with many children", family=TREES),
    "fastxml": Method("unmissed.models.fastxml:FastXML", "trees over rows, split by nDCG", family=TREES),
    "pfastxml": Method("unmissed.models.pfastxml:PfastXML", "the same with propensity-scored gains", family=TREES),
    "pfastrexml": Method(
        "unmissed.models.pfastrexml:PfastreXML", "the same, reranked by tail classifiers", family=TREES
    ),
    "proxml": Method(
        "unmissed.models.proxml:ProXML", "one l1-penalised squared-hinge classifier per label", family=LINEAR
    ),
    "ppd-sparse": Method(
        "unmissed.models.ppd_sparse:PPDSparse", "one sparse hinge-loss classifier per label", "PPD-Sparse", LINEAR
    ),
    "pd-sparse": Method(
        "unmissed.models.pd_sparse:PDSparse", "one sparse max-margin problem over all labels", "PD-Sparse", LINEAR
    ),
    "popularity": Method(
        "unmissed.models.popularity:Popularity", "the most frequent labels, whatever the row", family=FLOOR
    ),
}
"""Every method by name; classes are imported when they are needed."""

_registered: dict[str, type[Model]] = {}


def register(name: str, cls: type[Model], summary: str = "") -> None:
    """Make a model of your own known by name, so that it can be saved, opened, and trained from the command line.

    An installed package does the same for every process by an entry point `name = "module:Class"` in the group
    `unmissed.models`.
    """
    if name in METHODS and _registered.get(name) is not cls:
        raise InputError(f"the method {name!r} is there already")
    first_line = (cls.__doc__ or "").strip().split("\n")[0]
    METHODS[name] = Method(f"{cls.__module__}:{cls.__qualname__}", summary or first_line)
    _registered[name] = cls


def known_methods() -> dict[str, Method]:
    """Return all methods: ours, registered ones, and those of installed packages."""
    found = dict(METHODS)
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, Method(entry.value, "by an installed package"))
    return found


def find_model(method: str) -> type[Model]:
    """Return the model class of a method, or say which methods there are."""
    if method in _registered:
        return _registered[method]
    known = METHODS if method in METHODS else known_methods()  # looking through installed packages takes its time
    if method not in known:
        raise InputError(f"unknown method {method!r}; known: {', '.join(known)}{did_you_mean(method, known)}")
    module, _, name = known[method].place.partition(":")
    found: type[Model] = getattr(import_module(module), name)
    return found


def make_model(method: str, params: Mapping[str, Any]) -> Model:
    """Make an unfitted model; a parameter that the method does not have is refused by name."""
    cls = find_model(method)
    known = cls._get_param_names()
    for name in params:
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
            raise InputError(f"{method} has no parameter {name!r}; {has}{did_you_mean(name, known)}")
    return cls(**params)


def method_of(model: Model) -> str:
    """Return the name under which a model's class is registered."""
    place = f"{type(model).__module__}:{type(model).__qualname__}"
    for name, method in known_methods().items():
        if method.place == place:
            return name
    raise InputError(f"{type(model).__name__} is no method that a run can hold; unmissed.models.register makes it one")
