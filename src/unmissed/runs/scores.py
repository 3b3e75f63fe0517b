"""Reads score files of other systems, and tables of `unmissed predict`, as rankings."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.data.readers.npz import read_matrix
from unmissed.data.streams import bare_suffix, lines
from unmissed.errors import InputError
from unmissed.files import no_such, read_npy
from unmissed.progress import Progress, silent
from unmissed.ranking import Ranking
from unmissed.runs.tables import TABLES, RankedRows, Wanted, read_table, shown

PathLike = str | os.PathLike[str]
_FORMS = (
    "a ranking or a scipy sparse matrix (.npz), a matrix (.npy), XMC score text (.txt, also .gz or .xz), or what "
    "`unmissed predict` writes (.tsv, .csv, .jsonl)"
)


def read_ranking(
    path: PathLike,
    wanted: Wanted,
    depth: int,
    *,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> RankedRows:
    """Return the ranking in a file, or the `depth` highest scores per row, and the missing rows.

    Parameters
    ----------
    path
        A `.npz` file as `Ranking.save` or `scipy.sparse.save_npz` writes it; a `.npy` file with a dense matrix of
        scores; XMC score text, `label:score label:score ...` per row; or what `unmissed predict` writes, `.tsv`, `.csv`
        or `.jsonl`, whose rows are found by their ids where it has ids.
    wanted
        The rows and labels of the truth.
    depth
        Number of labels per row to keep of scores; a ranking keeps its own.
    header, one_based
        For score text: whether its first line has the numbers of rows and labels; whether labels start at 1.
    """
    suffix = bare_suffix(path)
    if suffix == ".npz":
        return RankedRows(
            Ranking.load(path) if _holds_ranking(path) else _ranked(path, read_matrix(path), wanted, depth)
        )
    if suffix == ".npy":
        return RankedRows(_ranked(path, read_npy(path, "a matrix of scores"), wanted, depth))
    if suffix in TABLES:
        return read_table(path, wanted, depth, progress)
    if suffix in (".txt", ".xmc", ".score"):
        return RankedRows(_ranked(path, _read_text(path, wanted, header, one_based, progress), wanted, depth))
    if not Path(path).exists():
        raise no_such(path, "file")
    raise InputError(f"{path}: cannot tell the format by the name; expected {_FORMS}")


def _holds_ranking(path: PathLike) -> bool:
    """Return whether a .npz file is not a scipy matrix; `Ranking.load` raises for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "format.npy" not in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return True


def _ranked(path: PathLike, scores: Any, wanted: Wanted, depth: int) -> Ranking:
    """Return the ranking of a matrix of scores; raise for a wrong shape."""
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
    """Return the matrix of `label:score` pairs, one row per line."""
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
                raise InputError(f"{path}:{number}: expected label:score, found {shown(word)}") from None
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
        raise InputError(f"{path}:1: expected the numbers of rows and labels, found {shown(line)}; or is it no header?")
    return tuple(int(word) for word in words)


def _refuse_twice(path: PathLike, labels: list[int], ends: list[int]) -> None:
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    numbers = np.asarray(labels, dtype=np.int64)
    order = np.lexsort((numbers, rows))
    same = (np.diff(numbers[order]) == 0) & (np.diff(rows[order]) == 0)
    if same.any():
        at = order[int(np.argmax(same))]
        raise InputError(f"{path}: row {rows[at]} scores label {labels[at]} twice")
