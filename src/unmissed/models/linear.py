"""Linear: what all systems share whose answer is one sparse linear classifier per label."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece, Pieces
from unmissed.matrices import rises
from unmissed.models import scoring
from unmissed.models.base import Certificate, Explanation, Model
from unmissed.models.rescoring import ByLabel
from unmissed.models.rows import check_k
from unmissed.models.scanning import Ranker
from unmissed.models.untrained import Counts, drop_untrained, hide_untrained, untrained_mask
from unmissed.ranking import Ranking
from unmissed.solvers.shard import Shard

_SCORING: dict[str, tuple[Any, int]] = {
    "features": (np.int32, 1),
    "starts": (np.int64, 1),
    "labels": (np.uint16, 1),
    "weights": (np.float32, 1),
    "bias": (np.float32, 1),
}
_LAYOUT = _SCORING | {"objective": (np.float64, 1), "gap": (np.float64, 1), "epochs": (np.int32, 1)}
_LABELS = 256  # of a shard, unless somebody says otherwise
_N_LABELS: Callable[[Shard], int] = attrgetter("n_labels")
T = TypeVar("T")


def label_key(first: int) -> str:
    """Return the key of the piece whose labels begin at `first`."""
    return f"labels/{first:08d}"


def walk_labels(
    n_labels: int, get: Callable[[str], Piece | None], read: Callable[[Piece, int], T], count: Callable[[T], int]
) -> Iterator[T]:
    """Read the pieces of all labels one after the other, each with the number of its first label; refuse a gap."""
    first = 0
    while first < n_labels:
        piece = get(label_key(first))
        if piece is None:
            raise InputError(f"the piece {label_key(first)} is missing; the run is damaged")
        yield (found := read(piece, first))
        first += count(found)
    if first != n_labels:
        raise InputError(f"pieces hold {first} labels, expected {n_labels}; the run is damaged")


def shard_piece(shard: Shard) -> Piece:
    """Return a shard as a piece."""
    facts: dict[str, Any] = {"first": int(shard.first), "n_labels": int(shard.n_labels)}
    if shard.pruned is not None:
        facts["pruned"] = float(shard.pruned.max(initial=0))
    return Piece(label_key(shard.first), shard.arrays, facts)


def open_shard(piece: Piece, first: int, n_features: int) -> Shard:
    """Return the shard that a piece holds, after checking that its arrays make one."""
    noted = {"pruned": (np.float32, 1)} if "pruned" in piece.facts else {}  # older pieces have no such array
    arrays = piece.expect(_LAYOUT | noted)
    n_labels, labels = arrays["bias"].size, arrays["labels"]
    if any(arrays[name].size != n_labels for name in ("objective", "gap", "epochs", *noted)):
        raise piece.damaged("its arrays do not fit together")
    _check_places(piece, arrays, n_features)
    if labels.size and int(labels.max()) >= n_labels:
        raise piece.damaged(f"it has weights of a label that is not below {n_labels}")
    return Shard.from_arrays(first, arrays)


def open_weights(piece: Piece, first: int) -> Shard:
    """Return the shard of a piece without its certificates, for numpy alone: what the arrays hold was not looked at.

    To look at all features of all shards takes longer than to rank a row, which needs few of them.
    """
    arrays = {name: array.view(np.ndarray) for name, array in piece.expect(_SCORING).items()}  # maps are slow to cut
    _check_sizes(piece, arrays)
    nothing = {name: np.empty(0, dtype) for name, (dtype, _) in _LAYOUT.items() if name not in arrays}
    return Shard.from_arrays(first, {**arrays, **nothing})


def _check_sizes(piece: Piece, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Refuse a piece whose arrays do not fit together."""
    starts, labels = arrays["starts"], arrays["labels"]
    if starts.size != arrays["features"].size + 1:
        raise piece.damaged("its arrays do not fit together")
    if not arrays["bias"].size:
        raise piece.damaged("it holds no labels")
    if starts[0] != 0 or not starts[-1] == labels.size == arrays["weights"].size:
        raise piece.damaged("its weights are not where its features say")


def _check_places(piece: Piece, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> None:
    """Refuse a piece whose weights are not where its features say."""
    _check_sizes(piece, arrays)
    starts, features = arrays["starts"], arrays["features"]
    if not rises(starts):
        raise piece.damaged("its weights are not where its features say")
    if features.size and (features[0] < 0 or features[-1] >= n_features or not rises(features, strictly=True)):
        raise piece.damaged(f"it has a feature out of order or not below {n_features}")


class Linear(Model):
    """Scores are w.x + b: ranking, thresholds, certificates and explanations of models kept in shards of labels."""

    tol: float
    n_jobs: int | None
    shards_: list[Shard]
    ranked_shards_: list[Shard]
    by_label_: ByLabel | None
    ranker_: Ranker

    def _open(self, pieces: Pieces) -> None:
        read = partial(open_shard, n_features=self.n_features_in_)
        self.shards_ = list(walk_labels(self.n_labels_, pieces.get, read, _N_LABELS))
        self.ranked_shards_ = [hide_untrained(shard, self.untrained_) for shard in self.shards_]
        self.by_label_ = None
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
        """Return what `open` and `rank` would; a single row is ranked without Numba, from the weights alone."""
        model = cls(**params)
        model.n_features_in_ = n_features
        rows = model._checked(X)
        little = rows.shape[0] == 1 and rows.nnz * -(-n_labels // _LABELS) <= scoring.LITTLE
        if not (little and isinstance(pieces, OnDisk) and "numba" not in sys.modules):
            return super().rank_once(params, pieces, n_features, n_labels, X, k, counts)
        k = check_k(k, 1, n_labels)
        untrained = untrained_mask(counts)
        try:
            weights = walk_labels(n_labels, partial(pieces.get, names=_SCORING), open_weights, _N_LABELS)
            shards = (hide_untrained(shard, untrained) for shard in weights)
            best = scoring.rank_one(rows, shards, min(k, max(n_labels, 1)))
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
        k : places per row
        candidates : a model, such as a label tree, or a ranking: only the labels that it proposes are scored, exactly;
            None scores all labels. The first call copies the weights label by label
        n_candidates : how many labels a model is asked to propose per row
        """
        if candidates is None:
            return super().rank(X, k)
        self._check_fitted()
        rows = self._checked(X)
        k = check_k(k, rows.shape[0], self.n_labels_)
        proposed = candidates.rank(X, n_candidates) if isinstance(candidates, Model) else candidates
        if self.by_label_ is None:
            self.by_label_ = ByLabel.turn(self.ranked_shards_)
        return drop_untrained(self.by_label_.rank(rows, proposed, k, self.n_jobs), self.untrained_)

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self.ranker_.rank(X, k, self.n_jobs)

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        self._check_fitted()
        return scoring.decide(self._checked(X), self.ranked_shards_, self.n_labels_, threshold, self.n_jobs)

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels))."""
        self._check_fitted()
        rows = self._checked(X)
        return scoring.scores_of(rows, self.shards_, self._chosen(labels, rows.shape[0]))

    @property
    def coef_(self) -> sp.csr_matrix:
        """The weights as a sparse matrix, (n_labels, n_features), made when it is asked for."""
        self._check_fitted()
        parts = []
        for shard in self.shards_:
            features = np.repeat(shard.features, np.diff(shard.starts))
            shape = (shard.n_labels, self.n_features_in_)
            parts.append(sp.coo_matrix((shard.weights, (shard.labels, features)), shape=shape))
        return sp.csr_matrix(sp.vstack([sp.coo_matrix((0, self.n_features_in_), dtype=np.float32), *parts]))

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """The constant of each label."""
        self._check_fitted()
        return self._joined("bias", np.float32)

    def certificate(self) -> Certificate:
        """Return each label's relative duality gap, that of its solution before pruning."""
        self._check_fitted()
        gap, epochs = self._joined("gap", np.float64), self._joined("epochs", np.int32)
        objective = float(self._joined("objective", np.float64).sum())
        columns = {"epochs": epochs}
        if all(shard.pruned is not None for shard in self.shards_):
            columns["pruning moves scores by"] = self._joined("pruned", np.float32)
        return Certificate(self.tol, gap, objective, columns=columns)

    def explain(self, label: int) -> Explanation:
        """Return the features that have a weight for a label, their weights, and its bias."""
        self._check_fitted()
        for shard in self.shards_:
            place = label - shard.first
            if 0 <= place < shard.n_labels:
                return Explanation(*shard.of_label(place), float(shard.bias[place]))
        raise InputError(f"there is no label {label}; expected 0 to {self.n_labels_ - 1}")

    def facts(self) -> dict[str, Any]:
        """Return how many weights there are."""
        n_weights = sum(shard.weights.size for shard in self.shards_)
        facts = {"weights": n_weights, "weights per label": round(n_weights / max(self.n_labels_, 1), 1)}
        moved = [float(shard.pruned.max(initial=0)) for shard in self.shards_ if shard.pruned is not None]
        if moved:
            facts["pruning moves scores by at most"] = round(max(moved), 3)
        return facts

    def _joined(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(shard, name) for shard in self.shards_)])
