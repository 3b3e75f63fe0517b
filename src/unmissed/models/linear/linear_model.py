"""LinearModel: prediction, certificates and storage of all models with one linear classifier per label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once, Piece, Pieces, layouts_of
from unmissed.features import Features
from unmissed.matrices import rises
from unmissed.models.base import Model
from unmissed.models.calibrated import RankBy
from unmissed.models.evidence import Certificate, Explanation
from unmissed.models.label_blocks import label_key, walk_labels
from unmissed.models.linear.ranking import exact_scores
from unmissed.models.linear.ranking.dense_scores import DenseWeights
from unmissed.models.linear.ranking.ranker import Ranker
from unmissed.models.linear.ranking.rescoring import WeightsByLabel
from unmissed.models.linear.shard import Shard, hide_untrained
from unmissed.models.parameters import with_predict_params
from unmissed.models.training_data import check_k
from unmissed.models.untrained import drop_untrained
from unmissed.ranking import Ranking

_LAYOUT: dict[str, tuple[Any, int]] = {
    "features": (np.int32, 1),
    "starts": (np.int64, 1),
    "labels": (np.uint16, 1),
    "weights": (np.float32, 1),
    "bias": (np.float32, 1),
    "objective": (np.float64, 1),
    "gap": (np.float64, 1),
    "epochs": (np.int32, 1),
}
_DUAL: dict[str, tuple[Any, int]] = {
    "dual_starts": (np.int64, 1),
    "dual_rows": (np.int32, 1),
    "dual_values": (np.float32, 1),
}
_OPTIONAL: dict[str, tuple[Any, int]] = {"pruned": (np.float32, 1), "full_objective": (np.float64, 1)}
_N_LABELS: Callable[[Shard], int] = attrgetter("n_labels")
T = TypeVar("T")


def shard_piece(shard: Shard) -> Piece:
    """Return the piece that stores a shard."""
    metadata: dict[str, Any] = {"first": int(shard.first), "n_labels": int(shard.n_labels)}
    if shard.pruned is not None:
        metadata["pruned"] = float(shard.pruned.max(initial=0))
    if shard.dense is not None:
        metadata["n_dense"] = int(shard.dense.shape[1])
    if shard.dual_starts is not None:
        metadata["dual"] = True
    if shard.full_objective is not None:
        metadata["full_objective"] = float(shard.full_objective.sum())
    return Piece(label_key(shard.first), shard.arrays, metadata)


def open_shard(piece: Piece, first: int, n_features: int) -> Shard:
    """Return the shard stored in a piece; raise if its arrays are inconsistent."""
    optional = {name: kind for name, kind in _OPTIONAL.items() if name in piece.metadata}
    n_dense = piece.metadata.get("n_dense") or 0
    dense: dict[str, tuple[Any, int]] = {"dense": (np.float32, 2)} if n_dense else {}
    dual = _DUAL if piece.metadata.get("dual") else {}
    arrays = piece.expect(_LAYOUT | optional | dense | dual)
    n_labels, labels = arrays["bias"].size, arrays["labels"]
    if any(arrays[name].size != n_labels for name in ("objective", "gap", "epochs", *optional)):
        raise piece.damaged("its arrays do not fit together")
    if dense and (arrays["dense"].shape != (n_labels, n_dense) or n_dense > n_features):
        raise piece.damaged("its dense weights do not fit its labels and features")
    starts = arrays.get("dual_starts")
    if starts is not None and not (
        starts.size == n_labels + 1
        and starts[0] == 0
        and starts[-1] == arrays["dual_rows"].size == arrays["dual_values"].size
        and rises(starts)
    ):
        raise piece.damaged("its dual variables do not fit its labels")
    _check_feature_lists(piece, arrays, n_features - n_dense)
    if labels.size and int(labels.max()) >= n_labels:
        raise piece.damaged(f"it has weights of a label that is not below {n_labels}")
    return Shard.from_arrays(first, arrays, piece.digest)


def _check_feature_lists(piece: Piece, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> None:
    """Raise if the arrays of a piece have inconsistent sizes, or its feature lists are out of order or out of range."""
    starts, features, labels = arrays["starts"], arrays["features"], arrays["labels"]
    if starts.size != features.size + 1:
        raise piece.damaged("its arrays do not fit together")
    if not arrays["bias"].size:
        raise piece.damaged("it holds no labels")
    if starts[0] != 0 or not starts[-1] == labels.size == arrays["weights"].size or not rises(starts):
        raise piece.damaged("its weights are not where its features say")
    if features.size and (features[0] < 0 or features[-1] >= n_features or not rises(features, strictly=True)):
        raise piece.damaged(f"it has a feature out of order or not below {n_features}")


class LinearModel(Model):
    """Base of models with scores w.x + b: ranking, thresholds, certificates and explanations from shards of labels.

    Features that were dense in training have dense weights, and X must then have as many dense features. The score of a
    label is that of its sparse part, summed in float32, plus that of its dense part, summed in float64, rounded to
    float32; both are summed in a fixed order (`ranking.tiles`, `ranking.dense_products`).
    """

    tol: float
    n_jobs: int | None
    shards_: list[Shard]
    ranked_shards_: list[Shard]
    dense_: DenseWeights
    by_label_: Once[WeightsByLabel]
    ranker_: Ranker

    def _open(self, pieces: Pieces) -> None:
        read = partial(open_shard, n_features=self.n_features_in_)
        self.shards_ = list(walk_labels(self.n_labels_, pieces.get, read, _N_LABELS))
        self.ranked_shards_ = [hide_untrained(shard, self.untrained_) for shard in self.shards_]
        self.dense_ = DenseWeights(self.shards_)
        if self.dense_.n_dense not in (0, self.n_dense_in_):
            raise InputError(f"it has weights of {self.dense_.n_dense} dense features; expected {self.n_dense_in_}")
        self.by_label_ = Once("weights by label", partial(WeightsByLabel.from_shards, self.ranked_shards_))
        n_sparse = self.n_features_in_ - self.dense_.n_dense
        self.ranker_ = Ranker(self.ranked_shards_, n_sparse, layouts_of(pieces))

    def rank(
        self,
        X: Any,
        k: int = 5,
        *,
        rank_by: RankBy = "score",
        candidates: Model | Ranking | None = None,
        n_candidates: int = 100,
        **params: Any,
    ) -> Ranking:
        """Return the k highest-scoring labels of each row with their scores, and probabilities if it is calibrated.

        Labels without a training positive are never ranked.

        Parameters
        ----------
        X : the rows
        k : labels per row
        rank_by : as in `Model.rank`
        candidates : a model, such as a label tree, or a ranking: only the labels that it proposes are scored, exactly;
            None scores all labels. The first call copies the weights to label-major order
        n_candidates : labels per row that a candidate model proposes
        params : as in `Model.rank`
        """
        if candidates is None:
            return super().rank(X, k, rank_by=rank_by, **params)
        self._check_fitted()
        if params:
            words: dict[str, Any] = {"rank_by": rank_by, "candidates": candidates, "n_candidates": n_candidates}
            return with_predict_params(self, params).rank(X, k, **words)
        rows = self._checked(X)
        k = check_k(k, rows.shape[0], self.n_labels_)
        proposed = candidates.rank(X, n_candidates) if isinstance(candidates, Model) else candidates
        with self.dense_.part(rows, exact=True) as (sparse, dense):
            ranking = self.by_label_.get().rank(sparse, proposed, self._depth(k, rank_by), self.n_jobs, dense)
        return self._finish(drop_untrained(ranking, self.untrained_), k, rank_by)

    def _prepare(self) -> None:
        if self.dense_.n_dense:
            self.dense_.norms.get()
        self.ranker_.prepare(self.n_jobs)

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self.ranker_.rank(X, k, self.n_jobs)

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        with self.dense_.part(rows) as (sparse, dense):
            return self.ranker_.rank(sparse, k, self.n_jobs, dense)

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        self._check_fitted()
        with self.dense_.part(self._checked(X)) as (sparse, dense):
            return self.ranker_.decide(sparse, threshold, self.n_jobs, dense)

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels))."""
        self._check_fitted()
        rows = self._checked(X)
        with self.dense_.part(rows, exact=True) as (sparse, dense):
            return exact_scores.scores_of(sparse, self.shards_, self._chosen(labels, rows.shape[0]), dense)

    def __dir__(self) -> list[str]:
        """Return the names of all attributes but `coef_`: scikit-learn's HTML repr would compute it."""
        return [name for name in object.__dir__(self) if name != "coef_"]

    @property
    def coef_(self) -> sp.csr_matrix | npt.NDArray[np.float32]:
        """The weights, (n_labels, n_features), computed on access: an array if all features are dense, else sparse."""
        self._check_fitted()
        n_dense = self.dense_.n_dense
        dense = np.concatenate([np.empty((0, n_dense), np.float32), *self.dense_.matrices])
        if n_dense and n_dense == self.n_features_in_:
            return dense
        parts = [sp.coo_matrix((0, self.n_features_in_ - n_dense), dtype=np.float32)]
        for shard in self.shards_:
            features = np.repeat(shard.features, np.diff(shard.starts))
            shape = shard.n_labels, self.n_features_in_ - n_dense
            parts.append(sp.coo_matrix((shard.weights, (shard.labels, features)), shape=shape))
        sparse = sp.csr_matrix(sp.vstack(parts))
        return sp.csr_matrix(sp.hstack([sparse, dense])) if n_dense else sparse

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
        """Return the non-zero weights of a label with their features, the sparse ones first, and its bias."""
        self._check_fitted()
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise InputError(f"explain takes the number of a label; got {type(label).__name__}")
        for shard in self.shards_:
            position = label - shard.first
            if 0 <= position < shard.n_labels:
                features, weights = shard.of_label(position)
                if shard.dense is not None:
                    positions = np.flatnonzero(shard.dense[position]).astype(np.int32)
                    features = np.append(features, positions + np.int32(self.n_features_in_ - self.dense_.n_dense))
                    weights = np.append(weights, shard.dense[position][positions])
                return Explanation(features, weights, float(shard.bias[position]))
        raise InputError(f"there is no label {label}; expected 0 to {self.n_labels_ - 1}")

    def metadata(self) -> dict[str, Any]:
        """Return the number of weights, in total and per label, of dense features, and the effect of pruning."""
        n_weights = sum(shard.weights.size for shard in self.shards_) + self.dense_.n_dense * self.n_labels_
        metadata = {"weights": n_weights, "weights per label": round(n_weights / max(self.n_labels_, 1), 1)}
        if self.dense_.n_dense:
            metadata["dense features"] = self.dense_.n_dense
        moved = [float(shard.pruned.max(initial=0)) for shard in self.shards_ if shard.pruned is not None]
        if moved:
            metadata["pruning moves scores by at most"] = round(max(moved), 3)
        return metadata

    def _joined(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(shard, name) for shard in self.shards_)])
