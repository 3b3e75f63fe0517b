"""One-vs-rest: one linear classifier per label, trained in independent blocks of labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from unmissed.errors import InputError
from unmissed.execution import Piece, Work
from unmissed.models.dense_support import DenseSupport
from unmissed.models.dual_variables import DualVariables
from unmissed.models.label_blocks import label_key
from unmissed.models.linear.design import LabelBlock, Solvable
from unmissed.models.linear.linear_model import LinearModel, shard_piece
from unmissed.models.linear.shard import Shard
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Costs, FromTable, PropensityLike, WeightingName, as_propensity, costs
from unmissed.propensity.weighting import cell_costs


class PreparedSolver(Protocol):
    """A solver with its copy of X, ready to solve blocks of labels."""

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solutions of a block; they do not depend on how labels are assigned to blocks."""


class Solver(Protocol):
    """Solves blocks of labels; a frozen dataclass of parameters, validated on construction."""

    @property
    def solvable(self) -> Solvable:
        """The loss and the costs that it solves."""

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedSolver:
        """Copy X, or some of its rows, to the layout that all blocks use; `solve` rejects costs it cannot solve.

        X is a canonical float32 CSR matrix; it may also be `Features` or `ScaledFeatures` if `solvable.dense`. A solver
        with `solvable.per_cell` also takes `weights`, one per row of X.
        """


@dataclass(frozen=True)
class BlockProblem:
    """Computes the shared state of label blocks: the prepared solver, Y as CSC, and the costs.

    Costs are computed once per process. They are not pickled: what a worker receives does not grow with the labels.
    """

    solver: Solver
    rows: TrainingData
    model: OneVsRest

    def __call__(self) -> Blocks:
        """Return the shared state; called once per worker."""
        Y, solvable = self.rows.Y.tocsc(), self.solver.solvable
        may_have_duplicate = find_duplicate_columns(Y)  # before X is laid out: its temporary arrays are then free
        weights: dict[str, Any] = {} if self.rows.weights is None else {"weights": self.rows.weights}
        prepared = self.solver.prepare(self.rows.scaled() if solvable.dense else self.rows.features.csr, **weights)
        per_cell = self.rows.cell_propensity is not None
        return Blocks(prepared, Y, self.costs, may_have_duplicate, per_cell, self.rows.initial)

    @cached_property
    def costs(self) -> Costs:
        """The costs of all labels, those of cells in the order of Y's columns; raise InputError if they are invalid."""
        found, Y = self.model._costs(self.rows), self.rows.Y
        if self.rows.cell_propensity is None:
            return found
        return found._replace(positive=sp.csr_matrix((found.positive, Y.indices, Y.indptr), Y.shape).tocsc().data)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockProblem, (self.solver, self.rows, self.model)


@dataclass(frozen=True)
class Blocks:
    """Shared state of all label blocks."""

    prepared: PreparedSolver
    Y: Any
    costs: Costs
    may_have_duplicate: npt.NDArray[np.bool_]
    per_cell: bool
    initial: DualVariables | None


@dataclass(frozen=True)
class BlockTask:
    """Trains the columns `begin` to `end` (exclusive) of Y; the label of column `begin` has the number `first`."""

    first: int
    begin: int
    end: int

    @property
    def key(self) -> str:
        """The key of the block's piece."""
        return label_key(self.first)

    @property
    def size(self) -> int:
        """The number of labels."""
        return self.end - self.begin

    def run(self, shared: Blocks) -> Piece:
        """Return the piece with the solutions of the block."""
        Y, costs, labels = shared.Y, shared.costs, slice(self.begin, self.end)
        cells = slice(Y.indptr[self.begin], Y.indptr[self.end])
        block = LabelBlock(
            first=self.first,
            starts=(Y.indptr[self.begin : self.end + 1] - Y.indptr[self.begin]).astype(np.int64),
            rows=Y.indices[cells].astype(np.int32, copy=False),
            positive=costs.positive[cells if shared.per_cell else labels],
            negative=costs.negative[labels],
            counter=costs.counter[labels],
            may_have_duplicate=shared.may_have_duplicate[labels],
            per_cell=shared.per_cell,
            initial=None if shared.initial is None else shared.initial.of_labels(self.begin, self.end),
        )
        return shard_piece(shared.prepared.solve(block))


class OneVsRest(LinearModel):
    """Base of one-vs-rest estimators, one task per block of labels; a subclass defines the solver and the costs."""

    dense_support = DenseSupport.CONVERTED
    block_size: int
    C: float

    @abstractmethod
    def _solver(self) -> Solver:
        """Return the solver, with validated parameters."""

    @abstractmethod
    def _costs(self, rows: TrainingData) -> Costs:
        """Return the costs of positives and negatives per label, with constants such as C included.

        If rows have propensities per cell, those of positives are per entry of Y.
        """

    def _scaled(self, costs: Costs) -> Costs:
        """Multiply costs by C."""
        with np.errstate(over="ignore"):
            scaled = Costs(*(float(self.C) * part for part in costs))
        if not all(np.isfinite(part).all() for part in scaled):
            raise InputError(f"C = {self.C:g} times the largest cost of a label overflows float64; choose a smaller C")
        return scaled

    def _fit(self, rows: TrainingData, work: Work) -> None:
        self._train(rows, 0, work)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        self._train(rows, self.n_labels_, work)

    def _train(self, rows: TrainingData, first: int, work: Work) -> None:
        """Solve the label blocks that are not finished, numbering labels from `first`."""
        problem = BlockProblem(self._solver(), rows, clone(self))
        size = int(self.block_size)
        _ = problem.costs  # raises for invalid costs before X is copied
        tasks = [
            BlockTask(first + begin, begin, min(begin + size, rows.n_labels)) for begin in range(0, rows.n_labels, size)
        ]
        sizes = {task.key: task.size for task in tasks}
        for piece in work.map(tasks, problem):
            if piece.metadata.get("n_labels") != sizes[piece.key]:
                raise InputError(f"{piece.where or piece.key}: was made with another block_size")


def find_duplicate_columns(Y: Any) -> npt.NDArray[np.bool_]:
    """Return a mask of the columns of Y (CSC) that may have the same rows as another column; no false negatives.

    A column's hash is the sum of random 64-bit numbers of its rows. Columns of equal hash are taken as duplicates.
    """
    numbers = np.random.default_rng(0).integers(2**64, size=Y.shape[0], dtype=np.uint64)
    sums = np.zeros(len(Y.indices) + 1, np.uint64)
    np.take(numbers, Y.indices, out=sums[1:], mode="clip")  # other modes need a buffer of that size
    np.cumsum(sums, out=sums)
    of_columns = np.diff(sums[Y.indptr])
    _, kind, count = np.unique(of_columns, return_inverse=True, return_counts=True)
    return np.asarray(count[kind.reshape(-1)] > 1)


def weighted_costs(weighting: WeightingName, propensity: PropensityLike | None, rows: TrainingData) -> Costs:
    """Return the costs of a weighting without C, those of positives per cell if the rows have propensities per cell."""
    if rows.cell_propensity is not None:
        return cell_costs(weighting, rows.cell_propensity, rows.label_counts)
    return costs(weighting, as_propensity(propensity).estimate(rows.label_counts, rows.total_weight), rows.label_counts)


def check_new_labels(propensity: PropensityLike | None) -> None:
    """Raise InputError if new labels are trained with a table of propensities."""
    if isinstance(as_propensity(propensity), FromTable):
        raise InputError("a table of propensities has no entry for new labels; use a model such as Jain()")
