"""What the method lexical, and an ensemble with it, find of labels that have no training row.

    python -m benchmarks.lexical TRAIN TEST VOCABULARY [--rows 5000] [--test-rows 3000] [--stemmer german]

A sample of the rows of TRAIN is trained on: by PW-DiSMEC without a vocabulary, by PW-DiSMEC with --all-concepts, by
lexical, and by an ensemble of the last two, whose weights are chosen on held-out training rows. Each is measured on a
sample of TEST with all its labels that the vocabulary has.

Printed: the weights of the ensemble, and per method P@1, P@5, recall@10 and the recall of unseen labels among the best
10: the fraction of the assignments of labels without a training row; differences to PW-DiSMEC with paired 95 %
intervals over test rows.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from unmissed.data import TextFeatures, load, read_vocabulary
from unmissed.data.documents import Documents
from unmissed.data.readers.json_lines import JsonLines
from unmissed.metrics import compare, evaluate
from unmissed.models import Ensemble, Lexical, PWDiSMEC

CUTS = (1, 5, 10)
FIGURES = ("P@1", "P@5", "recall@10")
RESAMPLES = 1000


def sample(source: str, n_rows: int, target: Path) -> Path:
    """Write a sample of documents as JSON lines and return their path."""
    rows = [document for _, document in Documents(source).read(["text", "labels"])]
    chosen = np.random.default_rng(0).permutation(len(rows))[:n_rows]
    JsonLines().write_documents(({"text": rows[one]["text"], "labels": rows[one]["labels"]} for one in chosen), target)
    return target


def unseen_hits(ranking: Any, Y: Any, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hits among unseen labels and the number of assignments of unseen labels of each row."""
    labels = np.maximum(ranking.labels, 0)
    rows = np.repeat(np.arange(Y.shape[0]), labels.shape[1])
    right = np.asarray(Y[rows, labels.ravel()]).reshape(labels.shape) * (ranking.labels >= 0) * unseen[labels]
    return right.sum(axis=1), np.asarray(Y @ unseen.astype(np.float32)).ravel()


def interval(hits: np.ndarray, others: np.ndarray, of: np.ndarray) -> tuple[float, float]:
    """Return the paired 95 % interval of a difference of recalls over resampled rows."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(of), (RESAMPLES, len(of)))
    differences = [(hits[one].sum() - others[one].sum()) / of[one].sum() for one in draws]
    return tuple(np.percentile(differences, [2.5, 97.5]))


def report(plain: tuple[Any, Any], train: Any, test: Any) -> None:
    """Train the models and print a line for each; `plain` has train and test rows without a vocabulary."""
    unseen = train.label_counts == 0
    print(
        f"{train.n_samples:,} training rows, {int((~unseen).sum()):,} labels with rows, {int(unseen.sum()):,} without"
    )
    print(f"{test.n_samples:,} test rows, {test.Y.nnz:,} assignments, {int(test.Y[:, unseen].nnz):,} of unseen labels, "
          f"{len(np.unique(test.Y[:, unseen].indices)):,} different ones")  # fmt: skip
    linear, lexical = PWDiSMEC().fit(train), Lexical().fit(train)
    both = Ensemble.of([linear, lexical]).fit(train)
    print(
        "weights",
        both.weights_.round(2).tolist(),
        {name: round(gain[0], 4) for name, gain in both.choice_["gains"].items()},
    )
    found = {"PW-DiSMEC, unseen labels": linear, "lexical": lexical, "ensemble": both}
    rankings = {"PW-DiSMEC": PWDiSMEC().fit(plain[0]).rank(plain[1].X, CUTS[-1])}  # its labels are the first ones
    assert train.label_names[: plain[0].n_labels] == plain[0].label_names
    rankings |= {name: model.rank(test.X, CUTS[-1]) for name, model in found.items()}
    measured = {name: evaluate(one, test.Y, None, CUTS) for name, one in rankings.items()}
    hits = {name: unseen_hits(one, test.Y, unseen) for name, one in rankings.items()}
    for name in rankings:
        cells = []
        gains = compare(measured[name], measured["PW-DiSMEC"], RESAMPLES)
        for figure in FIGURES:
            one = gains[figure]
            cells.append(f"{figure} {100 * measured[name][figure]:.2f} "
                         f"({100 * one.value:+.2f} [{100 * one.low:+.2f}, {100 * one.high:+.2f}])")  # fmt: skip
        own, of = hits[name]
        low, high = interval(own, hits["PW-DiSMEC"][0], of)
        cells.append(f"unseen R@10 {100 * own.sum() / of.sum():.2f} [{100 * low:+.2f}, {100 * high:+.2f}]")
        print(name, "|", " | ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("vocabulary")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--test-rows", type=int, default=3000)
    parser.add_argument("--stemmer")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = read_vocabulary(given.vocabulary)
        path = sample(given.train, given.rows, Path(folder) / "train.jsonl")
        train = load(path, text=TextFeatures(stemmer=given.stemmer), vocabulary=vocabulary, unseen=True)
        target = sample(given.test, given.test_rows, Path(folder) / "test.jsonl")
        test = load(target, like=train)
        without = load(path, text=TextFeatures(stemmer=given.stemmer))
        plain = without, load(target, like=without)
    report(plain, train, test)


if __name__ == "__main__":
    main()
