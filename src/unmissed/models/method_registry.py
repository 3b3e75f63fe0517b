"""The registry of methods: names, classes, titles and families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from unmissed.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from unmissed.models.base import Model

GROUP = "unmissed.models"
"""The entry-point group in which an installed package registers its models."""


LINEAR, TREES, EMBEDDINGS = "linear one-vs-rest", "tree based", "embedding based"
NETWORKS, BASELINES = "neural network", "baseline"
"""The families of methods, as the paper's main table groups them."""
DEFAULT, UNWEIGHTED = "default", "unweighted"
"""Roles of methods: used if none is named, and its unweighted counterpart."""


@dataclass(frozen=True)
class Method:
    """A registered method.

    Parameters
    ----------
    import_path : its class, as `module:Class`
    summary : one line on what it does
    title : its name in tables; by default the name of the class
    family : its family, such as `LINEAR`
    role : its role in commands and comparisons, such as `DEFAULT`; most methods have none
    needs : a package of an extra that training imports; commands over all methods leave the method out without it
    """

    import_path: str
    summary: str
    title: str = ""
    family: str = ""
    role: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.import_path.rpartition(":")[2].rpartition(".")[2])

    @property
    def can_train(self) -> bool:
        """Whether the package that training needs is installed."""
        return not self.needs or find_spec(self.needs) is not None


METHODS: dict[str, Method] = {
    "dismec": Method(
        "unmissed.models.linear.dismec.estimator:DiSMEC",
        "one squared-hinge SVM per label",
        family=LINEAR,
        role=UNWEIGHTED,
    ),
    "pw-dismec": Method(
        "unmissed.models.linear.dismec.estimator:PWDiSMEC",
        "the same with propensity-weighted positives",
        "PW-DiSMEC",
        LINEAR,
        DEFAULT,
    ),
    "logistic": Method(
        "unmissed.models.linear.logistic.estimator:LogisticOVR",
        "one logistic regression per label, unbiased with missing labels",
        family=LINEAR,
    ),
    "slice": Method(
        "unmissed.models.linear.slice.estimator:Slice",
        "one squared-hinge SVM per label on negatives near the label, for embeddings and very many labels",
        family=LINEAR,
    ),
    "leml": Method(
        "unmissed.models.embeddings.leml.estimator:LEML",
        "a linear map of low rank from features to labels",
        family=EMBEDDINGS,
    ),
    "sleec": Method(
        "unmissed.models.embeddings.sleec.estimator:SLEEC",
        "votes of the nearest rows in embeddings that keep label neighbors",
        family=EMBEDDINGS,
    ),
    "parabel": Method("unmissed.models.label_trees.parabel:Parabel", "balanced binary label trees", family=TREES),
    "bonsai": Method(
        "unmissed.models.label_trees.bonsai:Bonsai", "shallow label trees with many children per node", family=TREES
    ),
    "fastxml": Method("unmissed.models.instance_trees.fastxml:FastXML", "instance trees, split by nDCG", family=TREES),
    "pfastxml": Method(
        "unmissed.models.instance_trees.pfastxml:PfastXML", "the same with propensity-scored gains", family=TREES
    ),
    "pfastrexml": Method(
        "unmissed.models.instance_trees.pfastrexml:PfastreXML", "the same, reranked by tail classifiers", family=TREES
    ),
    "proxml": Method(
        "unmissed.models.linear.proxml.estimator:ProXML",
        "one l1-penalized squared-hinge classifier per label",
        family=LINEAR,
    ),
    "ppd-sparse": Method(
        "unmissed.models.linear.ppd_sparse.estimator:PPDSparse",
        "one sparse hinge-loss classifier per label",
        "PPD-Sparse",
        LINEAR,
    ),
    "pd-sparse": Method(
        "unmissed.models.linear.pd_sparse.estimator:PDSparse",
        "one sparse max-margin problem over all labels",
        "PD-Sparse",
        LINEAR,
    ),
    "lexical": Method(
        "unmissed.models.lexical:Lexical",
        "labels whose names the text contains, also those without training rows",
        family=BASELINES,
    ),
    "neural": Method(
        "unmissed.models.networks.estimator:NeuralXMC",
        "a network with one or two hidden layers; training needs PyTorch",
        family=NETWORKS,
        needs="torch",
    ),
    "popularity": Method(
        "unmissed.models.popularity:Popularity", "the most frequent labels for every row", family=BASELINES
    ),
}
"""The methods of this package by name; classes are imported on first use."""

COMPOSITES: dict[str, Method] = {
    "ensemble": Method(
        "unmissed.models.ensembles.estimator:Ensemble", "a weighted mean of the calibrated scores of several models"
    ),
}
"""Methods that consist of other methods. Commands over all methods, such as a comparison, leave them out."""

_registered: dict[str, type[Model]] = {}


def register(name: str, cls: type[Model], summary: str = "") -> None:
    """Register a model class under a name, so that runs and the command line can use it.

    An installed package registers its models for every process by an entry point `name = "module:Class"` in the group
    `unmissed.models`.
    """
    if name in METHODS | COMPOSITES and _registered.get(name) is not cls:
        raise InputError(f"the method {name!r} is already registered")
    first_line = (cls.__doc__ or "").strip().split("\n")[0]
    METHODS[name] = Method(f"{cls.__module__}:{cls.__qualname__}", summary or first_line)
    _registered[name] = cls


def known_methods() -> dict[str, Method]:
    """Return all methods: those of this package, registered ones, and those of installed packages."""
    methods = dict(METHODS)
    for entry in entry_points(group=GROUP):
        methods.setdefault(entry.name, Method(entry.value, "by an installed package"))
    return methods


def find_method(name: str) -> Method:
    """Return the registered method, or the composite of methods, with a name that `find_model` accepts."""
    return (known_methods() | COMPOSITES)[name]


def method_with_role(role: str) -> str:
    """Return the name of the method with a role, such as `DEFAULT`."""
    return next(name for name, method in METHODS.items() if method.role == role)


def find_model(method: str) -> type[Model]:
    """Return the model class of a method; raise for an unknown name."""
    if method in _registered:
        return _registered[method]
    own = METHODS | COMPOSITES
    known = own if method in own else known_methods()  # entry points are slow to look up
    if method not in known:
        raise InputError(f"unknown method {method!r}; known: {', '.join(known)}{did_you_mean(method, known)}")
    module, _, name = known[method].import_path.partition(":")
    cls: type[Model] = getattr(import_module(module), name)
    return cls


def make_model(method: str, params: Mapping[str, Any]) -> Model:
    """Return an unfitted model; raise for an unknown parameter or a value out of its range."""
    from unmissed.models.parameters import parameters_of  # numpy; help and completion need names only

    cls = find_model(method)
    known = {one.name: one for one in parameters_of(cls)}
    for name, value in params.items():
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
            raise InputError(f"{method} has no parameter {name!r}; {has}{did_you_mean(name, known)}")
        known[name].check(value)
    return cls(**params)


def as_models(name: str, value: Any) -> list[Model]:
    """Return the models of a parameter: unfitted copies of models, and names of methods with their defaults."""
    from sklearn.base import clone

    from unmissed.models.base import Model

    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"{name} must be a list of models or of names of methods; got {value!r}")
    for one in value:
        if not isinstance(one, str | Model):
            raise InputError(f"{name} must be models or names of methods; got {one!r}")
        if one in COMPOSITES or (isinstance(one, Model) and method_of(one) in COMPOSITES):
            raise InputError(f"{name} cannot contain an ensemble; list its members instead")
    return [make_model(one, {}) if isinstance(one, str) else clone(one) for one in value]


def method_of(model: Model) -> str:
    """Return the registered name of a model's class."""
    import_path = f"{type(model).__module__}:{type(model).__qualname__}"
    for name, method in (known_methods() | COMPOSITES).items():
        if method.import_path == import_path:
            return name
    raise InputError(f"{type(model).__name__} is not a registered method; register it with unmissed.models.register")
