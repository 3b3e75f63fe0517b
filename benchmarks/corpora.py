"""The features that the benchmarks share: scikit-learn's TF-IDF of the raw text, or binary L2-normalized rows."""

import argparse
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer, normalize

MAX_FEATURES = {"debtags": 30_000}


@dataclass(frozen=True)
class Corpus:
    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


def corpus_parser(description: str | None, sets: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the options of benchmarks that measure several data sets, or a part of their rows."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=sets)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rows", type=int)
    return parser


def choose_rows(n_samples: int, n_rows: int | None) -> np.ndarray:
    """Return a random part of the rows, ascending; all rows without a number."""
    if not n_rows or n_rows >= n_samples:
        return np.arange(n_samples)
    return np.sort(np.random.default_rng(0).choice(n_samples, n_rows, replace=False))


def load_corpus(folder: Path, cache: Path | None = None) -> Corpus:
    """Load a data set's train and test part; `cache` keeps the matrices between benchmarks."""
    kept = None if cache is None else cache / folder.name
    if kept is not None and kept.is_dir():
        corpus = Corpus(*(sp.load_npz(kept / f"{name}.npz") for name in ("X", "Y", "X_test", "Y_test")))
    else:
        corpus = _from_text(folder) if (folder / "train.jsonl.xz").is_file() else _from_xmc(folder)
    for matrix in (corpus.X, corpus.Y, corpus.X_test, corpus.Y_test):
        matrix.sum_duplicates()  # sorted rows, as `unmissed.data.load` gives them
    if kept is not None and not kept.is_dir():
        kept.mkdir(parents=True)
        for name in ("X", "Y", "X_test", "Y_test"):
            sp.save_npz(kept / f"{name}.npz", sp.csr_matrix(getattr(corpus, name)), compressed=False)
    return corpus


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], [row["labels"] for row in rows]


def _from_text(folder: Path) -> Corpus:
    texts, labels = _read(folder / "train.jsonl.xz")
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, min_df=3, max_features=MAX_FEATURES.get(folder.name, 100_000), dtype=np.float32
    )
    binarizer = MultiLabelBinarizer(sparse_output=True)
    X, Y = vectorizer.fit_transform(texts), binarizer.fit_transform(labels)
    texts, labels = _read(folder / "test.jsonl.xz")
    known = set(binarizer.classes_)
    Y_test = binarizer.transform([[label for label in row if label in known] for row in labels])
    return Corpus(X, Y, vectorizer.transform(texts), Y_test)


def _from_xmc(folder: Path) -> Corpus:
    from unmissed.data import load

    train, test = (load(folder / f"{part}.txt.gz") for part in ("train", "test"))
    return Corpus(normalize(train.X), train.Y, normalize(test.X), test.Y)
