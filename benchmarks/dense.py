"""Train labels on dense and on mixed features, on one thread; peers take turns.

    python -m benchmarks.dense [--rows 80000] [--labels 500] [--turns 3]
    python -m benchmarks.dense --embeddings E.npy --data DATA/debtags [--labels 256] [--cache DIR]

The first form draws embeddings of 384 numbers. Beside our time it shows one pass by BLAS, X @ W of 64 labels in
float32, per label; LIBLINEAR and scikit-learn, which train a few of the labels; and a linear head of PyTorch with
binary cross-entropy, which trains all labels together (ten epochs of Adam) and reaches no stated accuracy.

The second form reads embeddings of the training texts, float16 or float32, and trains on TF-IDF, on embeddings and on
both. Times are processor time per label; the layout of X is not counted.

Both forms first print the peak memory of `DiSMEC().fit` on one thread, as a multiple of X and W: X itself, and what the
resident memory of a process of its own grows by while it trains. --turns 0 prints only that.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.corpora import load_corpus
from benchmarks.rivals import linear_svm
from benchmarks.training import draw_embeddings, spread
from unmissed.features import Features
from unmissed.models import DiSMEC
from unmissed.numerics.simd import LANES
from unmissed.numerics.workspace import free_workspaces

FEW = 8  # labels that a slow peer trains
Positives = list[np.ndarray]
Peer = Callable[[Features, Positives], float]  # milliseconds per label


def blas_pass(X: Features, positives: Positives) -> float:
    """Nothing is learned: the scores of all rows under LANES labels."""
    W = np.random.default_rng(0).standard_normal((X.n_dense, LANES)).astype(np.float32)
    begin = time.process_time()
    X.dense @ W
    return 1e3 * (time.process_time() - begin) / LANES


def ours(X: Features, positives: Positives) -> float:
    """Our solver at a relative duality gap of 0.001; all labels must be certified."""
    trained = linear_svm.ours(X, positives, 1e-3)
    assert trained.certified == len(positives)
    return 1e3 * trained.seconds / len(positives)


def rival(train: Callable[..., linear_svm.Trained], X: Features, positives: Positives) -> float:
    """A peer that solves label by label."""
    return 1e3 * train(X.csr, positives[:FEW]).seconds / FEW


def torch_head(X: Features, positives: Positives, epochs: int = 10, batch: int = 256) -> float:
    """A linear layer trained on all labels with binary cross-entropy."""
    import torch

    torch.set_num_threads(1)
    rows, Y = torch.from_numpy(X.dense), torch.zeros(X.shape[0], len(positives))
    for label, found in enumerate(positives):
        Y[torch.from_numpy(found.astype(np.int64)), label] = 1
    head = torch.nn.Linear(X.n_dense, len(positives))
    optimizer = torch.optim.Adam(head.parameters(), 1e-2)
    begin = time.process_time()
    for _ in range(epochs):
        for part in torch.randperm(len(rows)).split(batch):
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(head(rows[part]), Y[part]).backward()
            optimizer.step()
    return 1e3 * (time.process_time() - begin) / len(positives)


def peak_memory(load: Callable[[], tuple[Features, Any]]) -> tuple[float, float]:
    """Peak memory of training in multiples of X and W, and the MiB of X and W, on Linux."""
    X, Y = load()
    DiSMEC(n_jobs=1).fit(X, Y[:, : 2 * LANES])  # compiles; the code of a kernel takes memory, too
    free_workspaces(0)
    _return_free_memory()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    shards = DiSMEC(n_jobs=1).fit(X, Y).shards_
    grown = _memory("VmHWM") - before
    n_bytes = sum(array.nbytes for shard in shards for array in (shard.features, shard.starts, shard.labels))
    n_bytes += sum(array.nbytes for shard in shards for array in (shard.weights, shard.dense))
    of_X = X.dense.nbytes
    if X.sparse is not None:
        of_X += X.sparse.data.nbytes + X.sparse.indices.nbytes + X.sparse.indptr.nbytes
    return (grown + of_X) / (of_X + n_bytes), (of_X + n_bytes) / 2**20


def show_memory(load: Callable[[], tuple[Features, Any]]) -> None:
    """Print the peak memory of training in a process of its own, on Linux."""
    if Path("/proc/self/clear_refs").exists():
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            ratio, size = process.submit(peak_memory, load).result()
        print(f"peak memory of training: {ratio:.2f} times X and W, which take {size:.0f} MiB", flush=True)


def _return_free_memory() -> None:
    """Return freed memory to the system where the C library can: training could use it again, uncounted."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _memory(name: str) -> int:
    """Bytes of memory of this process, by the kernel's name."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def take_turns(peers: dict[str, tuple[Peer, Features]], positives: Positives, turns: int, unit: str) -> None:
    """Let all peers train in turn; print their times and how many times the unit that is."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(turns + 1):  # the first turn compiles
        for name, (peer, X) in peers.items():
            if turn or peer in (ours, blas_pass):
                ms = peer(X, positives)
                times[name] += [ms] if turn else []
    print(f"\n| system | ms per label | times {unit} |\n|---|---:|---:|")
    for name in peers:
        print(f"| {name} | {spread(times[name])} | {median(times[name]) / median(times[unit]):.1f} |")


def pick(Y: Any, n_labels: int) -> Positives:
    """The positives of some labels."""
    chosen = np.random.default_rng(7).permutation(Y.shape[1])[:n_labels]
    return [Y.indices[Y.indptr[label] : Y.indptr[label + 1]] for label in chosen]


def draw(n_rows: int, n_labels: int) -> tuple[Features, Any]:
    """Drawn embeddings and their labels."""
    X, Y = draw_embeddings(n_rows, n_labels=n_labels)
    return Features(None, X.toarray()), Y.tocsr()


def read(embeddings: Path, data: Path, cache: Path | None) -> tuple[Features, Any]:
    """TF-IDF and embeddings of the training rows of a data set, and their labels."""
    corpus = load_corpus(data, cache)
    return Features(corpus.X, np.load(embeddings).astype(np.float32)), corpus.Y


def dense_features(n_rows: int, n_labels: int, turns: int) -> None:
    """Drawn embeddings, beside the peers."""
    print(f"{n_rows} rows, {n_labels} labels, {turns} turns")
    show_memory(partial(draw, n_rows, n_labels))
    if not turns:
        return
    features, Y = draw(n_rows, n_labels)
    positives = pick(Y.tocsc(), n_labels)
    liblinear = partial(linear_svm.liblinear, "-s 1 -B 1 -e 0.1")
    peers: dict[str, Peer] = {
        "one BLAS pass": blas_pass,
        "unmissed, gap 0.001": ours,
        f"LIBLINEAR -s 1 -e 0.1 ({FEW} labels)": partial(rival, liblinear),
        f"scikit-learn LinearSVC ({FEW} labels)": partial(rival, linear_svm.scikit_learn),
        "PyTorch head, 10 epochs": torch_head,
    }
    take_turns({name: (peer, features) for name, peer in peers.items()}, positives, turns, "one BLAS pass")


def mixed_features(embeddings: Path, data: Path, cache: Path | None, n_labels: int, turns: int) -> None:
    """TF-IDF, embeddings and both, on the training rows of a data set."""
    show_memory(partial(read, embeddings, data, cache))
    if not turns:
        return
    X, Y = read(embeddings, data, cache)
    both, positives = X.normalized(), pick(Y.tocsc(), n_labels)
    print(f"{data.name}: {both.shape[0]} x {both.shape[1]}, {len(positives)} labels, {turns} turns")
    parts = {"TF-IDF": Features(both.sparse), "embeddings": Features(None, both.dense), "both": both}
    take_turns({name: (ours, X) for name, X in parts.items()}, positives, turns, "TF-IDF")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    if (options.embeddings is None) != (options.data is None):
        parser.error("--embeddings and --data belong together")
    with threadpool_limits(1):
        if options.data is None:
            dense_features(options.rows, options.labels, options.turns)
        else:
            mixed_features(options.embeddings, options.data, options.cache, options.labels, options.turns)


if __name__ == "__main__":
    main()
