"""Extreme multi-label classification when labels are missing."""

import logging
from typing import TYPE_CHECKING

from unmissed._lazy import lazy
from unmissed._version import __version__

if TYPE_CHECKING:
    from unmissed.data import Dataset, load, make_corpus
    from unmissed.errors import InputError, UnmissedError
    from unmissed.features import Features
    from unmissed.losses import unbiased
    from unmissed.metrics import evaluate
    from unmissed.models import (
        LEML,
        SLEEC,
        Bonsai,
        DiSMEC,
        Ensemble,
        FastXML,
        Lexical,
        LogisticOVR,
        NeuralXMC,
        Parabel,
        PDSparse,
        PfastreXML,
        PfastXML,
        Popularity,
        PPDSparse,
        ProXML,
        PWDiSMEC,
        Slice,
        scorer,
    )
    from unmissed.propensity import Jain, drop_labels
    from unmissed.ranking import Ranking
    from unmissed.runs import load_model, open_run

_PUBLIC = {
    "Bonsai": "models",
    "Dataset": "data",
    "DiSMEC": "models",
    "Ensemble": "models",
    "FastXML": "models",
    "Features": "features",
    "InputError": "errors",
    "Jain": "propensity",
    "LogisticOVR": "models",
    "LEML": "models",
    "NeuralXMC": "models",
    "PDSparse": "models",
    "PPDSparse": "models",
    "PWDiSMEC": "models",
    "Parabel": "models",
    "PfastXML": "models",
    "PfastreXML": "models",
    "Lexical": "models",
    "Popularity": "models",
    "ProXML": "models",
    "Ranking": "ranking",
    "SLEEC": "models",
    "Slice": "models",
    "UnmissedError": "errors",
    "drop_labels": "propensity",
    "evaluate": "metrics",
    "load": "data",
    "load_model": "runs",
    "make_corpus": "data",
    "open_run": "runs",
    "scorer": "models",
    "unbiased": "losses",
}
__all__ = [
    "LEML",
    "SLEEC",
    "Bonsai",
    "Dataset",
    "DiSMEC",
    "Ensemble",
    "FastXML",
    "Features",
    "InputError",
    "Jain",
    "Lexical",
    "LogisticOVR",
    "NeuralXMC",
    "PDSparse",
    "PPDSparse",
    "PWDiSMEC",
    "Parabel",
    "PfastXML",
    "PfastreXML",
    "Popularity",
    "ProXML",
    "Ranking",
    "Slice",
    "UnmissedError",
    "__version__",
    "drop_labels",
    "evaluate",
    "load",
    "load_model",
    "make_corpus",
    "open_run",
    "scorer",
    "unbiased",
]
__getattr__, _ = lazy(__name__, _PUBLIC)
logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the application configures logging


def __dir__() -> list[str]:
    return sorted(__all__)
