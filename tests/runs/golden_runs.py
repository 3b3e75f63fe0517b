"""Writes the tiny runs in `formats/` that do not exist yet; existing ones are never written again.

Run `python -m tests.runs.golden_runs` after a new family of methods, or a new version of the format. A run that changes
is a broken promise (docs/stability.md), so there is no option that replaces one.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp

from tests.runs.corpora import write_texts
from unmissed.data import Dataset, load
from unmissed.features import Features
from unmissed.ranking import Ranking
from unmissed.runs import calibrate, open_run, train

FORMATS = Path(__file__).parent / "formats"
TEXTS = ["cod quota net cod", "cheese and milk", "appeal to the court"]
SPARSE = [[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]]
DENSE = [[0.5, -1.0], [-0.25, 0.75], [1.0, 0.0]]
PARAMS: dict[str, dict[str, Any]] = {
    "pw-dismec": {"block_size": 2},
    "logistic": {},
    "slice": {"n_negatives": 4},
    "parabel": {"n_trees": 1, "max_leaf": 2},
    "fastxml": {"n_trees": 1},
    "pfastrexml": {"n_trees": 1},
    "leml": {"n_components": 2},
    "sleec": {"n_learners": 1, "n_components": 2},
    "pd-sparse": {},
    "neural": {"n_hidden": 2, "max_epochs": 1},
    "lexical": {},
    "popularity": {},
    "ensemble": {"members": ("dismec", "popularity")},
}


def texts(folder: Path) -> Dataset:
    """Return a data set of texts that names no file."""
    read = load(write_texts(folder / "train.jsonl"))
    return Dataset(read.X, read.Y, label_names=read.label_names, text=read.text)


def train_texts(method: str) -> Callable[[Path, Path], None]:
    """Return a function that trains a method on texts."""
    return lambda path, scratch: train(method, texts(scratch), path, PARAMS[method]) and None


def train_calibrated(path: Path, scratch: Path) -> None:
    """Train and calibrate a run."""
    data = texts(scratch)
    train("pw-dismec", data, path, PARAMS["pw-dismec"])
    calibrate(path, old_rows=[data])


def train_mixed(path: Path, scratch: Path) -> None:
    """Train on sparse and dense features."""
    X, dense = np.tile(SPARSE, (4, 1)), np.tile(DENSE, (4, 1)).astype(np.float32)
    Y = sp.csr_matrix(np.tile(np.eye(3, dtype=np.float32), (4, 1)))
    train("dismec", Dataset(sp.csr_matrix(X, dtype=np.float32), Y, dense=dense), path)


RUNS: dict[str, dict[str, Callable[[Path, Path], None]]] = {
    "version1": {**{method: train_texts(method) for method in PARAMS}, "calibrated": train_calibrated},
    "version2": {"mixed": train_mixed},
}


def rank(path: Path) -> Ranking:
    """Return the 3 best labels of the rows that every golden run ranks."""
    run = open_run(path)
    if run.recipe.text is None:
        return run.rank(Features(sp.csr_matrix(SPARSE, dtype=np.float32), np.array(DENSE, np.float32)), 3)
    return run.rank(TEXTS, 3)


def describe(ranking: Ranking) -> dict[str, Any]:
    """Return what a ranking must be again."""
    found = {"labels": ranking.labels.tolist(), "scores": ranking.scores.tolist()}
    if ranking.probabilities is not None:
        found["probabilities"] = ranking.probabilities.tolist()
    return found


def main() -> None:
    for version, runs in RUNS.items():
        expected_file = FORMATS / version / "expected.json"
        expected = json.loads(expected_file.read_text()) if expected_file.exists() else {}
        for name, write in runs.items():
            path = FORMATS / version / name
            if path.exists():
                continue
            with TemporaryDirectory() as scratch:
                write(path, Path(scratch))
            expected[name] = describe(rank(path))
            sys.stdout.write(f"{path}\n")
        expected_file.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
