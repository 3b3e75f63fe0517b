"""Scores that other systems leave, and our own tables, as the Ranking that every metric reads."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unmissed.data.json_lines import documents
from unmissed.data.npz import read_matrix
from unmissed.data.streams import bare_suffix, lines
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.files import no_such, read_npy
from unmissed.progress import Progress, silent
from unmissed.ranking import Ranking
from unmissed.runs.answers import BREAKS

PathLike = str | os.PathLike[str]
_FORMS = (
    "a ranking or a scipy sparse matrix (.npz), a matrix (.npy), XMC score text (.txt, also .gz or .xz), or what "
    "`unmissed predict` writes (.tsv, .csv, .jsonl)"
)


class Wanted(NamedTuple):
    """What a file of scores has to fit: rows, labels and, where they are known, the labels' names and the rows' ids."""

    n_samples: int
    n_labels: int
    names: Sequence[str] | None
    ids: Callable[[], Sequence[str] | None] = lambda: None


def read_ranking(
    path: PathLike,
    wanted: Wanted,
    depth: int,
    *,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> Ranking:
    """Read a ranking, or rank the scores in a file and keep `depth` places of each row.

    Parameters
    ----------
    path
        A `.npz` file as `Ranking.save` or `scipy.sparse.save_npz` writes it; a `.npy` file with a dense matrix of
        scores; XMC score text, `label:score label:score ...` per row; or what `unmissed predict` writes, `.tsv`, `.csv`
        or `.jsonl`, whose rows are found by their ids where it has ids.
    wanted
        The rows and labels that the truth has.
    depth
        How many places are needed; a ranking is given back as deep as it is.
    header, one_based
        For score text: whether its first line holds the numbers of rows and labels, whether labels begin with 1.
    """
    suffix = bare_suffix(path)
    if suffix == ".npz":
        return Ranking.load(path) if _holds_ranking(path) else _ranked(path, read_matrix(path), wanted, depth)
    if suffix == ".npy":
        return _ranked(path, read_npy(path, "a matrix of scores"), wanted, depth)
    if suffix in _TABLES:
        return _read_table(path, wanted, depth, progress)
    if suffix in (".txt", ".xmc", ".score"):
        return _ranked(path, _read_text(path, wanted, header, one_based, progress), wanted, depth)
    if not Path(path).exists():
        raise no_such(path, "file")
    raise InputError(f"{path}: cannot tell the format by the name; expected {_FORMS}")


def _holds_ranking(path: PathLike) -> bool:
    """Tell a ranking from one of scipy's matrices; what is neither is left for `Ranking.load` to refuse."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "format.npy" not in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return True


def _ranked(path: PathLike, scores: Any, wanted: Wanted, depth: int) -> Ranking:
    """Rank a matrix of scores that has the right shape."""
    shape = tuple(np.shape(scores))
    if shape != (wanted.n_samples, wanted.n_labels):
        raise InputError(
            f"{path}: scores of shape {shape}; expected {wanted.n_samples} rows and {wanted.n_labels} labels"
        )
    try:
        return Ranking.from_scores(scores, depth)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(path: PathLike, wanted: Wanted, header: bool, one_based: bool, progress: Progress) -> sparse.csr_matrix:
    """Read `label:score` pairs, one row per line."""
    labels: list[int] = []
    scores: list[float] = []
    ends = [0]
    sizes: tuple[int, ...] | None = None
    for number, line in lines(path, progress):
        if header and number == 1:
            sizes = _sizes(path, line)
            continue
        for word in line.split():
            label, colon, score = word.partition(b":")
            try:
                labels.append(int(label) - one_based)
                scores.append(float(score))
            except ValueError:
                raise InputError(f"{path}:{number}: expected label:score, found {_shown(word)}") from None
            if not (colon and 0 <= labels[-1] < wanted.n_labels):
                raise InputError(
                    f"{path}:{number}: label {labels[-1] + one_based}; the truth has {wanted.n_labels} labels"
                )
        ends.append(len(labels))
    n_samples = len(ends) - 1
    if sizes is not None and sizes != (n_samples, wanted.n_labels):
        raise InputError(
            f"{path}:1: says {sizes[0]} rows and {sizes[1]} labels; there are {n_samples} rows, and the truth has "
            f"{wanted.n_labels} labels"
        )
    _refuse_twice(path, labels, ends)
    return sparse.csr_matrix((scores, labels, ends), shape=(n_samples, wanted.n_labels), dtype=np.float64)


def _sizes(path: PathLike, line: bytes) -> tuple[int, ...]:
    words = line.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise InputError(
            f"{path}:1: expected the numbers of rows and labels, found {_shown(line)}; or is it no header?"
        )
    return tuple(int(word) for word in words)


def _refuse_twice(path: PathLike, labels: list[int], ends: list[int]) -> None:
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    numbers = np.asarray(labels, dtype=np.int64)
    order = np.lexsort((numbers, rows))
    same = (np.diff(numbers[order]) == 0) & (np.diff(rows[order]) == 0)
    if same.any():
        at = order[int(np.argmax(same))]
        raise InputError(f"{path}: row {rows[at]} scores label {labels[at]} twice")


def _read_table(path: PathLike, wanted: Wanted, needed: int, progress: Progress) -> Ranking:
    """Read what `unmissed predict` writes: row or id, rank, label, perhaps a readable name, and score."""
    column = _columns(path, wanted)
    rows: dict[str, int] | None = None
    places: list[tuple[int, int, int, float]] = []
    taken: set[tuple[int, int]] = set()
    for where, found in _TABLES[bare_suffix(path)](path, progress):
        if "id" in found and rows is None:
            rows = _rows_by_id(path, wanted.ids())
        try:
            row = int(found["row"]) if rows is None else rows.get(found["id"], -1)
            rank, score = int(found["rank"]), float(found["score"])
            label = int(found["label"]) if column is None else find_name(column, found["label"].translate(BREAKS))
        except (KeyError, ValueError):
            raise InputError(f"{where}: expected row, rank, label and score, found {_short(found)}") from None
        if not (0 <= row < wanted.n_samples and 0 <= label < wanted.n_labels and rank >= 1):
            name = f"row {row}" if rows is None else f"id {found['id']!r}"
            raise InputError(
                f"{where}: {name}, rank {rank}, label {found['label']!r}: expected "
                f"{f'a row below {wanted.n_samples}' if rows is None else 'an id of the truth'}, a rank from 1 on and "
                "a label of the training set"
            )
        if (row, rank) in taken:
            name = f"row {row}" if rows is None else f"id {found['id']!r}"
            raise InputError(f"{where}: {name} has two labels of rank {rank}; rows need ids that differ")
        taken.add((row, rank))
        places.append((row, rank - 1, label, score))
    depth = 1 + max((rank for _, rank, _, _ in places), default=0)
    if depth > wanted.n_labels:
        raise InputError(f"{path}: has rank {depth}, and there are {wanted.n_labels} labels")
    if depth == wanted.n_labels:  # there is no label that could stand further down
        depth = max(depth, needed)
    labels = np.full((wanted.n_samples, depth), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    for row, rank, label, score in places:
        labels[row, rank], scores[row, rank] = label, score
    try:
        return Ranking.as_listed(labels, scores)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _rows_by_id(path: PathLike, ids: Sequence[str] | None) -> dict[str, int]:
    if ids is None:
        raise InputError(
            f"{path}: names rows by their ids, and the rows of the truth have none; evaluate the .npz file"
        )
    rows = {name.translate(BREAKS): row for row, name in enumerate(ids)}
    if len(rows) != len(ids):
        raise InputError(
            f"{path}: names rows by their ids, and two rows of the truth share one; evaluate the .npz file"
        )
    return rows


def _tabbed(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    numbered = ((number, line.decode("utf-8", errors="replace").split("\t")) for number, line in lines(path, progress))
    return _named(path, numbered)


def _commas(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    texts = (line.decode("utf-8", errors="replace") + "\n" for _, line in lines(path, progress))
    reader = csv.reader(texts)
    try:
        yield from _named(path, ((reader.line_num, words) for words in reader if words))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not a table with commas: {error}") from error


def _named(path: PathLike, numbered: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Give `file:line` and the fields of each line of a table by name; the first line has the names."""
    _, names = next(numbered, (1, []))
    if not {"rank", "label", "score"} <= set(names) or not {"row", "id"} & set(names):
        found = _shown(" ".join(names).encode("utf-8", "replace"))
        raise InputError(f"{path}:1: expected the columns row, rank, label and score, found {found}")
    for number, words in numbered:
        yield f"{path}:{number}", dict(zip(names, words, strict=False))


def _objects(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    """Give each label of JSON lines as a line of the table has it."""
    for where, document in documents(path, lines(path, progress)):
        row: dict[str, str] = {name: str(document[name]) for name in ("id", "row") if name in document}
        listed = document.get("labels")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise InputError(f"{where}: expected 'labels' to be a list of objects with label and score")
        for rank, one in enumerate(listed, start=1):
            yield where, {**row, "rank": str(rank), **{name: str(one.get(name)) for name in ("label", "score")}}


_TABLES = {".tsv": _tabbed, ".csv": _commas, ".jsonl": _objects}


def _short(found: dict[str, str]) -> str:
    return _shown("\t".join(map(str, found.values())).encode("utf-8", "replace"))


def _columns(path: PathLike, wanted: Wanted) -> dict[str, int] | None:
    """Return each label's column by its name as tables show it, or None where labels are numbers."""
    if wanted.names is None:
        return None
    shown = [name.translate(BREAKS) for name in wanted.names]
    if len(set(shown)) != len(shown):
        raise InputError(f"{path}: two labels of the training set look alike in a table; evaluate the .npz file")
    return index_names(shown)


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace")
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
