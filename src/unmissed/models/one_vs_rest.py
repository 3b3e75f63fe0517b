"""One-vs-rest: one linear classifier per label, trained in blocks of labels that know nothing of one another."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.execution import Piece, Work
from unmissed.models.linear import Linear, label_key, shard_piece
from unmissed.models.rows import Rows
from unmissed.propensity import Costs, FromTable, PropensityLike, as_propensity
from unmissed.solvers.design import LabelBlock
from unmissed.solvers.shard import MOST_LABELS, Shard


class Prepared(Protocol):
    """Rows laid out for a solver."""

    def solve(self, block: LabelBlock) -> Shard:
        """Solve every label of a block; the result does not depend on how labels are put into blocks."""


class Solver(Protocol):
    """Solves blocks of labels; a frozen dataclass of its parameters, which it checks when it is made."""

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> Prepared:
        """Lay out X, or some of its rows, for all blocks; costs that cannot be solved are refused with their block."""


@dataclass(frozen=True)
class Problem:
    """Makes what label blocks share: the rows laid out for the solver, the labels by column, and their costs.

    Costs are one number per label; they are computed where tasks run, so that what is sent does not grow with labels.
    """

    solver: Solver
    rows: Rows
    model: OneVsRest

    def __call__(self) -> Blocks:
        """Lay out the rows; done once where tasks run."""
        costs = self.model._costs(self.rows.label_counts, self.rows.n_samples)
        Y = self.rows.Y.tocsc()
        return Blocks(self.solver.prepare(self.rows.features), Y, costs, occur_again(Y))


@dataclass(frozen=True)
class Blocks:
    """What every label block needs."""

    prepared: Prepared
    Y: Any
    costs: Costs
    again: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BlockTask:
    """Train the columns `begin` to `end` of Y, whose labels are numbered from `first` on."""

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
        """Solve the block."""
        Y, labels = shared.Y, slice(self.begin, self.end)
        block = LabelBlock(
            first=self.first,
            starts=(Y.indptr[self.begin : self.end + 1] - Y.indptr[self.begin]).astype(np.int64),
            rows=Y.indices[Y.indptr[self.begin] : Y.indptr[self.end]].astype(np.int32, copy=False),
            positive=shared.costs.positive[labels],
            negative=shared.costs.negative[labels],
            counter=shared.costs.counter[labels],
            again=shared.again[labels],
        )
        return shard_piece(shared.prepared.solve(block))


class OneVsRest(Linear):
    """Trains a block of labels per task; a subclass says which solver, and what its labels' rows cost."""

    block_size: int

    @abstractmethod
    def _solver(self) -> Solver:
        """Return the solver, which checks its parameters."""

    @abstractmethod
    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        """Return what rows cost per label, constants multiplied in."""

    def _fit(self, rows: Rows, work: Work) -> None:
        self._train(rows, 0, work)

    def _fit_labels(self, rows: Rows, work: Work) -> None:
        self._train(rows, self.n_labels_, work)

    def _train(self, rows: Rows, first: int, work: Work) -> None:
        """Solve the label blocks that are not finished yet."""
        solver = self._solver()
        size = check_block_size(self.block_size)
        self._costs(rows.label_counts, rows.n_samples)  # refused before anything is laid out
        tasks = [
            BlockTask(first + begin, begin, min(begin + size, rows.n_labels)) for begin in range(0, rows.n_labels, size)
        ]
        sizes = {task.key: task.size for task in tasks}
        for piece in work.map(tasks, Problem(solver, rows, self.unfitted())):
            if piece.facts.get("n_labels") != sizes[piece.key]:
                raise InputError(f"{piece.where or piece.key}: was made with another block_size")


def occur_again(Y: Any) -> npt.NDArray[np.bool_]:
    """Tell which columns of Y, CSC, may have the same rows as another one: never no if they have.

    Each row has a random number of 64 bits; columns whose sums agree are taken for the same.
    """
    numbers = np.random.default_rng(0).integers(2**64, size=Y.shape[0], dtype=np.uint64)
    sums = np.append(np.uint64(0), np.cumsum(numbers[Y.indices], dtype=np.uint64))[Y.indptr]
    _, kind, count = np.unique(sums[1:] - sums[:-1], return_inverse=True, return_counts=True)
    return np.asarray(count[kind.reshape(-1)] > 1)


def check_new_labels(propensity: PropensityLike | None) -> None:
    """Refuse to train labels that came later where propensities are a table."""
    if isinstance(as_propensity(propensity), FromTable):
        raise InputError("a table of propensities has no entry for new labels; use a model such as Jain()")


def check_block_size(size: Any) -> int:
    """Return the number of labels per piece, or refuse what is none."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 1 <= size <= MOST_LABELS:
        raise InputError(f"block_size must be a whole number from 1 to {MOST_LABELS}; got {size!r}")
    return int(size)
