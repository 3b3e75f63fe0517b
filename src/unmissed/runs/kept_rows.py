"""The training rows that a run keeps: the counts of the terms of its texts, and their labels, for later updates."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from unmissed.archive import open_archive, write_archive
from unmissed.data import Dataset
from unmissed.data.dataset import Origin
from unmissed.data.names import pack_names, unpack_names
from unmissed.errors import InputError
from unmissed.matrices import assemble
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder, Source

KIND = "rows of a run"
VERSION = 1
_logger = logging.getLogger(__name__)


def keeps_rows(run: Run) -> bool:
    """Return whether a run keeps rows."""
    return run.folder.rows("").is_dir()


def save_rows(folder: RunFolder, dataset: Dataset) -> None:
    """Write the rows of a data set whose terms are recorded into the folder of a run."""
    assert dataset.text is not None
    assert dataset.text.record is not None
    arrays = {
        **dataset.text.record.to_arrays(),
        **pack_names("label_names", dataset.label_names),
        **pack_names("label_titles", dataset.label_titles),
        "label_starts": dataset.Y.indptr.astype(np.int64),
        "labels": dataset.Y.indices.astype(np.int32),
    }
    write_archive(folder.rows(dataset.source_digest), arrays, kind=KIND, version=VERSION, keep_same=True)


def open_rows(run: Run, source: Source, vocabulary: dict[str, int]) -> Dataset | None:
    """Return the kept rows of a source, with their terms recorded; None if there are none, or not what it was."""
    folder = run.folder.rows(source.digest)
    if run.text is None or not folder.is_dir():
        return None
    try:
        dataset = _open(run, folder, vocabulary)
    except (InputError, ValueError, KeyError, IndexError) as error:
        _logger.warning("%s: not readable, so texts are read again: %s", folder, error)
        return None
    vars(dataset)["origin"] = None if source.path is None else Origin(source.path, source.options)
    return dataset if dataset.digest == source.digest else None


def _open(run: Run, folder: Path, vocabulary: dict[str, int]) -> Dataset:
    assert run.text is not None
    _, arrays = open_archive(folder, KIND, verify=True)
    text = run.text.recording(vocabulary)
    assert text.record is not None
    text.record.restore(arrays)
    X = run.text.transform_record(text.record)
    labels, names = arrays["labels"], unpack_names("label_names", arrays) or []
    Y = assemble(np.ones(labels.size, np.float32), labels, arrays["label_starts"], (X.shape[0], len(names)))
    titles = unpack_names("label_titles", arrays)
    return Dataset(X, Y, label_names=names, label_titles=titles, feature_names=run.text.terms_, text=text)
