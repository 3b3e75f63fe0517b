"""Small data for the tests of runs."""

import json
from pathlib import Path

import numpy as np

from unmissed.data import Dataset, make_corpus

PARAMS = {"block_size": 16, "n_jobs": 1}


def small_corpus(n_labels: int = 40, n_train: int = 300, seed: int = 0) -> tuple[Dataset, Dataset]:
    """A corpus of which a method's training takes a fraction of a second."""
    corpus = make_corpus(n_train, 50, n_labels, 400, words_per_row=20, rng=seed)
    return corpus.train, corpus.test


def write_texts(path: Path, n: int = 60, seed: int = 0, extra: str | None = None) -> Path:
    """JSON lines in which the words of a text tell its labels."""
    rng = np.random.default_rng(seed)
    topics = {"fish": ["cod", "net", "quota"], "law": ["court", "judge", "appeal"], "food": ["bread", "milk", "cheese"]}
    if extra is not None:
        topics[extra] = ["cod", "bread", "judge"]
    with open(path, "w", encoding="utf-8") as stream:
        for _ in range(n):
            labels = sorted(rng.choice(sorted(topics), size=rng.integers(1, 3), replace=False).tolist())
            words = [str(rng.choice(topics[label])) for label in labels for _ in range(4)] + ["the", "of"]
            stream.write(json.dumps({"text": " ".join(words), "labels": labels}) + "\n")
    return path


def tree_bytes(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but its locks."""
    return {
        entry.relative_to(folder).as_posix(): entry.read_bytes()
        for entry in sorted(folder.rglob("*"))
        if entry.is_file() and not entry.name.endswith(".lock")
    }
