"""Extreme multi-label classifiers with scikit-learn's interface: fit(X, Y), then rank(X, k).

Start with `base.py` (the base class `Model`), then open one family: `linear/` (DiSMEC, PW-DiSMEC, LogisticOVR,
ProXML, PPD-Sparse, PD-Sparse, Slice), `label_trees/` (Parabel, Bonsai), `instance_trees/` (FastXML, PfastXML,
PfastreXML), `embeddings/` (LEML, SLEEC), `networks/` (NeuralXMC). `ensembles/` combines models, `method_registry.py`
names the methods, `selection/` chooses parameters on held-out rows.
"""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.models.base import Model
    from unmissed.models.embeddings.leml.estimator import LEML
    from unmissed.models.embeddings.sleec.estimator import SLEEC
    from unmissed.models.ensembles.estimator import Ensemble
    from unmissed.models.evidence import Certificate, Explanation, UncertifiedWarning
    from unmissed.models.instance_trees.fastxml import FastXML
    from unmissed.models.instance_trees.pfastrexml import PfastreXML
    from unmissed.models.instance_trees.pfastxml import PfastXML
    from unmissed.models.label_trees.bonsai import Bonsai
    from unmissed.models.label_trees.parabel import Parabel
    from unmissed.models.lexical import Lexical
    from unmissed.models.linear.dismec.estimator import DiSMEC, PWDiSMEC
    from unmissed.models.linear.logistic.estimator import LogisticOVR
    from unmissed.models.linear.pd_sparse.estimator import PDSparse
    from unmissed.models.linear.ppd_sparse.estimator import PPDSparse
    from unmissed.models.linear.proxml.estimator import ProXML
    from unmissed.models.linear.slice.estimator import Slice
    from unmissed.models.method_registry import find_model, make_model, register
    from unmissed.models.networks.estimator import NeuralXMC
    from unmissed.models.parameters import Group, Help
    from unmissed.models.popularity import Popularity
    from unmissed.models.ranges import IntegerRange, NumberRange
    from unmissed.models.scorers import scorer
    from unmissed.models.selection.loss_check import WeightingWarning
    from unmissed.models.training_data import TrainingData

_PUBLIC = {
    "Bonsai": "label_trees.bonsai",
    "Certificate": "evidence",
    "DiSMEC": "linear.dismec.estimator",
    "Ensemble": "ensembles.estimator",
    "Explanation": "evidence",
    "FastXML": "instance_trees.fastxml",
    "Group": "parameters",
    "Help": "parameters",
    "IntegerRange": "ranges",
    "LogisticOVR": "linear.logistic.estimator",
    "LEML": "embeddings.leml.estimator",
    "Model": "base",
    "NeuralXMC": "networks.estimator",
    "NumberRange": "ranges",
    "PDSparse": "linear.pd_sparse.estimator",
    "PPDSparse": "linear.ppd_sparse.estimator",
    "PWDiSMEC": "linear.dismec.estimator",
    "Parabel": "label_trees.parabel",
    "PfastXML": "instance_trees.pfastxml",
    "PfastreXML": "instance_trees.pfastrexml",
    "Lexical": "lexical",
    "Popularity": "popularity",
    "ProXML": "linear.proxml.estimator",
    "Slice": "linear.slice.estimator",
    "TrainingData": "training_data",
    "SLEEC": "embeddings.sleec.estimator",
    "UncertifiedWarning": "evidence",
    "WeightingWarning": "selection.loss_check",
    "find_model": "method_registry",
    "make_model": "method_registry",
    "register": "method_registry",
    "scorer": "scorers",
}
__all__ = [
    "LEML",
    "SLEEC",
    "Bonsai",
    "Certificate",
    "DiSMEC",
    "Ensemble",
    "Explanation",
    "FastXML",
    "Group",
    "Help",
    "IntegerRange",
    "Lexical",
    "LogisticOVR",
    "Model",
    "NeuralXMC",
    "NumberRange",
    "PDSparse",
    "PPDSparse",
    "PWDiSMEC",
    "Parabel",
    "PfastXML",
    "PfastreXML",
    "Popularity",
    "ProXML",
    "Slice",
    "TrainingData",
    "UncertifiedWarning",
    "WeightingWarning",
    "find_model",
    "make_model",
    "register",
    "scorer",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
