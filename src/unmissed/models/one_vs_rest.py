"""One-vs-rest: one linear classifier a label, trained in blocks of labels that know nothing of one another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from unmissed.errors import InputError, NotFittedError
from unmissed.execution import Threads
from unmissed.models import linear
from unmissed.models.base import check_k, check_X, check_Y, scale_rows
from unmissed.progress import Progress, silent
from unmissed.propensity import Costs
from unmissed.ranking import Ranking
from unmissed.solvers.design import LabelBlock
from unmissed.solvers.parameters import check_positive
from unmissed.solvers.shard import MOST_LABELS, InMemory, Shard, Shards
from unmissed.solvers.squared_hinge import SquaredHinge


class UncertifiedWarning(UserWarning):
    """Some labels stopped before their duality gap came down to the tolerance."""


class OneVsRest(BaseEstimator):  # type: ignore[misc]
    """What DiSMEC and PW-DiSMEC share; a subclass says what a label's positives and negatives cost."""

    C: float
    tol: float
    prune: float
    unit_rows: bool
    fit_bias: bool | str
    max_rounds: int
    block_size: int
    n_jobs: int | None
    random_state: int

    n_features_in_: int
    n_labels_: int
    shards_: list[Shard]

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        """Return the costs of each label; subclasses define them."""
        ones = np.ones(len(label_counts))
        return Costs(ones, np.zeros_like(ones), ones)

    def fit(self, X: Any, Y: Any, *, shards: Shards | None = None, progress: Progress = silent) -> Self:
        """Train one classifier for each column of Y.

        Parameters
        ----------
        X : sparse matrix or array, (n_samples, n_features)
        Y : sparse matrix or array of 0 and 1, (n_samples, n_labels)
        shards : where finished label blocks are kept and looked for; in memory by default
        progress : told how many labels are done
        """
        X = self._rows(X)
        Y = check_Y(Y, X.shape[0])
        self.shards_ = self._train(X, Y, 0, InMemory() if shards is None else shards, progress)
        self.n_features_in_ = X.shape[1]
        self.n_labels_ = Y.shape[1]
        self._warn_of_uncertified(self.shards_)
        return self

    def fit_labels(self, X: Any, Y_new: Any, *, shards: Shards | None = None, progress: Progress = silent) -> Self:
        """Train further labels, the columns of Y_new, behind those that are there; the old ones stay as they are."""
        self._check_fitted()
        X = self._rows(X, self.n_features_in_)
        Y = check_Y(Y_new, X.shape[0])
        added = self._train(X, Y, self.n_labels_, InMemory() if shards is None else shards, progress)
        self.shards_ = [*self.shards_, *added]
        self.n_labels_ += Y.shape[1]
        self._warn_of_uncertified(added)
        return self

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the k best labels of each row with their scores; places beyond the number of labels are -1."""
        self._check_fitted()
        return linear.rank(self._rows(X, self.n_features_in_), self.shards_, check_k(k), self.n_jobs)

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score exceeds `threshold`."""
        self._check_fitted()
        return linear.decide(self._rows(X, self.n_features_in_), self.shards_, self.n_labels_, threshold, self.n_jobs)

    def decision_function(self, X: Any, labels: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the scores of chosen labels, (n_samples, len(labels)); all labels at once would not fit in memory."""
        self._check_fitted()
        chosen = np.atleast_1d(np.asarray(labels))
        known = chosen.ndim == 1 and (chosen.dtype.kind in "iu" or not chosen.size)
        if not known or (chosen.size and not 0 <= chosen.min() <= chosen.max() < self.n_labels_):
            raise InputError(f"labels are whole numbers from 0 to {self.n_labels_ - 1}")
        return linear.scores_of(self._rows(X, self.n_features_in_), self.shards_, chosen.astype(np.int64))

    @classmethod
    def from_shards(cls, params: Mapping[str, Any], shards: Sequence[Shard], n_features: int) -> Self:
        """Make a fitted model of finished shards, in rising order of label; nothing is copied."""
        model = cls(**params)
        model.shards_ = sorted(shards, key=lambda shard: shard.first)
        model.n_features_in_ = n_features
        model.n_labels_ = sum(shard.n_labels for shard in shards)
        return model

    def uncertified_labels(self) -> npt.NDArray[np.int64]:
        """Return the labels whose duality gap exceeds the tolerance."""
        self._check_fitted()
        return _uncertified(self.shards_, self.tol)

    def _train(self, X: Any, Y: Any, first: int, shards: Shards, progress: Progress) -> list[Shard]:
        """Solve the label blocks that are not finished yet, and return all of them."""
        solver = self._solver()
        n_labels = Y.shape[1]
        Y = Y.tocsc()
        costs = self._costs(np.diff(Y.indptr).astype(np.int64), X.shape[0])
        finished: dict[int, Shard] = {}
        for begin in range(0, n_labels, self.block_size):
            shard = shards.get(first + begin)
            if shard is not None:
                if shard.n_labels != min(self.block_size, n_labels - begin):
                    raise InputError(f"the shard of label {first + begin} was made with another block_size")
                finished[first + begin] = shard
        done = sum(shard.n_labels for shard in finished.values())
        progress(done, n_labels)
        if done < n_labels:
            prepared = solver.prepare(X)
            for shard in Threads(self.n_jobs).map(prepared.solve, self._blocks(Y, costs, first, finished)):
                shards.put(shard)
                finished[shard.first] = shards.get(shard.first) or shard
                done += shard.n_labels
                progress(done, n_labels)
        return [finished[begin] for begin in sorted(finished)]

    def _blocks(self, Y: Any, costs: Costs, first: int, finished: Mapping[int, Shard]) -> Iterator[LabelBlock]:
        """Yield the label blocks that are still to do."""
        for begin in range(0, Y.shape[1], self.block_size):
            if first + begin in finished:
                continue
            end = min(begin + self.block_size, Y.shape[1])
            part = slice(Y.indptr[begin], Y.indptr[end])
            yield LabelBlock(
                first=first + begin,
                starts=(Y.indptr[begin : end + 1] - Y.indptr[begin]).astype(np.int64),
                rows=Y.indices[part],
                positive=self.C * costs.positive[begin:end],
                negative=self.C * costs.negative[begin:end],
                counter=self.C * costs.counter[begin:end],
            )

    def _solver(self) -> SquaredHinge:
        """Check the parameters and make the solver of them."""
        check_positive("C", self.C)
        if not 1 <= self.block_size <= MOST_LABELS:
            raise InputError(f"block_size must be from 1 to {MOST_LABELS}; got {self.block_size!r}")
        return SquaredHinge(self.tol, self.prune, self.fit_bias, self.max_rounds, self.random_state)

    def _rows(self, X: Any, n_features: int | None = None) -> sp.csr_matrix:
        """Check X and scale its rows where that is wanted."""
        X = check_X(X, n_features)
        return scale_rows(X) if self.unit_rows else X

    def _check_fitted(self) -> None:
        if not hasattr(self, "shards_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _warn_of_uncertified(self, shards: Sequence[Shard]) -> None:
        missed = _uncertified(shards, self.tol)
        if len(missed):
            named = ", ".join(map(str, missed[:10])) + (", ..." if len(missed) > 10 else "")
            warnings.warn(
                f"{len(missed)} labels missed the relative duality gap {self.tol:g}: {named}; "
                "raise max_rounds, raise tol or lower C",
                UncertifiedWarning,
                stacklevel=3,
            )


def _uncertified(shards: Sequence[Shard], tol: float) -> npt.NDArray[np.int64]:
    return np.concatenate(
        [np.flatnonzero(~(shard.gap <= tol)) + shard.first for shard in shards] or [np.empty(0, np.int64)]
    )
