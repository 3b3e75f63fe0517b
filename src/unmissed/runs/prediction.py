"""Prediction: the rows of a file through a run in batches, and the ranking on disk for programs and for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.data import load, read_texts
from unmissed.data.npz import read_matrix
from unmissed.data.sources import holds_text
from unmissed.data.streams import write_stream
from unmissed.errors import InputError
from unmissed.matrices import check_X
from unmissed.progress import Progress, silent
from unmissed.ranking import Ranking
from unmissed.runs.run import Run

BATCH = 4096  # rows ranked at a time
_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # what would end a field or a line


def read_rows(
    run: Run,
    path: str | os.PathLike[str],
    *,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> Any:
    """Read what is to be ranked: texts from JSON lines, features from any other form; labels need not be there."""
    if str(path).lower().endswith(".npz") and "," not in str(path):
        X, names = check_X(read_matrix(path)), None
    elif holds_text(path):
        if run.text is None:
            raise InputError(f"{path}: holds texts, but {run.folder} was not trained on text")
        return read_texts(path, progress)
    else:
        dataset = load(path, header=header, one_based=one_based, progress=progress)
        X, names = dataset.X, dataset.feature_names
        if not header and X.shape[1] < run.n_features:  # without a header the last features may simply not occur
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], run.n_features))
    if X.shape[1] != run.n_features:
        raise InputError(f"{path}: has {X.shape[1]} features; {run.folder} was trained on {run.n_features}")
    if names is not None and run.feature_names is not None and names != run.feature_names:
        raise InputError(f"{path}: its features have other names than those that {run.folder} was trained on")
    return X


def predict(run: Run, rows: Any, k: int = 5, *, batch: int = BATCH, progress: Progress = silent) -> Ranking:
    """Return the k best labels of each row, ranked in batches, so that memory does not grow with the rows."""
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1")
    n_samples = int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)
    labels = np.full((n_samples, k), -1, dtype=np.int32)
    scores = np.full((n_samples, k), -np.inf, dtype=np.float32)
    for first in range(0, n_samples, batch):
        part = run.rank(rows[first : first + batch], k)
        labels[first : first + batch], scores[first : first + batch] = part.labels, part.scores
        progress(min(first + batch, n_samples), n_samples)
    return Ranking(labels, scores)


def write_ranking(run: Run, ranking: Ranking, out: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a ranking as `OUT.npz` for programs and `OUT.tsv` for people; `out` may end in either suffix."""
    out = Path(out)
    stem = out.with_suffix("") if out.suffix.lower() in (".npz", ".tsv") else out
    npz, tsv = stem.with_name(f"{stem.name}.npz"), stem.with_name(f"{stem.name}.tsv")
    npz.parent.mkdir(parents=True, exist_ok=True)
    with write_stream(tsv) as stream:
        for line in ranking_lines(run, ranking):
            stream.write(f"{line}\n".encode())
    ranking.save(npz)
    return npz, tsv


def ranking_lines(run: Run, ranking: Ranking) -> Iterator[str]:
    """Give a tab-separated table: row (from 0), rank (from 1), label, its readable name where there is one, score."""
    names, titles = run.label_names, run.label_titles
    yield "\t".join(["row", "rank", "label", *(["name"] if titles else []), "score"])
    for row, (labels, scores) in enumerate(zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)):
        for rank, (label, score) in enumerate(zip(labels, scores, strict=True), start=1):
            if label < 0:
                break
            name = names[label].translate(_BREAKS) if names else str(label)
            title = [titles[label].translate(_BREAKS)] if titles else []
            yield "\t".join([str(row), str(rank), name, *title, f"{score:.6g}"])
