"""The labels that are probably missing: cells (row, label) without an observed label, most probable first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.audit.training_documents import TrainingRows, read_training_rows
from unmissed.audit.unchecked_cells import UncheckedCells, cells_without_label, say_propensity
from unmissed.errors import InputError
from unmissed.progress import Progress, silent
from unmissed.propensity import PropensityLike
from unmissed.runs.run import Run
from unmissed.runs.training_sources import DatasetOrPath

TOP = 100_000
WORDS = 5


@dataclass(frozen=True, eq=False)
class MissingLabels:
    """Labels that are probably missing, most probable first.

    Parameters
    ----------
    run : the run that found them
    cells : the cells, by falling `missing_probability`
    training_rows : the rows of these cells
    features : int32 array (n, words): the features that contribute most to the label's score; -1 pads. None if unknown
    contributions : float32 array (n, words): weight times value of these features
    n_candidates : number of cells among which these are the best, after the filters
    n_scored_rows : number of training rows that have out-of-fold scores
    """

    run: Run
    cells: UncheckedCells
    training_rows: TrainingRows
    features: npt.NDArray[np.int32] | None
    contributions: npt.NDArray[np.float32] | None
    n_candidates: int
    n_scored_rows: int

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def clipped_fraction(self) -> float:
        """The fraction of the cells whose probability was above 1 before it was clipped."""
        return float(self.cells.clipped.mean()) if len(self) else 0.0

    @property
    def expected(self) -> float:
        """The expected number of true labels among the cells: the sum of their probabilities."""
        return float(self.cells.missing_probability.sum())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each cell as a dict: row, id, label, title, missing_probability, observed_probability, count, words.

        `id` and `title` are absent if rows have no ids and labels no titles. `words` is a list of pairs: the name (or
        number) of a feature and its contribution to the score.
        """
        run, cells, counts = self.run, self.cells, self.run.label_counts
        names, titles, ids = run.label_names, run.label_titles, self.training_rows.ids
        pairs = zip(cells.rows.tolist(), cells.labels.tolist(), strict=True)
        for at, (row, label) in enumerate(pairs):
            yield {
                "row": row,
                **({} if ids is None else {"id": ids[row]}),
                "label": str(label) if names is None else names[label],
                **({} if titles is None else {"title": titles[label]}),
                "missing_probability": float(cells.missing_probability[at]),
                "observed_probability": float(cells.observed_probability[at]),
                "count": None if counts is None else int(counts[label]),
                "words": self._words(at),
            }

    def texts(self) -> Iterator[str | None]:
        """Yield the text of the row of each cell; None if texts are not known."""
        rows, texts = self.training_rows.rows, self.training_rows.texts
        for position in np.searchsorted(rows, self.cells.rows).tolist():
            yield None if texts is None else texts[position]

    def summary(self) -> dict[str, Any]:
        """Return numbers that describe the list, ready for JSON."""
        return {
            "run": str(self.run.folder),
            "n_cells": len(self),
            "n_candidates": self.n_candidates,
            "n_rows": len(self.training_rows.rows),
            "n_labels": len(np.unique(self.cells.labels)),
            "n_scored_rows": self.n_scored_rows,
            "n_samples": self.cells.n_samples,
            "expected_true": self.expected,
            "clipped_fraction": self.clipped_fraction,
            "propensity": say_propensity(self.cells.propensity),
        }

    def _words(self, at: int) -> list[tuple[str, float]]:
        if self.features is None or self.contributions is None:
            return []
        pairs = zip(self.features[at].tolist(), self.contributions[at].tolist(), strict=True)
        return [(self.run.feature_name(one) or str(one), value) for one, value in pairs if one >= 0]


def find_missing(
    run: Run,
    *,
    top: int = TOP,
    propensity: PropensityLike | None = None,
    labels: Sequence[str | int] | None = None,
    min_count: int = 0,
    max_count: int | None = None,
    per_row: int | None = None,
    per_label: int | None = None,
    least_probability: float = 0.0,
    words: int = WORDS,
    texts: bool = False,
    old_rows: Sequence[DatasetOrPath] = (),
    progress: Progress = silent,
) -> MissingLabels:
    """Return the cells (row, label) of the training rows without the label that most probably should have it.

    The probability is P(true | not observed, x) = pi (1 - p) / (p (1 - pi)), at most 1. pi is the out-of-fold
    probability that the label is observed and p its propensity. Cells with equal probabilities, such as clipped ones,
    are in the order of pi. The 50 highest-scoring labels of each held-out row are candidates. Memory is proportional to
    them and to `top`.

    Parameters
    ----------
    run : a calibrated run
    top : number of cells
    propensity : the propensity model; None takes that of the recipe unless it is Jain's with its usual constants, and
        then `DEFAULT_PROPENSITY`, an assumption: about 0.6, slightly lower for rare labels
    labels : names or numbers of the labels to look for; None looks for all
    min_count, max_count : least and largest number of training rows of a label
    per_row, per_label : largest number of cells of a row, and of a label; the most probable ones are kept
    least_probability : cells with a lower probability are left out
    words : number of features per cell that contribute most to the score of the run's model; 0 for none
    texts : whether to keep the texts of the rows, for annotators
    old_rows : the data that the run was trained on, or its path, if it moved or is in memory
    progress : progress callback of reading the training data
    """
    for name, value, least in (
        ("top", top, 1),
        ("words", words, 0),
        ("per_row", per_row, 1),
        ("per_label", per_label, 1),
    ):
        if value is not None and value < least:
            raise InputError(f"{name} is {value}; expected at least {least}")
    held_out = run.held_out_cells()
    candidates = cells_without_label(run, held_out, propensity)
    n_scored_rows = len(np.unique(held_out.rows))
    kept = candidates.missing_probability >= least_probability
    if labels is not None or min_count or max_count is not None:
        kept &= _chosen_labels(run, labels, min_count, max_count)[candidates.labels]
    candidates = candidates.select(kept)
    cells = candidates.select(_best(candidates, top, per_row, per_label))
    rows = np.unique(cells.rows).astype(np.int64)
    explains = words > 0 and hasattr(run.model, "explain")
    training = read_training_rows(
        run, held_out, rows, old_rows=old_rows, features=explains, texts=texts, progress=progress
    )
    features = contributions = None
    if explains and training.X is not None:
        features, contributions = contributing_features(
            run, training.X, np.searchsorted(rows, cells.rows), cells.labels, words
        )
    return MissingLabels(run, cells, training, features, contributions, len(candidates), n_scored_rows)


def contributing_features(
    run: Run, X: sp.csr_matrix, rows: npt.NDArray[Any], labels: npt.NDArray[Any], words: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the features of each cell with the largest positive weight times value, and these products; -1 pads.

    Parameters
    ----------
    run : a run whose model explains the scores of labels
    X : sparse features, as the model uses them
    rows, labels : the cells: rows of X, and labels
    words : number of features per cell
    """
    features = np.full((len(rows), words), -1, np.int32)
    products = np.zeros((len(rows), words), np.float32)
    weights = np.zeros(run.n_features, np.float32)
    order = np.argsort(labels, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []:
        found = run.model.explain(int(labels[group[0]]))
        weights[found.features] = found.weights
        part = X[rows[group]]
        product = part.data * weights[part.indices]
        weights[found.features] = 0
        of_cell = np.repeat(np.arange(len(group)), np.diff(part.indptr))
        best = np.lexsort((part.indices, -product, of_cell))
        slot = np.arange(len(best)) - part.indptr[of_cell]  # of_cell[best] is of_cell: it is sorted
        kept = (slot < words) & (product[best] > 0)
        features[group[of_cell[kept]], slot[kept]] = part.indices[best[kept]]
        products[group[of_cell[kept]], slot[kept]] = product[best[kept]]
    return features, products


def _chosen_labels(
    run: Run, labels: Sequence[str | int] | None, min_count: int, max_count: int | None
) -> npt.NDArray[np.bool_]:
    """Return which labels are looked for."""
    chosen = np.full(run.n_labels, labels is None)
    if labels is not None:
        chosen[[run.label(one) for one in labels]] = True
    counts = run.label_counts
    if counts is None:
        raise InputError(f"{run.folder}: the label counts of training were not recorded")
    return np.asarray(chosen & (counts >= min_count) & (counts <= (counts.max() if max_count is None else max_count)))


def _best(cells: UncheckedCells, top: int, per_row: int | None, per_label: int | None) -> npt.NDArray[np.int64]:
    """Return the positions of the `top` most probable cells within the limits, by falling probability."""
    keys = (cells.labels, cells.rows, -cells.observed_probability, -cells.missing_probability)
    order = np.lexsort(keys)
    if per_row is None and per_label is None:
        return order[:top]
    left_rows = np.full(cells.n_samples, len(cells) if per_row is None else per_row)
    left_labels = np.full(cells.n_labels, len(cells) if per_label is None else per_label)
    best: list[int] = []
    for at, row, label in zip(order.tolist(), cells.rows[order].tolist(), cells.labels[order].tolist(), strict=True):
        if left_rows[row] and left_labels[label]:
            left_rows[row] -= 1
            left_labels[label] -= 1
            best.append(at)
            if len(best) == top:
                break
    return np.array(best, dtype=np.int64)
