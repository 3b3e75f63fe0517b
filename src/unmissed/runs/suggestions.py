"""Texts and dense features as rows of a run, and ranked labels as suggestions with names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.ranking import Ranking

if TYPE_CHECKING:
    from unmissed.runs.run import Run


class Suggestions(list[tuple[str, float]]):
    """Names and scores of the highest-scoring labels of a text, in falling order of score.

    Parameters
    ----------
    pairs : names and scores
    no_known_words : whether no word of the text is in the vocabulary, so that the list is empty
    probabilities : the probability that each label is observed; None if the run is not calibrated
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, float]] = (),
        *,
        no_known_words: bool = False,
        probabilities: list[float] | None = None,
    ) -> None:
        super().__init__(pairs)
        self.no_known_words = no_known_words
        self.probabilities = probabilities


def suggestions_of(run: Run, ranking: Ranking, threshold: float | None) -> list[Suggestions]:
    """Return the labels of each row with their names; without those whose score is below a threshold."""
    if threshold is not None:
        ranking = ranking.keep(ranking.scores >= threshold)
    n_labels = (ranking.labels >= 0).sum(axis=1).tolist()
    found = []
    for row, n in enumerate(n_labels):
        names = [run.name_of(label) for label in ranking.labels[row, :n].tolist()]
        found.append(
            Suggestions(
                zip(names, ranking.scores[row, :n].tolist(), strict=True),
                no_known_words=ranking.no_known_words is not None and bool(ranking.no_known_words[row]),
                probabilities=None if ranking.probabilities is None else ranking.probabilities[row, :n].tolist(),
            )
        )
    return found


def check_texts(texts: list[str]) -> list[str]:
    """Return texts; raise InputError if one of them is something else."""
    wrong = next((position for position, one in enumerate(texts) if not isinstance(one, str)), None)
    if wrong is not None:
        raise InputError(f"suggest takes a text or several texts; text {wrong} is {type(texts[wrong]).__name__}")
    return texts


def with_dense(run: Run, rows: Features, dense: npt.ArrayLike | None) -> Features:
    """Return rows with their dense part; raise InputError if the run needs one that is missing."""
    if dense is None:
        if run.n_dense:
            raise InputError(
                f"{run.folder}: was trained on {run.n_dense} dense features, too; give them with the texts "
                "(dense=E, --dense E.npy)"
            )
        return rows
    if rows.n_dense:
        raise InputError(f"the rows have {rows.n_dense} dense features already; leave out dense")
    lines = np.asarray(dense)
    part = Features.check(lines[None] if lines.ndim == 1 and rows.shape[0] == 1 else lines).dense
    return Features(rows.sparse, part, trusted=True)


def is_texts(rows: Any) -> bool:
    """Return whether rows are texts rather than features."""
    return isinstance(rows, Sequence) and all(isinstance(row, str) for row in rows)


def only_known(ranking: Ranking, rows: Any, features: Any) -> Ranking:
    """Return the ranking without labels for texts that have no features; unchanged for a matrix."""
    if not isinstance(rows, str) and not is_texts(rows):
        return ranking
    empty = np.diff(features.sparse.indptr) == 0
    return ranking.without_known_words(empty if features.dense is None else empty & ~features.dense.any(axis=1))
