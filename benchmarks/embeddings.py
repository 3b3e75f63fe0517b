"""LEML and SLEEC: metrics compared with DiSMEC, neighbor overlap of the embeddings, and nearest-neighbor search.

    python -m benchmarks.embeddings quality DATA [--sets bibtex ...] [--methods leml ...] [--cache DIR] [--keep DIR]
    python -m benchmarks.embeddings overlap DATA [--sets bibtex ...] [--rows 5000] [--cache DIR]
    python -m benchmarks.embeddings search [--sizes 6000 45000]

quality trains each method with the settings below, found by a grid search on a held-out tenth of the training
rows, and prints figures of the test rows, time (of the clock, and of all threads together) and rows ranked per second
of a thread; then, per figure, the difference to DiSMEC with its paired interval of 95 %. `--keep` keeps rankings, so
that a second call goes on. overlap prints which share of the 25 rows nearest in an embedding are among the nearest by
labels. search times the exact kernel beside the libraries that are installed, one thread each.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import Corpus, load_corpus
from unmissed.execution import Threads
from unmissed.metrics import compare, evaluate
from unmissed.models import make_model
from unmissed.models.embeddings.sleec.solver import neighbor_pairs, normalize_labels, project
from unmissed.models.factor_products import FactorTiles
from unmissed.models.neighbor_search import normalize_rows
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "bibtex": {
        "leml": {"n_components": 159, "penalty": 2.0},
        "leml-unbiased": {"n_components": 159, "penalty": 5.0},
        "sleec": {},
    },
    "delicious": {
        "leml": {"penalty": 5.0},
        "leml-unbiased": {"penalty": 5.0},
        "sleec": {"votes": 25, "penalty": 4.0},
    },
    "debtags": {"leml": {"penalty": 10.0}, "leml-unbiased": {}, "sleec": {"penalty": 8.0}},
    "eurlex57k": {"leml": {"penalty": 10.0}, "leml-unbiased": {}, "sleec": {"votes": 15}},
    "tibkat": {"leml": {"penalty": 10.0}, "leml-unbiased": {}, "sleec": {"votes": 15}},
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "dismec": ("dismec", {}),
    "pw-dismec": ("pw-dismec", {"weighting": "tail"}),
    "leml": ("leml", {}),
    "leml-unbiased": ("leml", {"weighting": "unbiased"}),
    "sleec": ("sleec", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("quality", "overlap"):
        one = verbs.add_parser(verb)
        one.add_argument("data", type=Path)
        one.add_argument("--sets", nargs="+", default=list(SETTINGS))
        one.add_argument("--cache", type=Path)
        one.add_argument("--keep", type=Path)
        one.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
        one.add_argument("--rows", type=int, default=5000)
    verbs.add_parser("search").add_argument("--sizes", nargs="+", type=int, default=[6000, 45_000])
    options = parser.parse_args()
    if options.verb == "search":
        search(options.sizes)
        return
    for name in options.sets:
        corpus = load_corpus(options.data / name, options.cache)
        if options.verb == "quality":
            quality(name, corpus, options.methods, options.keep)
        else:
            overlap(name, corpus, options.rows)


def quality(name: str, corpus: Corpus, methods: list[str], keep: Path | None) -> None:
    inverse = 1 / Jain().estimate(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.Y.shape[0])
    found = {}
    for title in methods:
        kept = None if keep is None else keep / f"{name}-{title}.npz"
        if kept is not None and kept.is_file():
            ranking, note = Ranking.load(kept), "kept"
        else:
            ranking, note = _train(name, title, corpus)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                ranking.save(kept)
        found[title] = evaluate(ranking, corpus.Y_test, inverse)
        shown = " ".join(f"{100 * found[title][column]:6.2f}" for column in COLUMNS)
        print(f"{name:10} {title:14} {shown}  {note}", flush=True)
    for title in methods:
        if title != "dismec" and "dismec" in found:
            apart = compare(found[title], found["dismec"])
            points = {column: [100 * value for value in apart[column][:3]] for column in COLUMNS}
            shown = ", ".join("{} {:+.2f} ({:+.2f} to {:+.2f})".format(column, *points[column]) for column in COLUMNS)
            print(f"{name:10} {title} - dismec: {shown}", flush=True)


def _train(name: str, title: str, corpus: Corpus) -> tuple[Ranking, str]:
    method, params = METHODS[title]
    model = make_model(method, {**params, **SETTINGS[name].get(title, {})})
    clock, threads = time.perf_counter(), time.process_time()
    model.fit(corpus.X, corpus.Y)
    note = f"trained in {time.perf_counter() - clock:.0f} s, threads' {time.process_time() - threads:.0f} s"
    threads = time.process_time()
    ranking = model.rank(corpus.X_test, 5)
    return (
        ranking,
        f"{note}; {corpus.X_test.shape[0] / (time.process_time() - threads):,.0f} rows/s; {model.metadata()}",
    )


def overlap(name: str, corpus: Corpus, n_rows: int, rank: int = 100, k: int = 25) -> None:
    """Print which share of the k rows nearest in an embedding are as near by labels as the k-th nearest row is."""
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(corpus.Y.shape[0])[:n_rows])
    Y = normalize_labels(sp.csr_matrix(corpus.Y[chosen], dtype=np.float32))
    left, values, _ = sp.linalg.svds(Y.astype(np.float64), k=min(rank, min(Y.shape) - 1), rng=rng)
    embeddings = {
        "SLEEC": project(neighbor_pairs(Y, 100), rank, 30, rng)[0],
        "truncated SVD of Y": left * values,
        "chance": rng.standard_normal((len(chosen), rank)),
    }
    for title, embedded in embeddings.items():
        print(f"{name:10} {title:20} {100 * _overlap(Y, np.asarray(embedded, np.float32), k):6.2f} %", flush=True)


def _overlap(Y: sp.csr_matrix, embedded: Any, k: int) -> float:
    embedded = normalize_rows(embedded)
    nearest, _ = FactorTiles(embedded).largest(embedded, k + 1, Threads())
    shares = []
    for row, found in enumerate(nearest):
        similar = np.asarray((Y @ Y[row].T).todense()).ravel()
        similar[row] = -1
        if similar.max() > 0:
            kth = max(np.partition(similar, -k)[-k], 1e-6)
            others = found[found != row][:k]
            shares.append(np.mean(similar[others] >= kth - 1e-6))
    return float(np.mean(shares))


def search(sizes: list[int], rank: int = 100, k: int = 25, n_queries: int = 4000) -> None:
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((300, rank))
    for size in sizes:
        rows, queries = (
            normalize_rows((centers[rng.integers(0, 300, n)] + 0.7 * rng.standard_normal((n, rank))).astype(np.float32))
            for n in (size, n_queries)
        )
        FactorTiles(rows[:100]).largest(queries[:2], k, Threads(1))  # compiled
        exact, seconds = _timed(lambda rows=rows, queries=queries: FactorTiles(rows).largest(queries, k, Threads(1))[0])
        print(f"{size:6} exact kernel              {n_queries / seconds:8,.0f} rows/s", flush=True)
        for title, search, built in _libraries(rows, k):
            found, seconds = _timed(lambda search=search, queries=queries: search(queries))
            recall = np.mean([len(set(one) & set(other)) / k for one, other in zip(found, exact, strict=True)])
            note = f"{n_queries / seconds:8,.0f} rows/s, made in {built:.1f} s, finds {100 * recall:.2f} %"
            print(f"{size:6} {title:25} {note}", flush=True)


def _libraries(rows: Any, k: int) -> list[tuple[str, Callable[[Any], Any], float]]:
    """Return what is installed, each with how to search it and the seconds that its index took."""
    searches: list[tuple[str, Callable[[Any], Any], float]] = []
    try:
        import faiss
    except ImportError:
        print("       faiss is not installed")
    else:
        faiss.omp_set_num_threads(1)
        graph = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = 100
        built = _timed(lambda: graph.add(rows))[1]
        for width in (50, 100):
            wanted = faiss.SearchParametersHNSW(efSearch=width)
            searches.append(
                (f"faiss graph, {width} looked at", lambda q, w=wanted: graph.search(q, k, params=w)[1], built)
            )
    try:
        import pynndescent
    except ImportError:
        print("       pynndescent is not installed")
    else:
        index = pynndescent.NNDescent(rows[:500], metric="cosine", random_state=0, n_jobs=1)
        index.query(rows[:2], k)  # compiled
        index, built = _timed(lambda: pynndescent.NNDescent(rows, metric="cosine", random_state=0, n_jobs=1))
        built += _timed(index.prepare)[1]
        searches.append(("pynndescent", lambda q: index.query(q, k)[0], built))
    return searches


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    return work(), time.process_time() - begin


if __name__ == "__main__":
    main()
