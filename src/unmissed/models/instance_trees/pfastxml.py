"""PfastXML: FastXML with inverse propensities as label gains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.models.instance_trees.fastxml import FastXML
from unmissed.models.ranges import Count, Positive, Seed, Tolerance
from unmissed.models.training_data import TrainingData
from unmissed.propensity import PropensityLike, as_propensity


class PfastXML(FastXML):
    """FastXML with label gains 1/p in rankings, nDCG and leaves (Jain, Prabhu and Varma, 2016).

    Parameters
    ----------
    propensity : model of the propensities p: jain (the default), jain:A,B, constant:P or table:FILE; in Python also a
        model such as Jain(), one p for all labels, or an array with one per label
    n_trees, max_leaf, leaf_labels, C, tol, max_steps, normalize, n_jobs, random_state : as in InstanceForest
    """

    def __init__(
        self,
        *,
        propensity: PropensityLike | None = None,
        n_trees: Count = 50,
        max_leaf: Count = 10,
        leaf_labels: Count = 10,
        C: Positive = 1.0,
        tol: Tolerance = 0.01,
        max_steps: Count = 10,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Seed = 0,
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
