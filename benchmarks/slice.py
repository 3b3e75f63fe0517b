"""Slice beside DiSMEC on fixed embeddings: gap to the problem on all rows, quality, and processor time.

    python -m benchmarks.slice gap DATA [--set eurlex57k] [--labels 256]
    python -m benchmarks.slice quality DATA [--set eurlex57k] [--cache DIR] [--keep DIR] [--models DiSMEC Slice HNSW]

Both read the embeddings minilm_train.npy and minilm_test.npy of the data set. gap trains a random part of the labels
with numbers of searches and of near negatives, which training rows decide: it prints processor time per label and the
relative gap on all rows, over all labels and in the median. quality trains all labels, ranks the test rows, and prints
paired 95 % intervals of the differences to DiSMEC. Run both with NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from unmissed import DiSMEC, Slice
from unmissed.metrics import Evaluation, compare, evaluate
from unmissed.models.linear.slice import sampled_solver
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
Floats = npt.NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["gap", "quality"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", default="eurlex57k")
    parser.add_argument("--labels", type=int, default=256)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--models", nargs="+", default=["DiSMEC", "Slice", "1 search", "without the pass"])
    options = parser.parse_args()
    corpus = load_corpus(options.data / options.set, options.cache)
    X, X_test = (np.load(options.data / options.set / f"minilm_{part}.npy") for part in ("train", "test"))
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    DiSMEC(n_jobs=1).fit(X[:2000], corpus.Y[:2000, :200])  # compiles
    Slice(n_jobs=1).fit(X[:2000], corpus.Y[:2000, :200])
    if options.verb == "gap":
        gap(X, corpus.Y, options.labels)
    else:
        quality(X, X_test, corpus, options.keep, options.models)


def timed(model: Any, X: Floats, Y: Any) -> float:
    """Fit a model; return the processor time in seconds."""
    begin = time.process_time()
    model.fit(X, Y)
    return time.process_time() - begin


def gap(X: Floats, Y: Any, n_labels: int) -> None:
    chosen = np.sort(np.random.default_rng(0).choice(Y.shape[1], n_labels, replace=False))
    part = sp.csr_matrix(Y[:, chosen])
    print(f"DiSMEC | {1000 * timed(DiSMEC(n_jobs=1), X, part) / n_labels:.1f} ms per label")
    for per_positive in (1, 4):
        sampled_solver._PER_POSITIVE = per_positive
        for n_searches in (1, 2, 3):
            model = Slice(n_searches=n_searches, n_jobs=1)
            seconds, found = timed(model, X, part), model.metadata()
            shown = f"{found['relative gap on all rows']:.4f}, median {found['median gap on all rows']:.6f}"
            print(f"{n_searches} searches, {per_positive} per positive | {1000 * seconds / n_labels:.1f} ms | {shown}")


MODELS: dict[str, Any] = {
    "DiSMEC": DiSMEC(n_jobs=1),
    "Slice": Slice(n_jobs=1),
    "random negatives": Slice(n_searches=0, n_jobs=1),
    "1 search": Slice(n_searches=1, n_jobs=1),
    "2 searches": Slice(n_searches=2, n_jobs=1),
    "without the pass": Slice(full_pass=False, n_jobs=1),
    "HNSW": Slice(search="hnsw", n_jobs=1),
}


def quality(X: Floats, X_test: Floats, corpus: Any, keep: Path | None, names: list[str]) -> None:
    inverse = 1 / Jain().estimate(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.Y.shape[0])
    found: dict[str, Evaluation] = {}
    for name in names:
        model = MODELS[name]
        kept = None if keep is None else keep / f"slice-{name.replace(' ', '-')}.npz"
        if kept is not None and kept.is_file():
            ranking, note = Ranking.load(kept), kept.with_suffix(".txt").read_text()
        else:
            seconds = timed(model, X, corpus.Y)
            ranking, gaps = model.rank(X_test, 5), model.metadata()
            shown = {title: gaps[title] for title in gaps if "gap" in title}
            note = f"{seconds:.1f} s, converged {1 - len(model.certificate().missed) / corpus.Y.shape[1]:.4f}, {shown}"
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.with_suffix(".txt").write_text(note)
                ranking.save(kept)
        found[name] = evaluate(ranking, corpus.Y_test, inverse)
        print(f"{name} | {' | '.join(f'{100 * found[name][one]:.2f}' for one in COLUMNS)} | {note}", flush=True)
        if name != "DiSMEC" and "DiSMEC" in found:
            apart = compare(found[name], found["DiSMEC"])
            for column in ("P@1", "P@5", "PSP@5"):
                print("  {} {:+.2f} [{:+.2f}, {:+.2f}]".format(column, *(100 * one for one in apart[column][:3])))


if __name__ == "__main__":
    main()
