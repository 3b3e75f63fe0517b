"""LinearModel: prediction, certificates and storage of all models with one sparse linear classifier per label."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once, OnDisk, Piece, Pieces
from unmissed.matrices import rises
from unmissed.models.base import Certificate, Explanation, Model
from unmissed.models.label_blocks import label_key, walk_labels
from unmissed.models.linear.ranking import exact_scores
from unmissed.models.linear.ranking.ranker import Ranker
from unmissed.models.linear.ranking.rescoring import WeightsByLabel
from unmissed.models.linear.shard import Shard, hide_untrained
from unmissed.models.training_data import check_k
from unmissed.models.untrained import Counts, drop_untrained, untrained_mask
from unmissed.ranking import Ranking

_SCORING: dict[str, tuple[Any, int]] = {
    "features": (np.int32, 1),
    "starts": (np.int64, 1),
    "labels": (np.uint16, 1),
    "weights": (np.float32, 1),
    "bias": (np.float32, 1),
}
_LAYOUT = _SCORING | {"objective": (np.float64, 1), "gap": (np.float64, 1), "epochs": (np.int32, 1)}
_LABELS = 256  # default number of labels per shard
_N_LABELS: Callable[[Shard], int] = attrgetter("n_labels")
T = TypeVar("T")


def shard_piece(shard: Shard) -> Piece:
    """Return the piece that stores a shard."""
    metadata: dict[str, Any] = {"first": int(shard.first), "n_labels": int(shard.n_labels)}
    if shard.pruned is not None:
        metadata["pruned"] = float(shard.pruned.max(initial=0))
    return Piece(label_key(shard.first), shard.arrays, metadata)


def open_shard(piece: Piece, first: int, n_features: int) -> Shard:
    """Return the shard stored in a piece; raise if its arrays are inconsistent."""
    optional = {"pruned": (np.float32, 1)} if "pruned" in piece.metadata else {}  # older pieces have no such array
    arrays = piece.expect(_LAYOUT | optional)
    n_labels, labels = arrays["bias"].size, arrays["labels"]
    if any(arrays[name].size != n_labels for name in ("objective", "gap", "epochs", *optional)):
        raise piece.damaged("its arrays do not fit together")
    _check_feature_lists(piece, arrays, n_features)
    if labels.size and int(labels.max()) >= n_labels:
        raise piece.damaged(f"it has weights of a label that is not below {n_labels}")
    return Shard.from_arrays(first, arrays)


def open_weights(piece: Piece, first: int) -> Shard:
    """Return the shard of a piece without certificates and without checking the array contents, by numpy only.

    Checking all features of all shards takes longer than ranking one row, which reads few of them.
    """
    arrays = {name: array.view(np.ndarray) for name, array in piece.expect(_SCORING).items()}  # memmaps slice slowly
    _check_sizes(piece, arrays)
    empty = {name: np.empty(0, dtype) for name, (dtype, _) in _LAYOUT.items() if name not in arrays}
    return Shard.from_arrays(first, {**arrays, **empty})


def _check_sizes(piece: Piece, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise if the array sizes of a piece are inconsistent."""
    starts, labels = arrays["starts"], arrays["labels"]
    if starts.size != arrays["features"].size + 1:
        raise piece.damaged("its arrays do not fit together")
    if not arrays["bias"].size:
        raise piece.damaged("it holds no labels")
    if starts[0] != 0 or not starts[-1] == labels.size == arrays["weights"].size:
        raise piece.damaged("its weights are not where its features say")


def _check_feature_lists(piece: Piece, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> None:
    """Raise if the feature lists of a piece are out of order or out of range."""
    _check_sizes(piece, arrays)
    starts, features = arrays["starts"], arrays["features"]
    if not rises(starts):
        raise piece.damaged("its weights are not where its features say")
    if features.size and (features[0] < 0 or features[-1] >= n_features or not rises(features, strictly=True)):
        raise piece.damaged(f"it has a feature out of order or not below {n_features}")


class LinearModel(Model):
    """Base of models with scores w.x + b: ranking, thresholds, certificates and explanations from shards of labels."""

    tol: float
    n_jobs: int | None
    shards_: list[Shard]
    ranked_shards_: list[Shard]
    by_label_: Once[WeightsByLabel]
    ranker_: Ranker

    def _open(self, pieces: Pieces) -> None:
        read = partial(open_shard, n_features=self.n_features_in_)
        self.shards_ = list(walk_labels(self.n_labels_, pieces.get, read, _N_LABELS))
        self.ranked_shards_ = [hide_untrained(shard, self.untrained_) for shard in self.shards_]
        self.by_label_ = Once("weights by label", partial(WeightsByLabel.from_shards, self.ranked_shards_))
        self.ranker_ = Ranker(self.ranked_shards_, self.n_features_in_)

    @classmethod
    def rank_once(
        cls,
        params: Mapping[str, Any],
        pieces: Pieces,
        n_features: int,
        n_labels: int,
        X: Any,
        k: int,
        counts: Counts | None = None,
    ) -> Ranking:
        """Return the same as `open` and `rank`; a single row is ranked by numpy only, without loading Numba."""
        model = cls(**params)
        model.n_features_in_ = n_features
        rows = model._checked(X)
        is_small = rows.shape[0] == 1 and rows.nnz * -(-n_labels // _LABELS) <= exact_scores.MAX_NUMPY_LOOKUPS
        if not (is_small and isinstance(pieces, OnDisk) and "numba" not in sys.modules):
            return super().rank_once(params, pieces, n_features, n_labels, X, k, counts)
        k = check_k(k, 1, n_labels)
        untrained = untrained_mask(counts)
        try:
            weights = walk_labels(n_labels, partial(pieces.get, names=_SCORING), open_weights, _N_LABELS)
            shards = (hide_untrained(shard, untrained) for shard in weights)
            best = exact_scores.rank_one(rows, shards, min(k, max(n_labels, 1)))
            return drop_untrained(best, untrained).padded(k)
        except (IndexError, ValueError) as error:
            raise InputError(f"{pieces.path}: damaged: a piece has weights of a label that it does not have") from error

    def rank(
        self, X: Any, k: int = 5, *, candidates: Model | Ranking | None = None, n_candidates: int = 100
    ) -> Ranking:
        """Return the k highest-scoring labels of each row with their scores, padded with -1.

        Labels without a training positive are never ranked.

        Parameters
        ----------
        X : the rows
        k : labels per row
        candidates : a model, such as a label tree, or a ranking: only the labels that it proposes are scored, exactly;
            None scores all labels. The first call copies the weights to label-major order
        n_candidates : labels per row that a candidate model proposes
        """
        if candidates is None:
            return super().rank(X, k)
        self._check_fitted()
        rows = self._checked(X)
        k = check_k(k, rows.shape[0], self.n_labels_)
        proposed = candidates.rank(X, n_candidates) if isinstance(candidates, Model) else candidates
        return drop_untrained(self.by_label_.get().rank(rows, proposed, k, self.n_jobs), self.untrained_)

    def _prepare(self) -> None:
        self.ranker_.scan.get()

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self.ranker_.rank(X, k, self.n_jobs)

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        self._check_fitted()
        return exact_scores.decide(self._checked(X), self.ranked_shards_, self.n_labels_, threshold, self.n_jobs)

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels))."""
        self._check_fitted()
        rows = self._checked(X)
        return exact_scores.scores_of(rows, self.shards_, self._chosen(labels, rows.shape[0]))

    @property
    def coef_(self) -> sp.csr_matrix:
        """The weights as a sparse matrix, (n_labels, n_features), computed on access."""
        self._check_fitted()
        parts = []
        for shard in self.shards_:
            features = np.repeat(shard.features, np.diff(shard.starts))
            shape = (shard.n_labels, self.n_features_in_)
            parts.append(sp.coo_matrix((shard.weights, (shard.labels, features)), shape=shape))
        return sp.csr_matrix(sp.vstack([sp.coo_matrix((0, self.n_features_in_), dtype=np.float32), *parts]))

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """The bias of each label."""
        self._check_fitted()
        return self._joined("bias", np.float32)

    def certificate(self) -> Certificate:
        """Return the relative duality gap of each label before pruning."""
        self._check_fitted()
        gap, epochs = self._joined("gap", np.float64), self._joined("epochs", np.int32)
        objective = float(self._joined("objective", np.float64).sum())
        columns = {"epochs": epochs}
        if all(shard.pruned is not None for shard in self.shards_):
            columns["pruning moves scores by"] = self._joined("pruned", np.float32)
        return Certificate(self.tol, gap, objective, columns=columns)

    def explain(self, label: int) -> Explanation:
        """Return the non-zero weights of a label with their features, and its bias."""
        self._check_fitted()
        for shard in self.shards_:
            position = label - shard.first
            if 0 <= position < shard.n_labels:
                return Explanation(*shard.of_label(position), float(shard.bias[position]))
        raise InputError(f"there is no label {label}; expected 0 to {self.n_labels_ - 1}")

    def metadata(self) -> dict[str, Any]:
        """Return the number of weights, in total and per label, and the effect of pruning."""
        n_weights = sum(shard.weights.size for shard in self.shards_)
        metadata = {"weights": n_weights, "weights per label": round(n_weights / max(self.n_labels_, 1), 1)}
        moved = [float(shard.pruned.max(initial=0)) for shard in self.shards_ if shard.pruned is not None]
        if moved:
            metadata["pruning moves scores by at most"] = round(max(moved), 3)
        return metadata

    def _joined(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(shard, name) for shard in self.shards_)])
