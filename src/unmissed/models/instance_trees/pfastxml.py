"""PfastXML: FastXML with inverse propensities as label gains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.models.instance_trees.fastxml import FastXML
from unmissed.models.instance_trees.forest import (
    LeafLabels,
    LeafRows,
    MaxSteps,
    SeparatorCost,
    SeparatorTolerance,
    Trees,
)
from unmissed.models.parameters import Jobs, Normalize, PropensityModel, RandomSeed
from unmissed.models.training_data import TrainingData
from unmissed.propensity import as_propensity


class PfastXML(FastXML):
    """FastXML with label gains 1/p in rankings, nDCG and leaves (Jain, Prabhu and Varma, 2016)."""

    def __init__(
        self,
        *,
        propensity: PropensityModel = None,
        n_trees: Trees = 50,
        max_leaf: LeafRows = 10,
        leaf_labels: LeafLabels = 10,
        C: SeparatorCost = 2.0,
        tol: SeparatorTolerance = 0.01,
        max_steps: MaxSteps = 10,
        normalize: Normalize = True,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        super().__init__(
            n_trees=n_trees,
            max_leaf=max_leaf,
            leaf_labels=leaf_labels,
            C=C,
            tol=tol,
            max_steps=max_steps,
            normalize=normalize,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.propensity = propensity

    def _gains(self, data: TrainingData) -> npt.NDArray[np.float64]:
        return 1.0 / as_propensity(self.propensity).estimate(data.label_counts, data.n_samples)
