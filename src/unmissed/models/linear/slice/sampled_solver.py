"""Squared-hinge SVMs on positives and sampled negatives, with a certificate on the sample and one on all rows.

The problem of a label is that of DiSMEC with some of its negatives only: random rows, the same for all labels; the rows
nearest to the centroid of its positives; and the rows that score highest under the weights found so far. Coordinate
ascent over a working set, which DiSMEC finds by passes over X, solves it here over the sample.

The problem on all rows has more losses, and none is below zero. So the lower bound of the sampled problem is one of the
full problem, too, and a single exact pass, which computes the objective of the weights on all rows, bounds their
distance from the full optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.features import Features, ScaledFeatures
from unmissed.losses.margin import squared_hinge_value
from unmissed.models.linear.certificate import upper_bound
from unmissed.models.linear.design import Costs, Design, LabelBlock, RowIndices, Solvable, lay_out
from unmissed.models.linear.dismec.label_state import InitialSolution, LabelState
from unmissed.models.linear.dismec.near_margin import rows_not_in
from unmissed.models.linear.dismec.packed_design import PackedDesign
from unmissed.models.linear.dismec.passes import Passes
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.duplicate_labels import DuplicateLabels, seed_of
from unmissed.models.linear.shard import Shard
from unmissed.models.linear.shard_builder import ShardBuilder
from unmissed.models.linear.slice.near_rows import NearRows
from unmissed.models.neighbor_search import SearchKind
from unmissed.models.parameters import FitBias, Help, MaxRounds, Prune, Seed, Tolerance, check_parameters
from unmissed.models.ranges import IntegerRange
from unmissed.numerics.simd import LANES
from unmissed.numerics.workspace import zeroed_workspace

_FIRST_EPOCHS, _EPOCHS = 2, 30  # Epochs of the first ascent, whose objective is unknown, and of later ones.
_PER_POSITIVE = 4  # Near negatives per positive and search, chosen by `benchmarks.slice gap`.
_TOLERANCE = 0.5  # Tolerance of an ascent relative to that of the gap; it falls from round to round.

Negatives = Annotated[
    int,
    IntegerRange(1),
    Help(
        "nearest rows that a search finds as negatives of a label (at least 4 for each of its positives), and random "
        "rows that are negatives of all labels"
    ),
]
Searches = Annotated[
    int,
    IntegerRange(0),
    Help(
        "searches for negatives of a label: the first near the centroid of its positives, each further one among the "
        "rows that score highest under its weights; 0 takes random rows only"
    ),
]
FullPass = Annotated[bool, Help("measure the gap on all rows, by one exact pass over all rows for each label")]


@dataclass(frozen=True)
class SampledSquaredHinge:
    """Solve label blocks on sampled negatives to a relative duality gap of `tol`, in at most `max_rounds` rounds."""

    solvable: ClassVar[Solvable] = Solvable("squared-hinge", dense=True, per_cell=True)
    n_negatives: Negatives = 256
    n_searches: Searches = 3
    search: SearchKind = "exact"
    full_pass: FullPass = True
    tol: Tolerance = 1e-3
    prune: Prune = 0.01
    fit_bias: FitBias = True
    max_rounds: MaxRounds = 50
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_parameters(self)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedSample:
        """Prepare X, a canonical float32 CSR matrix, `Features` or `ScaledFeatures`, for all blocks of labels."""
        assert rows is None, "negatives are sampled from all rows"
        if not isinstance(X, ScaledFeatures):
            X = ScaledFeatures(X if isinstance(X, Features) else Features(X, trusted=True), None)
        return PreparedSample(self, X)


class PreparedSample:
    """A solver, the prepared rows of X and the search over them; it is safe to share between threads."""

    def __init__(self, solver: SampledSquaredHinge, X: ScaledFeatures) -> None:
        self.solver = solver
        sparse, dense = X.features.both
        self.design: Design = lay_out(
            sparse,
            bias=solver.fit_bias,
            seed=int(solver.random_state),
            dense=dense if dense.shape[1] else None,
            factors=X.factors,
            sparse_factors=X.sparse_factors,
        )
        self._quantized = QuantizedRows(self.design)
        self._packed = PackedDesign(self.design, self._quantized)
        self._near = NearRows(X, solver.search) if solver.n_searches else None
        self._duplicates = DuplicateLabels()

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solution of every label of the block; it does not depend on the assignment of labels to blocks."""
        self.solver.solvable.check(block)
        builder = ShardBuilder(self.design, block.first, block.n_labels, self.solver.prune)
        passes = Passes(self.design, self._quantized)
        todo = self._duplicates.begin(block, builder)
        for first in range(0, len(todo), LANES):
            group = [self._begin(block, at) for at in todo[first : first + LANES]]
            rows = [block.positives(label.at) for label in group]
            for number in range(self.solver.n_searches):
                self._add_near(group, rows, number == 0)
            for label in group:
                self._solve(label, passes)
            full = self._objectives(group, passes) if self.solver.full_pass else [None] * len(group)
            for label, objective in zip(group, full, strict=True):
                certificate = label.objective, label.gap, label.epochs
                builder.add(label.at, label.w, label.bias, *certificate, full_objective=objective)
        self._duplicates.end(block, builder)
        return builder.build()

    def _begin(self, block: LabelBlock, at: int) -> LabelState:
        """Return a label at w = 0 whose working set has its positives and the random negatives."""
        design = self.design
        positives, costs = design.positions(block.positives(at)), block.positive_costs(at)
        order = np.argsort(positives)
        positives, costs = positives[order], costs[order]
        nothing = np.empty(0, np.int32), np.empty(0, np.float32)
        weights = np.zeros(design.n_features, np.float32)
        initial = InitialSolution(weights, 0.0, np.float32(0), False, 0.0, *nothing)
        seed = int(self.solver.random_state) + seed_of(positives)
        label = LabelState(at, positives, (costs, float(block.negative[at])), initial, seed)
        # rows of a design are in random order
        self._add(label, np.arange(min(self.solver.n_negatives, design.n_samples), dtype=np.int32))
        return label

    def _add(self, label: LabelState, positions: RowIndices) -> None:
        """Add rows to the working set of a label, unless they are in it."""
        is_known = zeroed_workspace("rows of a label", self.design.n_samples, np.bool_)
        label.add_negatives(rows_not_in(positions, label.rows, is_known))

    def _add_near(self, group: Sequence[LabelState], rows: Sequence[RowIndices], is_first: bool) -> None:
        """Add near negatives: near to the centroids at first, later those of high scores under the weights so far."""
        near = self._near
        assert near is not None
        queries = np.zeros((len(group), near.n_features), np.float32)
        for query, label, own in zip(queries, group, rows, strict=True):
            if is_first:
                query[:] = near.centroid(own)
            else:
                self._ascend(label, 0)
                label.refresh(self.design)
                if near.n_dense:
                    query[:] = label.w[: near.n_dense]
                else:
                    query[self.design.features] = label.w
        counts = [max(self.solver.n_negatives, _PER_POSITIVE * len(own)) for own in rows]
        for label, found in zip(group, near.nearest(queries, rows, counts), strict=True):
            self._add(label, np.sort(self.design.positions(found)))

    def _ascend(self, label: LabelState, number: int) -> None:
        """Ascend over the working set: roughly at first, more accurately in later rounds."""
        far = np.zeros(len(label.rows), np.bool_)
        X = self._packed.exact if number else self._packed.rows
        if not label.scale:
            label.ascend(self.design, X, far, 0.0, _FIRST_EPOCHS)
        tolerance = _TOLERANCE * 0.5**number * self.solver.tol * label.scale
        label.ascend(self.design, X, far, tolerance, _EPOCHS)

    def _solve(self, label: LabelState, passes: Passes) -> None:
        """Ascend until the sampled problem is certified, or rounds are used up."""
        while not label.done:
            self._ascend(label, label.rounds)
            label.refresh(self.design)
            label.rounds += 1
            label.certify(self.design, self._sampled_loss(label, passes.scores(label, label.rows)))
            label.done = label.gap <= self.solver.tol or label.rounds >= self.solver.max_rounds

    def _sampled_loss(self, label: LabelState, scores: npt.NDArray[np.float64]) -> float:
        n = len(label.positives)
        margins = np.concatenate([scores[:n], -scores[n:]])
        return float(np.sum(label.costs(self.design, label.rows) * squared_hinge_value(margins)))

    def _objectives(self, group: Sequence[LabelState], passes: Passes) -> list[float]:
        """Return an upper bound of the objective on all rows for each label, by one exact pass."""
        found = []
        for label, (loss, _, _, scores) in zip(group, passes.exact(group), strict=True):
            total = label.cost_negative * loss + float(np.sum(label.positive_costs * squared_hinge_value(scores)))
            most = max(label.positive_costs.max(initial=0.0), label.cost_negative)
            found.append(upper_bound(self.design, label.square, float(label.bias), True, total, most))
        return found


def gap_on_all_rows(objective: Costs, gap: Costs, full_objective: Costs) -> Costs:
    """Return the relative gap between the objective on all rows and the lower bound of the sampled problem."""
    lower = objective * (1 - gap)
    gaps: Costs = np.divide(
        full_objective - lower, full_objective, out=np.zeros_like(full_objective), where=full_objective > 0
    )
    return gaps.clip(min=0)
