"""Networks with five losses for missing labels, compared with DiSMEC and PW-DiSMEC, and the memory of a training.

    python -m benchmarks.networks quality DATA [--sets bibtex ...] [--cache DIR] [--keep DIR] [--tries 1]
        [--epochs 30] [--no-refit]
    python -m benchmarks.networks memory [--labels 670000] [--hidden 128]

quality trains each loss with the first --tries of the settings below, keeps the one with the highest PSP@5 on a
held-out tenth of the training rows, trains again on all rows for the number of epochs found there (unless --no-refit),
and prints figures of the test rows and seconds of processor time; then the differences to DiSMEC and PW-DiSMEC with
paired 95 % intervals.
`--keep` keeps rankings, so that a second call goes on. memory trains 20 batches of 256 rows on made-up data in a
process of its own, and prints the largest memory that it used.
"""

import argparse
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import Corpus, load_corpus
from unmissed.metrics import Evaluation, compare, evaluate
from unmissed.models import NeuralXMC, make_model
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
LOSSES: dict[str, dict[str, Any]] = {
    "plain BCE": {"loss": "logistic", "correction": "none"},
    "naive BCE": {"loss": "logistic", "correction": "naive"},
    "unbiased BCE": {"loss": "logistic", "correction": "unbiased"},
    "non-negative BCE": {"loss": "logistic", "correction": "non-negative"},
    "convex squared hinge": {"loss": "squared-hinge", "correction": "convex"},
}
LINEAR = ("dismec", "pw-dismec")
TRIES: list[dict[str, Any]] = [
    {},
    {"learning_rate": 1e-3, "dropout": 0.5},
    {"learning_rate": 1e-3},
    {"dropout": 0.5},
]
"""Settings that are compared on held-out training rows, beside the defaults."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    quality_options = verbs.add_parser("quality")
    quality_options.add_argument("data", type=Path)
    quality_options.add_argument("--sets", nargs="+", default=["bibtex", "debtags", "eurlex57k"])
    quality_options.add_argument("--methods", nargs="+", default=[*LINEAR, *LOSSES])
    quality_options.add_argument("--cache", type=Path)
    quality_options.add_argument("--keep", type=Path)
    quality_options.add_argument("--tries", type=int, default=1)
    quality_options.add_argument("--epochs", type=int, default=30)
    quality_options.add_argument("--no-refit", action="store_true")
    memory_options = verbs.add_parser("memory")
    memory_options.add_argument("--labels", type=int, default=670_000)
    memory_options.add_argument("--hidden", type=int, default=128)
    options = parser.parse_args()
    if options.verb == "memory":
        memory(options.labels, options.hidden)
        return
    for name in options.sets:
        corpus = load_corpus(options.data / name, options.cache)
        tries = [{"max_epochs": options.epochs, **one} for one in TRIES[: options.tries]]
        quality(name, corpus, options.methods, tries, options.keep, not options.no_refit)


def quality(
    name: str, corpus: Corpus, methods: list[str], tries: list[dict[str, Any]], keep: Path | None, refit: bool
) -> None:
    inverse = 1 / Jain().estimate(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.Y.shape[0])
    found: dict[str, Evaluation] = {}
    for method in methods:
        kept = None if keep is None else keep / f"{name}-{method.replace(' ', '-')}.npz"
        if kept is not None and kept.is_file():
            ranking, note = Ranking.load(kept), kept.with_suffix(".txt").read_text()
        else:
            ranking, note = train(method, corpus, tries, refit)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.with_suffix(".txt").write_text(note)
                ranking.save(kept)
        found[method] = evaluate(ranking, corpus.Y_test, inverse)
        shown = " | ".join(f"{100 * found[method][column]:.2f}" for column in COLUMNS)
        print(f"{name} | {method} | {shown} | {note}", flush=True)
    for method in methods:
        for other in LINEAR:
            if method in LOSSES and other in found:
                apart = compare(found[method], found[other])
                points = {column: [100 * value for value in apart[column][:3]] for column in ("P@1", "P@5", "PSP@5")}
                shown = ", ".join("{} {:+.2f} [{:+.2f}, {:+.2f}]".format(one, *points[one]) for one in points)
                print(f"{name} | {method} - {other}: {shown}", flush=True)


def train(method: str, corpus: Corpus, tries: list[dict[str, Any]], refit: bool) -> tuple[Ranking, str]:
    """Return the ranking of the test rows, and a note on settings and processor time."""
    begin = time.process_time()
    if method in LINEAR:
        model: Any = make_model(method, {}).fit(corpus.X, corpus.Y)
        note = ""
    else:
        candidates = [NeuralXMC(**LOSSES[method], **params).fit(corpus.X, corpus.Y) for params in tries]
        scores = [one.pieces_.get("network").metadata["best_score"] for one in candidates]
        best = int(np.argmax(scores))
        model = candidates[best]
        if refit:
            params = {**LOSSES[method], **tries[best], "max_epochs": model.epochs_}
            model = NeuralXMC(**params, validation_fraction=0.0).fit(corpus.X, corpus.Y)
        note = f"{json.dumps(tries[best])}, {model.epochs_} epochs, held-out PSP@5 {100 * scores[best]:.2f}, "
    return model.rank(corpus.X_test, 5), f"{note}{time.process_time() - begin:.0f} s of processor time"


def memory(n_labels: int, n_hidden: int, n_features: int = 135_909) -> None:
    """Print the peak memory of 20 training steps, in a process that does nothing else."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        before, after, seconds = pool.apply(_use_memory, (n_labels, n_hidden, n_features))
    weights = 4 * n_hidden * (n_labels + n_features)
    print(
        f"{n_labels:,} labels, {n_features:,} features, {n_hidden} hidden units, batches of 256: peak memory "
        f"{after / 1e9:.2f} GB, of it {before / 1e9:.2f} GB before training; weights {weights / 1e9:.2f} GB, and twice "
        f"as much for Adam; {seconds / 20:.2f} s per batch"
    )


def _use_memory(n_labels: int, n_hidden: int, n_features: int) -> tuple[int, int, float]:
    rng = np.random.default_rng(0)
    n_samples = 20 * 256
    X = _random_rows(n_samples, n_features, 75, rng)
    Y = _random_rows(n_samples, n_labels, 5, rng)
    Y.data[:] = 1
    import torch  # noqa: F401, its own memory is part of what is there before

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin = time.perf_counter()
    NeuralXMC(n_hidden=n_hidden, max_epochs=1, batch_size=256, validation_fraction=0.0, n_jobs=1).fit(X, Y)
    seconds = time.perf_counter() - begin
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, seconds


def _random_rows(n_samples: int, n_columns: int, per_row: int, rng: np.random.Generator) -> sp.csr_matrix:
    columns = rng.integers(0, n_columns, n_samples * per_row)
    data = rng.random(n_samples * per_row, np.float32) + np.float32(0.1)
    matrix = sp.csr_matrix((data, columns, np.arange(n_samples + 1) * per_row), (n_samples, n_columns))
    matrix.sum_duplicates()
    return matrix


if __name__ == "__main__":
    main()
