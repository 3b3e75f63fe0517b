"""The rows of an update: old and new data sets, without withdrawn rows, with new words if the text features grow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from unmissed.data import Dataset, TextFeatures
from unmissed.data.dataset import Origin
from unmissed.data.documents import Documents
from unmissed.data.formats import find_reader
from unmissed.data.readers.reader import DocumentReader
from unmissed.data.sources import load_again, origin_options, words_of_vocabulary
from unmissed.data.term_record import TermRecord
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.models.dual_variables import DualVariables
from unmissed.progress import Progress, silent
from unmissed.runs.kept_rows import open_rows, save_rows
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder, Source
from unmissed.runs.training_sources import DatasetOrPath, join, latest, read_old_rows, row_digests, sources_of

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class UpdateRows:
    """All rows of an update.

    Parameters
    ----------
    joined : the rows and labels to train on
    every : the data sets that were joined
    sources : where they can be read again
    row_of : for each row of the data sets that the run was trained on first, its number in `joined`, or -1
    """

    joined: Dataset
    every: list[Dataset]
    sources: list[Source]
    row_of: Rows

    def save(self, folder: RunFolder) -> None:
        """Write the rows into the folder of a run, which then keeps them."""
        for dataset in self.every:
            save_rows(folder, dataset)

    def initial(self, run: Run) -> DualVariables | None:
        """Return the dual variables of the run's labels for these rows; None if the run has none."""
        held: DualVariables | None = run.model.dual_variables() if hasattr(run.model, "dual_variables") else None
        if held is None or len(self.row_of) != run.parts[0].n_samples:
            return None
        first = held.of_labels(0, run.parts[0].n_labels)
        names = self.joined.label_names
        labels = np.arange(first.n_labels)
        if names is not None and run.label_names is not None:
            position = index_names(names)
            labels = np.array([find_name(position, name) for name in run.label_names[: first.n_labels]], np.int64)
        moved = first.moved(self.row_of, labels, self.joined.n_labels)
        same_words = self.joined.text is run.text or self.joined.text is None
        return replace(moved, same_features=same_words)


class UpdateReader:
    """Reads the rows of an update; each text is read once, or not at all if the run keeps its rows.

    Parameters
    ----------
    run : the run
    grows : whether the text features are fitted again
    keeps : whether `save` will be called
    """

    def __init__(self, run: Run, *, grows: bool, keeps: bool = False, progress: Progress = silent) -> None:
        if grows and run.text is None:
            raise InputError(f"{run.folder}: was not trained on text, so it has no words to add")
        if keeps and (run.text is None or run.text.encoder is not None):
            raise InputError(f"{run.folder}: only rows of texts without embeddings can be kept")
        self._run, self._grows, self._records, self._progress = run, grows, grows or keeps, progress
        self._vocabulary: dict[str, int] = {}

    def read(
        self,
        new: Dataset | None,
        old_rows: Sequence[DatasetOrPath],
        *,
        remove: Collection[str] = (),
        dropped: Collection[str] = (),
    ) -> UpdateRows:
        """Return old and new rows, joined; ids to `remove` are those of old rows, `dropped` are names of labels."""
        run, text = self._run, self._run.text
        old, sources = self._read_old(old_rows, new)
        every = [*old, *([] if new is None else [new])]
        if self._records:
            every = [self._recorded(one) for one in every]
        digests = [self._digests(one) for one in every]
        trained = latest(digests[: len(run.parts[0].sources)])
        remaining = self._remaining(every[: len(old)], remove) if remove else {}
        for number, (rows, origin) in remaining.items():
            every[number] = _without(every[number], rows, origin)
            sources[number] = Source.of(every[number])
        left = [remaining[one][0] if one in remaining else np.arange(len(digests[one])) for one in range(len(every))]
        digests = [[mine[row] for row in rows.tolist()] for mine, rows in zip(digests, left, strict=True)]
        kept = latest(digests)
        if self._grows:
            text = self._grown([_record(one) for one in every], kept)
            every = [_with_words(one, text) for one in every]
            sources = [Source.of(one) for one in every[: len(old)]]
        joined = join(run, every[: len(old)], every[-1] if new is not None else None, dropped, text, kept).dataset
        if new is not None:
            sources.append(Source.of(every[-1]))
        return UpdateRows(joined, every, sources, _row_numbers(trained, left, kept, digests))

    def _read_old(self, old_rows: Sequence[DatasetOrPath], new: Dataset | None) -> tuple[list[Dataset], list[Source]]:
        """Return the old rows and their current sources.

        Rows of an earlier `extend` with the digest of the new rows are not old: only its labels were trained on them.
        """
        run = self._run
        digest = None if new is None else new.source_digest
        if new is not None and any(source.digest == digest for source in sources_of(run)):
            old_rows = [*old_rows, new]
        kept = (open_rows(run, source, self._vocabulary) for source in sources_of(run))
        old_rows = [*old_rows, *(one for one in kept if one is not None)]
        every = read_old_rows(run, old_rows, text=self._text, progress=self._progress)
        known = sources_of(run) or [Source.of(dataset) for dataset in every]
        pairs = zip(every, known, strict=True)
        old = [(dataset, source) for dataset, source in pairs if dataset.source_digest != digest]
        positions = [source if dataset.origin is None else Source.of(dataset) for dataset, source in old]
        return [dataset for dataset, _ in old], positions

    def _text(self) -> TextFeatures | None:
        """Return the run's text features, which record all terms of the next texts if need be."""
        text = self._run.text
        return text.recording(self._vocabulary) if self._records and text is not None else text

    def _recorded(self, dataset: Dataset) -> Dataset:
        """Return a data set with the counts of all its terms; raise InputError if its texts cannot be read."""
        if dataset.text is not None and dataset.text.record is not None:
            return dataset
        return load_again(_origin(dataset), text=self._text(), progress=self._progress)

    def _digests(self, dataset: Dataset) -> list[bytes]:
        """Return a digest of each row: of its text if words are added, else of its features."""
        return _record(dataset).digests if self._grows else list(row_digests(dataset))

    def _remaining(self, old: Sequence[Dataset], ids: Collection[str]) -> dict[int, tuple[Rows, Origin]]:
        """Return the rows that are left of data sets with some of the ids, and their origins, by the set's number."""
        missing, has_ids = set(ids), False
        changed: dict[int, tuple[Rows, Origin]] = {}
        for number, dataset in enumerate(old):
            origin = _origin(dataset)
            options = origin_options(origin)
            every = Documents(origin.path, options).label_lists(self._progress)[1] or []
            has_ids = has_ids or bool(every)
            found = missing & set(every)
            if found:
                missing -= found
                words = {**origin.options, "without": sorted({*options.without, *found})}
                rows = np.array([row for row, one in enumerate(every) if one not in found], np.int64)
                changed[number] = rows, Origin(origin.path, words)
        if not changed:
            shown = ", ".join(sorted(missing)[:3])
            none = "" if has_ids else "; its documents have no ids, use CSV or JSON lines with an id column"
            raise InputError(
                f"{self._run.folder}: none of the {len(missing):,} ids to remove is in its training data: {shown}{none}"
            )
        return changed

    def _grown(self, records: Sequence[TermRecord], kept: Sequence[Rows]) -> TextFeatures:
        """Return the run's text features, fitted again on the kept rows.

        If the run has labels of a vocabulary without training rows, the words of its names are kept, as in training.
        """
        run = self._run
        assert run.text is not None
        has_unseen = run.label_counts is not None and bool((run.label_counts == 0).any())
        text: TextFeatures = clone(run.text.without_encoder())
        words = words_of_vocabulary(text, run.vocabulary) if has_unseen else ()
        text.fit_records([record.taken(rows) for record, rows in zip(records, kept, strict=True)], words=words)
        text.encoder = run.text.encoder
        return text


def _origin(dataset: Dataset) -> Origin:
    """Return the origin of a data set of documents; raise InputError if it has none."""
    origin = dataset.origin
    if origin is None or not isinstance(find_reader(origin.path), DocumentReader):
        where = "rows in memory" if origin is None else origin.path
        raise InputError(
            f"{where}: no file of documents, so its texts and ids are not known; convert it and train again"
        )
    return origin


def _record(dataset: Dataset) -> TermRecord:
    assert dataset.text is not None
    assert dataset.text.record is not None
    return dataset.text.record


def _without(dataset: Dataset, rows: Rows, origin: Origin) -> Dataset:
    """Return some rows of a data set, and the labels that they have, as if it was read again from `origin`."""
    Y = dataset.Y[rows]
    columns = np.unique(Y.indices)
    if len(columns) == dataset.n_labels:
        columns = np.arange(dataset.n_labels)
    names, titles = dataset.label_names, dataset.label_titles
    text = dataset.text
    if text is not None and text.record is not None:
        text = text.with_record(text.record.taken(rows))
    left = Dataset(
        dataset.X[rows],
        Y[:, columns].sorted_indices(),
        label_names=None if names is None else [names[one] for one in columns.tolist()],
        label_titles=None if titles is None else [titles[one] for one in columns.tolist()],
        feature_names=dataset.feature_names,
        text=text,
        dense=None if dataset.dense is None else dataset.dense[rows],
    )
    vars(left)["origin"] = origin
    return left


def _with_words(dataset: Dataset, text: TextFeatures) -> Dataset:
    """Return a data set with the features of other text features, from the counts of its terms."""
    record = _record(dataset)
    X, text = text.transform_record(record), text.with_record(record)
    changed = replace(dataset, X=X, feature_names=text.terms_, text=text, trusted=True)
    vars(changed)["origin"] = dataset.origin
    return changed


def _row_numbers(
    trained: Sequence[Rows], left: Sequence[Rows], kept: Sequence[Rows], digests: Sequence[Sequence[bytes]]
) -> Rows:
    """Return the new number of each old training row, or that of the row that replaces it; -1 if there is none.

    Parameters
    ----------
    trained : the rows of the first data sets on which the run was trained
    left : the rows of each data set that are not withdrawn
    kept : the rows, among these, that no later one replaces
    digests : the digests of the rows that are left
    """
    starts = [0, *accumulate(len(rows) for rows in kept)]
    number_of: dict[bytes, int] = {}
    for start, mine, rows in zip(starts, digests, kept, strict=False):
        number_of.update((mine[row], start + at) for at, row in enumerate(rows.tolist()) if mine[row])
    found = []
    for before, start, mine, rows, keep in zip(trained, starts, digests, left, kept, strict=False):
        numbers = np.full(int(max(before.max(initial=-1), rows.max(initial=-1))) + 1, -1, np.int64)
        numbers[rows] = [number_of.get(digest, -1) for digest in mine]
        numbers[rows[keep]] = start + np.arange(len(keep))
        found.append(numbers[before])
    return np.concatenate(found) if found else np.zeros(0, np.int64)
