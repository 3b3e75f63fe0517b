"""The reader of XMC text compared with scikit-learn's svmlight reader, on the same uncompressed file without header.

    python -m benchmarks.reader                 # a file made up for it
    python -m benchmarks.reader train.txt.gz    # any XMC text file

Prints seconds (best of several), the ratio, and each reader's peak memory over the arrays that ours returns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

ROUNDS = 5


def make_file(path: Path, n_samples: int, n_values: int, seed: int = 0) -> None:
    """Write rows with about `n_values` features of full float32 precision and a few labels each."""
    from unmissed.data import Dataset, write_xmc

    rng = np.random.default_rng(seed)
    X = sparse.random(n_samples, 100_000, n_values / 100_000, "csr", random_state=rng, dtype=np.float32)
    Y = sparse.random(n_samples, 4_000, 5 / 4_000, "csr", random_state=rng, dtype=np.float32)
    Y.data[:] = 1
    write_xmc(Dataset(X, Y), path)


def drop_header(source: Path, target: Path) -> None:
    """Copy an XMC text file, unpacked, without its first line."""
    from unmissed.data.streams import line_blocks

    with open(target, "wb") as stream:
        for number, (block, end, _) in enumerate(line_blocks(source)):
            stream.write(memoryview(block)[block.index(b"\n") + 1 if number == 0 else 0 : end])


def measure(reader: str, path: str) -> dict[str, float]:
    """Read in this process: the seconds of each round, and peak memory (Linux) over the arrays returned."""
    from benchmarks.rivals import svmlight
    from unmissed.data.readers.xmc_text import read_xmc

    def ours(name: str) -> object:
        return read_xmc(name, header=False)

    read = {"unmissed": ours, "svmlight": svmlight.read}[reader]
    with tempfile.TemporaryDirectory() as folder:  # imports and compiled code are not what is measured
        small = Path(folder) / "small.txt"
        small.write_text("0 0:1\n")
        read(str(small))
    before, seconds = memory("VmRSS"), []
    for turn in range(ROUNDS):
        begin = time.perf_counter()
        result = read(path)
        seconds.append(time.perf_counter() - begin)
        if turn == 0:
            peak = memory("VmHWM") - before
        del result
    return {"seconds": min(seconds), "first": seconds[0], "peak": peak}


def memory(what: str) -> int:
    """Return a figure of /proc/self/status in bytes, or 0 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(what)), 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("path", nargs="?", type=Path, help="an XMC text file; made up if not given")
    arguments.add_argument("--rows", type=int, default=60_000)
    arguments.add_argument("--values", type=int, default=100, help="features a row")
    arguments.add_argument("--measure", choices=["unmissed", "svmlight"], help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, str(given.path))))
        return
    with tempfile.TemporaryDirectory() as folder:
        source, plain = given.path, Path(folder) / "plain.txt"
        if source is None:
            source = Path(folder) / "made.txt"
            make_file(source, given.rows, given.values)
        drop_header(source, plain)
        report(plain)


def report(path: Path) -> None:
    from unmissed.data.readers.xmc_text import read_xmc

    X, Y = read_xmc(path, header=False)
    arrays = sum(array.nbytes for matrix in (X, Y) for array in (matrix.data, matrix.indices, matrix.indptr))
    size = path.stat().st_size
    print(f"file {size / 1e6:.1f} MB, {X.shape[0]:,} rows, {X.nnz:,} values, arrays {arrays / 1e6:.1f} MB")
    figures = {}
    for reader in ("svmlight", "unmissed"):
        command = [sys.executable, "-m", "benchmarks.reader", str(path), "--measure", reader]
        figures[reader] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        one = figures[reader]
        print(
            f"{reader:10} {one['seconds']:8.3f} s (first {one['first']:.3f} s) "
            f"{size / one['seconds'] / 1e6:8.1f} MB/s   peak memory / arrays {one['peak'] / arrays:.2f}"
        )
    ratio = figures["svmlight"]["seconds"] / figures["unmissed"]["seconds"]
    print(f"ratio {ratio:.1f} (first reading {figures['svmlight']['first'] / figures['unmissed']['first']:.1f})")


if __name__ == "__main__":
    main()
