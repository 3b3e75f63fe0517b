"""Prediction: ranks the rows of a file in batches and writes the ranking."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.calibration import DecisionRule
from unmissed.data import Columns
from unmissed.data.dense_part import check_number_of_rows, read_dense
from unmissed.data.documents import Documents
from unmissed.data.encoders import BLOCK
from unmissed.data.encodings import UTF8
from unmissed.data.formats import find_reader, holds_text, looks_like_sentence, no_data
from unmissed.data.readers.reader import DocumentReader, ReadOptions
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.files import open_regular
from unmissed.matrices import assemble
from unmissed.models.parameters import Group, parameters_of, with_predict_params
from unmissed.models.training_data import check_k
from unmissed.progress import Progress, describe, silent
from unmissed.propensity import PropensityLike
from unmissed.ranking import Ranking
from unmissed.runs.expansion import BroaderLabels
from unmissed.runs.lines import STANDARD_INPUT, TextLines
from unmissed.runs.ranking_writers import WRITERS
from unmissed.runs.run import Run
from unmissed.runs.suggestions import is_texts
from unmissed.settings import SETTINGS

_OTHERS = (".json", ".txt", ".xlsx", ".xls", ".ods", ".parquet", ".npy", ".gz", ".xz", ".zip", ".html", ".md")


@dataclass(frozen=True)
class TextsWithDense:
    """Texts, read lazily, and the dense features of all of them.

    Parameters
    ----------
    texts : the texts
    dense : their dense features, (n_texts, n_dense)
    names : how messages call the file of the dense features, and the source of the texts
    """

    texts: Iterator[str] | TextLines
    dense: npt.NDArray[Any]
    names: tuple[str, str]

    def batches(self, batch: int) -> Iterator[tuple[list[str], npt.NDArray[Any]]]:
        """Yield batches of texts with their dense features; raise InputError unless there is one row per text."""
        first, parts = 0, _text_batches(self.texts, batch)
        for texts in parts:
            last = first + len(texts)
            if last > self.dense.shape[0]:
                last += sum(map(len, parts))
                break
            yield texts, self.dense[first:last]
            first = last
        else:
            last = first
        check_number_of_rows(self.dense, self.names[0], last, self.names[1])


def read_rows(
    run: Run,
    path: str | os.PathLike[str],
    *,
    dense: str | os.PathLike[str] | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> tuple[Any, list[str]]:
    """Return the rows to rank, texts or `Features`, and their ids; labels are not needed.

    `dense` is a `.npy` file with the dense features of the rows; texts are then `TextsWithDense`.

    Texts are read lazily: the list of ids is complete when all rows have been read, and empty unless every row has an
    id. Texts come from JSON lines, tables and other text formats. For a run that was trained on text they also come
    from the lines of standard input (`-`) or of a `.txt` file without an XMC header, or from the `.txt` files of a
    folder. Features come from any other format that `load` reads.
    """
    options = ReadOptions(header, one_based, columns or Columns())
    if str(path) != STANDARD_INPUT and looks_like_sentence(path) and not os.path.lexists(path):
        raise no_data(path, "to rank one text, use --text TEXT")
    part = None if dense is None else read_dense_of(run, dense)
    names = str(dense), "standard input" if str(path) == STANDARD_INPUT else str(path)
    if _is_plain_text(run, path):
        lines = TextLines(path, most=SETTINGS.ranked_rows, encoding=options.columns.encoding, progress=progress)
        return (lines if part is None else TextsWithDense(lines, part, names)), []
    reader = find_reader(path, labels=False)
    if isinstance(reader, DocumentReader):
        if run.text is None:
            raise InputError(f"{path}: holds texts, but {run.folder} was not trained on text")
        texts, ids = Documents(path, options).texts_and_ids(progress)
        return (texts if part is None else TextsWithDense(texts, part, names)), ids
    X, feature_names = reader.read_features(path, options, progress=progress)
    sparse = X.sparse
    if sparse is not None and not header and sparse.shape[1] < run.n_sparse:  # trailing features may not occur
        sparse = assemble(sparse.data, sparse.indices, sparse.indptr, (X.shape[0], run.n_sparse))
    if part is not None:
        if X.n_dense:
            raise InputError(f"{path}: has {X.n_dense} dense features already; give no others")
        check_number_of_rows(part, names[0], X.shape[0], str(path))
        part = part.astype(np.float32, copy=False)
    rows = Features(sparse, X.dense if part is None else part, trusted=True)
    check_features(run, path, rows, feature_names)
    return rows, []


def read_dense_of(run: Run, path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Return the dense features of a `.npy` file; raise InputError unless they have the columns of the run."""
    dense = read_dense(path)
    if run.n_dense and dense.shape[1] != run.n_dense:
        raise InputError(f"{path}: has {dense.shape[1]} columns; {run.folder} was trained on {run.n_dense} of them")
    return dense


def read_document(run: Run, path: str | os.PathLike[str], encoding: str = UTF8) -> str:
    """Return a file of plain text, or standard input (`-`), as one text."""
    if run.text is None:
        raise InputError(f"{path}: one text, but {run.folder} was not trained on text")
    if str(path) != STANDARD_INPUT and not Path(path).is_file():
        raise no_data(path) if not os.path.lexists(path) else InputError(f"{path}: not a file of one text")
    return TextLines(path, encoding=encoding).as_document()


def check_features(run: Run, path: str | os.PathLike[str], rows: Features, names: list[str] | None) -> None:
    """Raise unless the features are those that the run was trained on."""
    if rows.n_dense != run.n_dense and (rows.is_mixed or (run.n_sparse and run.n_dense)):
        advice = "; give them (--dense)" if not rows.n_dense else ""
        raise InputError(
            f"{path}: has {rows.n_dense} dense features; {run.folder} was trained on {run.n_dense}{advice}"
        )
    if rows.shape[1] != run.n_features:
        raise InputError(f"{path}: has {rows.shape[1]} features; {run.folder} was trained on {run.n_features}")
    if names is not None and run.feature_names is not None and names != run.feature_names:
        raise InputError(f"{path}: its features have other names than those that {run.folder} was trained on")


def read_params(run: Run, words: Iterable[str]) -> dict[str, Any]:
    """Parse values of prediction parameters, such as `beam=20`; raise for names that the model does not have."""
    known = {one.name: one for one in parameters_of(type(run.model)) if one.group is Group.PREDICT}
    params: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--set {word}: expected NAME=VALUE")
        params[name] = known[name].parse(value) if name in known else value
    with_predict_params(run.model, params)
    return params


def predict(
    run: Run,
    rows: Any,
    k: int = 5,
    *,
    params: Mapping[str, Any] | None = None,
    batch: int | None = None,
    progress: Progress = silent,
) -> Ranking:
    """Return the k highest-scoring labels of each row, ranked in batches to bound the memory.

    `rows` is a matrix, a list of texts, an iterator of texts, `TextLines` or `TextsWithDense`; the last three report
    progress themselves. For a run with an encoder, an iterator is read into memory first.
    `params` are other values of prediction parameters, as in `Model.rank`. `batch` is the number of rows per batch.
    Texts without a known word get no labels, as in `Run.rank`. A matrix is validated once, not batch by batch.
    """
    params, batch = params or {}, batch or SETTINGS.ranked_rows
    if isinstance(rows, Iterator) and run.text is not None and run.text.encoder is not None:
        rows, batch = list(rows), min(batch, BLOCK)  # their number tells the time to go
        describe(progress, "embedding and ranking texts")
    if isinstance(rows, Iterator | TextLines | TextsWithDense):
        k = check_k(k, 1, run.n_labels)
        parts = [run.rank(texts, k, dense=dense, **params) for texts, dense in _batches(rows, batch)]
        return Ranking.join(parts, k).of_names(run.label_names)
    if not is_texts(rows):
        rows = run.model.check_features(rows)
    n_samples = len(rows) if isinstance(rows, Sequence) else int(rows.shape[0])
    k = check_k(k, n_samples, run.n_labels)
    parts = []
    for first in range(0, n_samples, batch):
        parts.append(run.rank(rows[first : first + batch], k, **params))
        progress(min(first + batch, n_samples), n_samples)
    return Ranking.join(parts, k).of_names(run.label_names)


@dataclass(frozen=True)
class Shown:
    """What is shown of a ranking.

    Parameters
    ----------
    threshold : labels with a lower score are left out; None keeps all
    decision : chooses labels by their probabilities; None keeps all
    true_probability : whether the probability that a label is true is added
    propensity : the propensity model for it; None takes that of the recipe, or the default one
    broader : adds the broader labels of those that are shown; None adds none
    """

    threshold: float | None = None
    true_probability: bool = False
    propensity: PropensityLike | None = None
    decision: DecisionRule | None = None
    broader: BroaderLabels | None = None

    @property
    def by_row(self) -> bool:
        """Whether what is shown of a row does not depend on other rows."""
        return self.decision is None or self.decision.by_row

    def n_candidates(self, run: Run) -> int:
        """Return the number of labels per row among which the decision chooses."""
        assert self.decision is not None
        return min(self.decision.n_candidates, run.n_labels)

    def of(self, run: Run, ranking: Ranking) -> Ranking:
        """Return the ranking as it is shown."""
        if self.threshold is not None:
            ranking = ranking.keep(ranking.scores >= self.threshold)
        if self.decision is not None:
            ranking = self.decision.decide(ranking)
        if self.true_probability:
            ranking = run.with_true_probabilities(ranking, self.propensity)
        return ranking if self.broader is None else self.broader.add_to(ranking)


def read_decision(run: Run, text: str) -> tuple[DecisionRule, str | None]:
    """Return the rule of a text such as "f1" for a calibrated run, and a note if it has a threshold that was found.

    The threshold of a precision is found on the ranked cells of the held-out training rows.
    """
    rule = DecisionRule.parse(text)
    if run.calibration is None:
        raise run.not_calibrated()
    if rule.kind != "precision":
        return rule, None
    cells = run.held_out_cells()
    cells = cells.select(cells.ranks >= 0)
    p = run.model.calibration_.probability(cells.labels, cells.scores, cells.ranks)
    found = rule.threshold(p, cells.observed, cells.groups)
    note = (
        f"{rule}: labels with a probability of at least {found.threshold:.4g}; on held-out training rows their "
        f"precision was {found.precision:.4f}, with 95 % confidence at least {found.lower:.4f}"
    )
    return DecisionRule("p", found.threshold), note


def predict_lines(
    run: Run, rows: TextLines, k: int = 5, shown: Shown | None = None, params: Mapping[str, Any] | None = None
) -> Iterator[Ranking]:
    """Yield the rankings of batches of text lines."""
    k, shown = check_k(k, 1, run.n_labels), shown or Shown()
    for texts in rows:
        yield shown.of(run, run.rank(texts, k, **(params or {})))


def ranking_files(out: str | os.PathLike[str]) -> list[Path]:
    """Return the files that `write_ranking` writes; raise for an unsupported suffix."""
    out = Path(out)
    suffix = out.suffix.lower()
    if suffix in _OTHERS and suffix not in WRITERS.names():
        raise InputError(
            f"{out}: cannot write {suffix}; expected {', '.join(WRITERS.names())}, or a name without suffix"
        )
    known = suffix in WRITERS.names()
    stem = out.with_suffix("") if known else out
    if stem.name in ("", ".."):
        raise InputError(f"{out}: not the name of a file")
    return [stem.with_name(f"{stem.name}{one}") for one in ([suffix] if known else [".npz", ".tsv"])]


def write_ranking(
    run: Run,
    ranking: Ranking | Iterable[Ranking],
    out: str | os.PathLike[str],
    *,
    ids: Sequence[str] | None = None,
    raw: bool = False,
) -> list[Path]:
    """Write a ranking in the format of the suffix; without a suffix as .npz and .tsv. Return the paths.

    Formats that are written `in_parts` also accept an iterable of parts. In .tsv and .csv, cells that a spreadsheet
    would run as formulas start with an apostrophe, unless `raw` is set; `evaluate` reads both.
    """
    written = ranking_files(out)
    written[0].parent.mkdir(parents=True, exist_ok=True)
    for path in written:
        WRITERS.find(path.suffix)().write(path, run, ranking, ids, raw)
    return written


def _is_plain_text(run: Run, path: str | os.PathLike[str]) -> bool:
    """Return whether a path holds lines of text for a run that was trained on text."""
    if str(path) == STANDARD_INPUT:
        if run.text is None:
            raise InputError(f"standard input: one text per line, but {run.folder} was not trained on text")
        return True
    if run.text is None or not str(path).lower().endswith(".txt") or not Path(path).is_file():
        return False
    with open_regular(path) as stream:
        words = stream.readline(200).decode("utf-8", "replace").split()
    is_xmc = len(words) == 3 and all(word.isdecimal() for word in words)
    return not is_xmc and not holds_text(path)


def _batches(
    rows: Iterator[str] | TextLines | TextsWithDense, batch: int
) -> Iterator[tuple[list[str], npt.NDArray[Any] | None]]:
    """Yield batches of texts with their dense features, None if they have none."""
    if isinstance(rows, TextsWithDense):
        yield from rows.batches(batch)
    else:
        yield from ((texts, None) for texts in _text_batches(rows, batch))


def _text_batches(rows: Iterator[str] | TextLines, batch: int) -> Iterator[list[str]]:
    if isinstance(rows, TextLines):
        yield from rows
        return
    while texts := list(islice(rows, batch)):
        yield texts
