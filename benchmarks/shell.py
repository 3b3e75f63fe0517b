"""Time of `unmissed predict --text` for one sentence, with cached kernels.

    python -m benchmarks.shell DATA/tibkat [--times 10] [--run FOLDER]

Trains DiSMEC on the training text by the command, unless the folder holds a run already, and then calls `unmissed
predict FOLDER --text ...` in a process of its own each time. Shown is the clock's time, from start to end of the
process: the median and, in brackets, the range. The first call, which may have files to read from the disk, is shown
apart.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SENTENCE = "Fishing quotas for cod in the North Sea"


def unmissed(*words: str) -> float:
    """Call the command beside this Python; return the seconds that it took."""
    command = [str(Path(sys.executable).parent / "unmissed"), *words]
    bytecode = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=bytecode)  # an installed package has its own
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = str(options.run or Path(folder) / "run")
        if not Path(run).exists():
            seconds = unmissed("train", "dismec", str(options.data / "train.jsonl.xz"), "--run", run)
            print(f"trained in {seconds:.0f} s, reading included")
        first, *seconds = (unmissed("predict", run, "--text", SENTENCE) for _ in range(1 + options.times))
    print(f"{options.data.name}: one sentence from the shell in {median(seconds):.2f} s", end=" ")
    print(f"({min(seconds):.2f} to {max(seconds):.2f}, {options.times} times; the first {first:.2f} s)")


if __name__ == "__main__":
    main()
