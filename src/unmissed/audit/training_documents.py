"""The training rows of a run, read again: features of some of them, and ids and texts if their source has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.calibration import Cells
from unmissed.data.documents import Documents, binarize
from unmissed.data.text_fields import plain
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.metrics.calibration_error import find_observed
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import training_rows
from unmissed.runs.run import Run
from unmissed.runs.training_sources import DatasetOrPath, sources_of, training_documents

__all__ = ["TrainingRows", "check_documents", "is_observed", "read_training_rows", "training_documents"]
_AT_ONCE = 1024  # texts that are turned into features at a time


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Some training rows of a run.

    Parameters
    ----------
    rows : int64 array, ascending: the numbers of these rows
    X : their sparse features, as the model uses them; None if they have none or the training data is not known
    ids : the ids of all training rows; None unless every row has an id of its own
    texts : the texts of these rows; None if the training data has none, or if they were not requested
    """

    rows: npt.NDArray[np.int64]
    X: sp.csr_matrix | None = None
    ids: list[str] | None = None
    texts: list[str] | None = None

    def name_of(self, row: int) -> str:
        """Return the id of a row, or its number if rows have no ids."""
        return str(row) if self.ids is None else self.ids[row]


def read_training_rows(
    run: Run,
    cells: Cells,
    rows: npt.NDArray[np.int64],
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    features: bool = True,
    texts: bool = False,
    progress: Progress = silent,
) -> TrainingRows:
    """Return some training rows of a run; raise InputError if the training data changed.

    Parameters
    ----------
    run : a calibrated run
    cells : its held-out cells; documents must have the labels that are observed there
    rows : numbers of the rows, ascending
    old_rows : the data sets that the run was trained on, or their paths, if they moved or are in memory
    features, texts : whether features and texts are needed
    progress : progress callback
    """
    documents = training_documents(run, old_rows)
    if documents is not None:
        ids = check_documents(run, documents, cells, progress)[1]
        chosen = _texts_of(documents, rows, progress) if features or texts else iter(())
        kept = list(chosen) if texts else None
        X = _text_features(run, chosen if kept is None else iter(kept)) if features and len(rows) else None
        return TrainingRows(rows, X, ids, None if kept is None else [plain(text) for text in kept])
    sources = sources_of(run)
    is_known = bool(sources) and all(source.path is not None for source in sources)
    if not features or not (is_known or old_rows):
        return TrainingRows(rows)
    dataset = training_rows(run, old_rows, progress=progress)
    return TrainingRows(rows, _scaled(run, dataset.features[rows]))


def check_documents(
    run: Run, documents: Documents, cells: Cells, progress: Progress = silent
) -> tuple[list[list[str]], list[str] | None]:
    """Return labels and ids of the training rows, ids None unless each row has its own; raise if the labels changed.

    The labels are compared with those that were observed when the run was calibrated.
    """
    label_lists, ids = documents.label_lists(progress)
    entry = run.calibration
    n_samples = -1 if entry is None else entry.n_samples
    changed = len(label_lists) != n_samples
    if not changed:
        Y = binarize(label_lists, run.label_names)[0]
        changed = not np.array_equal(is_observed(Y, cells.rows, cells.labels), cells.observed)
    if changed:
        raise InputError(f"{documents.source}: is not what {run.folder} was trained on: it has other rows or labels")
    return label_lists, ids if ids is not None and len(set(ids)) == len(ids) else None


def is_observed(Y: sp.csr_matrix, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether cells are labels of Y, a canonical CSR matrix."""
    return find_observed(labels[:, None], Y[rows])[:, 0]


def _scaled(run: Run, features: Features) -> sp.csr_matrix | None:
    """Return sparse features as the model uses them."""
    return features.scaled(bool(getattr(run.model, "normalize", False))).sparse


def _texts_of(documents: Documents, rows: npt.NDArray[np.int64], progress: Progress) -> Iterator[str]:
    """Yield the texts of some rows, given in ascending order."""
    wanted = iter([*rows.tolist(), -1])
    row = next(wanted)
    for number, text in enumerate(documents.texts_and_ids(progress)[0]):
        if number == row:
            row = next(wanted)
            yield text


def _text_features(run: Run, texts: Iterator[str]) -> sp.csr_matrix | None:
    """Return the sparse features of texts, as the model uses them; embeddings are not computed."""
    if run.text is None:
        return None
    words = run.text.without_encoder()
    parts = []
    while block := list(islice(texts, _AT_ONCE)):
        parts.append(_scaled(run, Features(words.transform(block), trusted=True)))
    return sp.vstack(parts, format="csr")
