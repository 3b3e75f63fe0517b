"""Extreme multi-label classification when labels are missing."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Bonsai": "unmissed.models",
    "Dataset": "unmissed.data",
    "DiSMEC": "unmissed.models",
    "FastXML": "unmissed.models",
    "InputError": "unmissed.errors",
    "Jain": "unmissed.propensity",
    "LEML": "unmissed.models",
    "PDSparse": "unmissed.models",
    "PPDSparse": "unmissed.models",
    "PWDiSMEC": "unmissed.models",
    "Parabel": "unmissed.models",
    "PfastXML": "unmissed.models",
    "PfastreXML": "unmissed.models",
    "Popularity": "unmissed.models",
    "ProXML": "unmissed.models",
    "Ranking": "unmissed.ranking",
    "SLEEC": "unmissed.models",
    "UnmissedError": "unmissed.errors",
    "drop_labels": "unmissed.propensity",
    "evaluate": "unmissed.metrics",
    "load": "unmissed.data",
    "load_model": "unmissed.runs",
    "make_corpus": "unmissed.data",
    "open_run": "unmissed.runs",
    "scorer": "unmissed.models.scorer",
    "unbiased": "unmissed.losses",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that the command starts at once."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'unmissed' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
