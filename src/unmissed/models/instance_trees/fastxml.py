"""FastXML: a forest of instance trees whose nodes optimize nDCG."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.models.instance_trees.forest import (
    InstanceForest,
    LeafLabels,
    LeafRows,
    MaxSteps,
    SeparatorCost,
    SeparatorTolerance,
    Trees,
)
from unmissed.models.parameters import Jobs, Normalize, RandomSeed
from unmissed.models.training_data import TrainingData


class FastXML(InstanceForest):
    """FastXML: an ensemble of instance trees whose nodes optimize nDCG (Prabhu and Varma, 2014).

    A node assigns its rows to sides d_i in {-1, 1} and ranks the labels of each side. It alternates between both, from
    random sides, to increase the sum of the nDCG of the rows. A linear separator of the sides then minimizes
    |w|_1 + |b| + C sum_i c_i ln(1 + exp(-d_i (w.x_i + b))), where 1/c_i is the fraction of the rows on the side of i.
    It sends the rows to the children. A leaf stores the mean label vector of its rows. The score of a label is its mean
    over the leaves that a row reaches, one per tree.
    """

    def __init__(
        self,
        *,
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
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.leaf_labels = leaf_labels
        self.C = C
        self.tol = tol
        self.max_steps = max_steps
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _gains(self, data: TrainingData) -> npt.NDArray[np.float64]:
        return np.ones(data.n_labels)
