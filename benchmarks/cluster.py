"""Speedup and overhead of many workers, and accuracy of `unmissed plan`.

    python -m benchmarks.cluster speed STORE [--labels 2048] [--repeats 3]
    python -m benchmarks.cluster plan STORE [--blocks 8] [--sample 1024]

The first trains the same labels on one and two threads and on one and two worker processes of a cluster, in turns, and
prints wall and processor seconds, the ratios, whether all left the same bytes, and the driver's memory. The second
plans a training, then trains some of its real blocks (all with --blocks 0) on one thread and compares processor time,
disk and memory.
"""

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unmissed.data import Dataset, open_store, write_store
from unmissed.execution import Dask, Threads, Work
from unmissed.models import PWDiSMEC
from unmissed.runs import train
from unmissed.runs.planning import make_plan


def anonymous_mib() -> float:
    """Memory of this process that is not a mapped file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


@contextmanager
def executor(name: str) -> Iterator[Any]:
    kind, _, number = name.partition(":")
    if kind == "threads":
        yield Threads(int(number))
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=int(number), threads_per_worker=1, memory_limit=0, dashboard_address=":0") as local,
        Client(local) as client,
        Dask(client) as made,
    ):
        yield made


def processor_seconds(name: str, made: Any) -> float:
    if name.startswith("threads"):
        return time.process_time()
    return sum(made._client.run(time.process_time).values())


def tree(folder: Path) -> dict[str, bytes]:
    pieces = folder / "pieces"
    return {str(path.relative_to(pieces)): path.read_bytes() for path in sorted(pieces.rglob("*")) if path.is_file()}


def speed(store: Path, n_labels: int, repeats: int) -> None:
    root = Path(tempfile.mkdtemp(dir=store.parent))
    dataset = open_store(store)
    chosen = np.sort(np.random.default_rng(0).permutation(dataset.n_labels)[:n_labels])
    write_store(Dataset(dataset.X, dataset.Y[:, chosen]), root / "store")
    warm = np.sort(chosen[:64])
    write_store(Dataset(dataset.X, dataset.Y[:, warm]), root / "warm")
    times: dict[str, list[tuple[float, float]]] = {}
    trees = []
    for turn in range(repeats):
        for name in ("threads:1", "cluster:1", "threads:2", "cluster:2"):
            with executor(name) as made:
                train(
                    "pw-dismec",
                    open_store(root / "warm"),
                    root / f"warm-{turn}-{name}",
                    {"block_size": 16},
                    executor=made,
                )
                before, begin = processor_seconds(name, made), time.perf_counter()
                train("pw-dismec", open_store(root / "store"), root / "run", {"block_size": 64}, executor=made)
                wall = time.perf_counter() - begin
                times.setdefault(name, []).append((wall, processor_seconds(name, made) - before))
            trees.append(tree(root / "run"))
            shutil.rmtree(root / "run")
            print(f"  {name}: wall {wall:.1f} s, processor {times[name][-1][1]:.1f} s", flush=True)
    best = {name: tuple(min(column) for column in zip(*found, strict=True)) for name, found in times.items()}
    print(f"{store.name}: {len(chosen)} labels, best of {repeats}; load {os.getloadavg()[0]:.1f}")
    for name, (wall, cpu) in best.items():
        print(f"  {name:10} wall {wall:7.1f} s   processor {cpu:7.1f} s")
    print(f"two worker processes against one: {best['cluster:1'][0] / best['cluster:2'][0]:.2f} times")
    for number in (1, 2):
        there, here = best[f"cluster:{number}"], best[f"threads:{number}"]
        print(
            f"overhead against threads on {number}: wall {100 * (there[0] / here[0] - 1):+.1f} %, "
            f"processor {100 * (there[1] / here[1] - 1):+.1f} %"
        )
    print(f"same bytes: {all(one == trees[0] for one in trees)}; driver {anonymous_mib():.0f} MiB not mapped")
    shutil.rmtree(root)


def check_plan(store: Path, n_blocks: int, n_sampled: int) -> None:
    dataset = open_store(store)
    model = PWDiSMEC()
    plan = make_plan(model, dataset, n_sampled=n_sampled)
    rng = np.random.default_rng(1)
    firsts = np.arange(0, dataset.n_labels, model.block_size)
    if n_blocks:
        firsts = np.sort(rng.permutation(firsts)[:n_blocks])
    columns = np.concatenate([np.arange(first, min(first + 256, dataset.n_labels)) for first in firsts])
    work = Work(executor=Threads(1))
    begin = time.thread_time()
    model.fit_rows(model.check_rows(dataset.X, dataset.Y[:, columns]), work)
    seconds = time.thread_time() - begin - plan.layout_seconds
    n_bytes = sum(array.nbytes for key in work.pieces.listed() for array in work.pieces.get(key).arrays.values())
    share = len(columns) / dataset.n_labels
    print(f"{store.name}: {plan.sizes}; {plan.n_sampled} labels tried, {len(columns)} trained")
    for what, planned, found in (
        ("core-seconds", plan.core_seconds, seconds / share),
        ("MiB on disk", plan.disk_bytes.times(2**-20), (n_bytes / share + 2500 * plan.n_tasks) / 2**20),
    ):
        off = 100 * (planned.value / found - 1)
        print(
            f"  {what}: planned {planned.value:,.1f} ({planned.low:,.1f} to {planned.high:,.1f}), "
            f"found {found:,.1f}: {off:+.0f} %"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  GiB per worker: planned {plan.worker_bytes / 2**30:.2f}, found {peak:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "plan"])
    parser.add_argument("store", type=Path)
    parser.add_argument("--labels", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--sample", type=int, default=1024)
    options = parser.parse_args()
    if options.what == "speed":
        speed(options.store, options.labels, options.repeats)
    else:
        check_plan(options.store, options.blocks, options.sample)


if __name__ == "__main__":
    main()
