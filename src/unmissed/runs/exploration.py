"""Exploration of a run's labels: search by prefix, neighbors, and what the words of a text contribute to a label."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.calibration import CANDIDATES
from unmissed.data.unicode import find_name, index_names, normalize
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.matrices import assemble
from unmissed.models.evidence import Explanation
from unmissed.ranking import Ranking
from unmissed.runs.run import Run

_AFTER = "\U0010ffff"  # sorts after every other character


class SuggestedLabel(NamedTuple):
    """A label of a text: its probability, or its raw score if the run is not calibrated; and always its raw score."""

    label: int
    score: float
    margin: float


class LabelList(list[SuggestedLabel]):
    """The suggested labels of a text, in falling order of `score`; `no_known_words` says why there are none."""

    def __init__(self, labels: Sequence[SuggestedLabel] = (), *, no_known_words: bool = False) -> None:
        super().__init__(labels)
        self.no_known_words = no_known_words


class Contribution(NamedTuple):
    """A feature of a text and its part of a label's raw score: the feature's value times its weight."""

    feature: str
    contribution: float


class TextExplanation(NamedTuple):
    """The raw score of a label for a text: the bias, plus the contributions of its features.

    `contributions` are those of the sparse features, the largest absolute ones first; `dense` is the sum of those of
    dense features, None if the run has none.
    """

    score: float
    margin: float
    bias: float
    contributions: list[Contribution]
    dense: float | None


class Neighbor(NamedTuple):
    """Another label, and the cosine of the angle between the weights of the two."""

    label: int
    similarity: float


class LabelIndex:
    """The labels of a run by name and by the beginning of name or title.

    Parameters
    ----------
    run : the run; labels without names are found by their numbers
    """

    def __init__(self, run: Run) -> None:
        self._n_labels = run.n_labels
        self._names = run.label_names
        self._titles = run.label_titles
        self._notations = run.notations
        self._labels = None if self._names is None else index_names(self._names)
        counts = run.label_counts
        self._counts = np.zeros(run.n_labels, np.int64) if counts is None else counts
        listed = [self._names or [str(label) for label in range(run.n_labels)], self._titles or []]
        keys = sorted((_key(name), label) for names in listed for label, name in enumerate(names))
        self._keys = [key for key, _ in keys]
        self._label_of_key = np.array([label for _, label in keys], np.int64)

    def name(self, label: int) -> str:
        """Return the identifier of a label: its name, or its number."""
        return self._names[label] if self._names else str(label)

    def title(self, label: int) -> str:
        """Return the title of a label, else its name, else its number."""
        return self._titles[label] if self._titles else self.name(label)

    def notation(self, label: int) -> str | None:
        """Return the notation of a label in the vocabulary; None if it has none."""
        return (self._notations[label] or None) if self._notations else None

    def find(self, name: str) -> int:
        """Return the label with this name (its number, if labels have no names); -1 if there is none."""
        if self._labels is not None:
            return find_name(self._labels, name)
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 12 else self._n_labels
        return number if number < self._n_labels else -1

    def search(self, prefix: str, limit: int) -> list[int]:
        """Return the labels whose name or title begins with `prefix`, in any case; those with most positives first."""
        key = _key(prefix)
        begin, end = bisect_left(self._keys, key), bisect_left(self._keys, key + _AFTER)
        labels = np.unique(self._label_of_key[begin:end])
        order = np.argsort(-self._counts[labels], kind="stable")[:limit]
        return [int(label) for label in labels[order]]


def suggest_labels(run: Run, texts: list[str], k: int, threshold: float = 0.0) -> list[LabelList]:
    """Return k labels for each text: of a calibrated run the most probable ones, else the highest-scoring ones.

    The most probable labels are taken from the 50 (or k) highest-scoring ones, as by `rank_by="probability"`. A
    `threshold` other than 0 keeps labels whose `score` is at least that.
    """
    depth = max(k, CANDIDATES) if run.calibration is not None else k
    ranking = run.rank(texts, min(depth, run.n_labels))
    shown = ranking.by_probability() if ranking.probabilities is not None else ranking
    flags = ranking.no_known_words
    return [
        LabelList(_row(ranking, shown, row, k, threshold), no_known_words=flags is not None and bool(flags[row]))
        for row in range(len(texts))
    ]


def _row(ranking: Ranking, shown: Ranking, row: int, k: int, threshold: float) -> list[SuggestedLabel]:
    margin = dict(zip(ranking.labels[row].tolist(), ranking.scores[row].tolist(), strict=True))
    listed = zip(shown.labels[row, :k].tolist(), shown.scores[row, :k].tolist(), strict=True)
    return [
        SuggestedLabel(label, score, margin[label])
        for label, score in listed
        if label >= 0 and (not threshold or score >= threshold)
    ]


def can_explain(run: Run) -> bool:
    """Return whether the run's method has a weight per feature and label, so that its scores can be explained."""
    return hasattr(run.model, "explain") and hasattr(run.model, "decision_function")


def explain_text(run: Run, text: str, label: int, limit: int = 20) -> TextExplanation:
    """Return what the features of a text contribute to the score of a label."""
    if not can_explain(run):
        raise InputError(f"{run.recipe.method} has no weights per feature; it cannot explain a suggestion")
    features = run.features_of(text)
    row = run.model._checked(features).csr  # scaled as the model scales it
    found: Explanation = run.model.explain(label)
    weights = np.zeros(run.n_features, np.float32)
    weights[found.features] = found.weights
    values = row.data * weights[row.indices]
    is_dense = row.indices >= run.n_sparse
    words, parts = row.indices[~is_dense], values[~is_dense]
    order = np.lexsort((words, -np.abs(parts)))
    order = order[parts[order] != 0][:limit]
    margin = float(run.model.decision_function(features, [label])[0, 0])
    calibrated = run.calibration is not None
    return TextExplanation(
        score=float(run.model.predict_proba(features, [label])[0, 0]) if calibrated else margin,
        margin=margin,
        bias=found.constant,
        contributions=[Contribution(_name(run, int(words[one])), float(parts[one])) for one in order],
        dense=float(values[is_dense].sum()) if run.n_dense else None,
    )


def label_neighbors(run: Run, label: int, limit: int = 10) -> list[Neighbor]:
    """Return labels with similar weights, the most similar first; none if the method has no weights per label.

    Candidates are the labels that the model ranks highest for a row whose features are the label's own weights.
    """
    if not can_explain(run):
        return []
    weights = _weights_of(run, [label])
    if not weights.nnz:
        return []
    row = Features(weights[:, : run.n_sparse], weights[:, run.n_sparse :].toarray()) if run.n_dense else weights
    ranked = run.model.rank(row, min(2 * limit + 1, run.n_labels)).labels[0]
    candidates = [int(one) for one in ranked if one >= 0 and one != label]
    if not candidates:
        return []
    cosines = np.asarray((_weights_of(run, candidates) @ weights.T).todense()).ravel()
    order = np.argsort(-cosines, kind="stable")[:limit]
    return [Neighbor(candidates[one], float(cosines[one])) for one in order]


def _weights_of(run: Run, labels: list[int]) -> sp.csr_matrix:
    """Return the weights of labels, (len(labels), n_features), L2-normalized."""
    found = [run.model.explain(label) for label in labels]
    starts: npt.NDArray[np.int64] = np.cumsum([0, *(len(one.features) for one in found)])
    weights = np.concatenate([one.weights / max(float(np.linalg.norm(one.weights)), 1e-30) for one in found])
    indices = np.concatenate([one.features for one in found]).astype(np.int32)
    return assemble(weights.astype(np.float32), indices, starts, (len(labels), run.n_features))


def _name(run: Run, feature: int) -> str:
    return run.feature_name(feature) or f"feature {feature}"


def _key(name: str) -> str:
    return normalize(name).casefold()
