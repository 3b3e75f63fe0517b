"""The systems of the paper, one file each, with the interface of scikit-learn."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Bonsai": "bonsai",
    "Certificate": "base",
    "DiSMEC": "dismec",
    "Explanation": "base",
    "FastXML": "fastxml",
    "IntegerRange": "parameters",
    "LEML": "leml",
    "Model": "base",
    "NumberRange": "parameters",
    "PDSparse": "pd_sparse",
    "PPDSparse": "ppd_sparse",
    "PWDiSMEC": "dismec",
    "Parabel": "parabel",
    "PfastXML": "pfastxml",
    "PfastreXML": "pfastrexml",
    "Popularity": "popularity",
    "ProXML": "proxml",
    "Rows": "rows",
    "SLEEC": "sleec",
    "UncertifiedWarning": "base",
    "find_model": "registry",
    "make_model": "registry",
    "register": "registry",
    "scorer": "scorer",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: a command that needs one system does not wait for all."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
