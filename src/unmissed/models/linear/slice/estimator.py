"""Slice: one squared-hinge SVM per label on sampled negatives, for fixed embeddings and very many labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from unmissed.execution import Work
from unmissed.models.cost_support import CostSupport
from unmissed.models.dense_support import DenseSupport
from unmissed.models.evidence import Certificate
from unmissed.models.linear.one_vs_rest import OneVsRest, check_new_labels, weighted_costs
from unmissed.models.linear.slice.sampled_solver import (
    FullPass,
    Negatives,
    SampledSquaredHinge,
    Searches,
    gap_on_all_rows,
)
from unmissed.models.neighbor_search import SearchKind
from unmissed.models.parameters import (
    BlockSize,
    Cost,
    DenseWeight,
    FitBias,
    Jobs,
    MaxRounds,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
    Weighting,
)
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Costs


class Slice(OneVsRest):
    """One-vs-rest squared-hinge SVMs on sampled negatives near each label (after Jain et al., 2019).

    Each label minimizes the objective of DiSMEC over its positives, random rows and near rows, to a relative duality
    gap of `tol`. Near rows are those nearest to the centroid of the positives, then those of the highest scores under
    the weights found so far. One exact pass measures the gap to the problem on all rows.
    """

    dense_support: ClassVar[DenseSupport] = DenseSupport.NATIVE
    cost_support: ClassVar[CostSupport] = CostSupport(cells=True)
    baseline_params: ClassVar[Mapping[str, Any]] = {"weighting": "none"}
    fast_params: ClassVar[Mapping[str, Any]] = {"tol": 0.01}

    def __init__(
        self,
        *,
        C: Cost = 0.5,
        weighting: Weighting = "none",
        propensity: PropensityModel = None,
        n_negatives: Negatives = 256,
        n_searches: Searches = 3,
        search: SearchKind = "exact",
        full_pass: FullPass = True,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: FitBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.C = C
        self.weighting = weighting
        self.propensity = propensity
        self.n_negatives = n_negatives
        self.n_searches = n_searches
        self.search = search
        self.full_pass = full_pass
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _solver(self) -> SampledSquaredHinge:
        sampling = self.n_negatives, self.n_searches, self.search, self.full_pass
        return SampledSquaredHinge(*sampling, self.tol, self.prune, self.fit_bias, self.max_rounds, self._seed)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        check_new_labels(self.propensity)
        super()._fit_labels(rows, work)

    def _costs(self, rows: TrainingData) -> Costs:
        return self._scaled(weighted_costs(self.weighting, self.propensity, rows))

    def certificate(self) -> Certificate:
        """Return the relative duality gap of each label on its sample, and the gap on all rows if it was measured."""
        found = super().certificate()
        if not all(shard.full_objective is not None for shard in self.shards_):
            return found
        of_sample = self._joined("objective", np.float64), found.gap
        gap = gap_on_all_rows(*of_sample, self._joined("full_objective", np.float64))
        return Certificate(found.tol, found.gap, found.objective, columns={"gap on all rows": gap, **found.columns})

    def metadata(self) -> dict[str, Any]:
        """Return what linear models do, and the objective on all rows with its relative gap if it was measured."""
        metadata, certificate = super().metadata(), self.certificate()
        if "gap on all rows" in certificate.columns:
            of_labels = certificate.columns["gap on all rows"]
            full = float(self._joined("full_objective", np.float64).sum())
            lower = float((self._joined("objective", np.float64) * (1 - certificate.gap)).sum())
            metadata["objective on all rows"] = round(full, 3)
            metadata["relative gap on all rows"] = round((full - lower) / full, 6) if full else 0.0
            metadata["median gap on all rows"] = round(float(np.median(of_labels)), 6) if of_labels.size else 0.0
        return metadata
