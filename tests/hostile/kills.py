"""Kills and full disks over all verbs that write: the same command again ends well, with the same bytes.

A case is one kill of one verb, at a random time or at a random call that changes the disk, or one verb under a limit on
the size of files, which fails like a full disk. Verbs run in forked children, so that modules and kernels are warm.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.cli.full_disk import forked, spoken
from tests.hostile.campaign import DifferenceError, Format
from tests.runs.corpora import tree_bytes, write_texts
from tests.runs.killing import die_at
from unmissed.cli.app import run
from unmissed.runs import open_run

COMPARE = ["--methods", "popularity", "--baseline", "popularity", "--bootstrap", "10", "--jobs", "1"]
SIZE = ["--train", "60", "--test", "10", "--labels", "9", "--features", "50"]
VERBS: dict[str, Callable[[Path, Path], list[Any]]] = {
    "train": lambda data, out: [
        "train",
        "dismec",
        data / "train.jsonl",
        "--run",
        out / "run",
        "--jobs",
        1,
        "--no-check",
    ],
    "extend": lambda data, out: ["extend", out / "run", data / "more.jsonl", "--jobs", 1],
    "update": lambda data, out: ["update", out / "run", data / "more.jsonl", "--jobs", 1],
    "predict": lambda data, out: ["predict", data / "run", data / "train.jsonl", "--out", out / "best", "--jobs", 1],
    "data convert": lambda data, out: ["data", "convert", data / "train.jsonl", out / "store"],
    "data convert to pairs": lambda data, out: ["data", "convert", data / "store", f"{out / 'X.npz'},{out / 'Y.npz'}"],
    "data make": lambda data, out: ["data", "make", out / "corpus", *SIZE],
    "compare": lambda data, out: [
        "compare",
        data / "train.jsonl",
        data / "more.jsonl",
        "--out",
        out / "side",
        *COMPARE,
    ],
}
CHANGING = ("extend", "update")  # verbs that begin with a run
TIMED = ("results.json", "record.json", "index.html", ".md", ".tex", ".png", ".svg")  # files of compare that hold times
FULL = ("update", "compare")
SMALLEST, LARGEST = 500, 20_000  # bytes, of the limit on the size of files
WEIGHTS = {"compare": 1}  # its cases take some seconds; of the others four times as many are tried


class Seeds(NamedTuple):
    """The inputs of a verb, what it leaves when nothing happens, and how many seconds and calls it takes."""

    data: Path
    tree: dict[str, bytes]
    seconds: float
    calls: int


class Blow(NamedTuple):
    """What happens to a verb: a kill after some seconds or at the n-th call, or a limit on the size of files."""

    out: Path
    seconds: float | None = None
    call: int | None = None
    limit: int | None = None


def prepare(verb: str, workdir: Path) -> Seeds:
    """Make inputs, and run the verb twice without harm: once to warm it up, once to time it and count its calls."""
    data = workdir / "data"
    data.mkdir(parents=True)
    write_texts(data / "train.jsonl", n=40)
    write_texts(data / "more.jsonl", n=15, seed=1, extra="mix")
    for made in ("train", "data convert"):
        succeed(VERBS[made](data, data))
    succeed(VERBS[verb](data, begin(verb, data, workdir / "warm")))
    out = begin(verb, data, workdir / "timed")
    seconds, calls = forked(lambda: _measure(VERBS[verb](data, out)))
    return Seeds(data, contents(out), seconds, calls)


def _measure(words: list[Any]) -> tuple[float, int]:
    """Run a verb; return how many seconds it takes and how many of its calls change the disk."""
    calls = die_at(0)
    started = time.monotonic()
    succeed(words)
    return time.monotonic() - started, calls()


def begin(verb: str, data: Path, out: Path) -> Path:
    """Make the folder that a verb writes into."""
    out.mkdir()
    if verb in CHANGING:
        shutil.copytree(data / "run", out / "run")
    return out


def succeed(words: list[Any]) -> None:
    """Run a verb in this process; it must succeed."""
    code, said = spoken(words)
    if code:
        raise DifferenceError(f"exit code {code}: {said}")


def contents(out: Path) -> dict[str, bytes]:
    """Return all files but locks; of those that hold times only the names."""
    return {name: b"" if name.endswith(TIMED) else content for name, content in tree_bytes(out).items()}


def spoil_kill(verb: str, rng: np.random.Generator, seeds: Seeds, folder: Path) -> Blow:
    out = begin(verb, seeds.data, folder / "out")
    if rng.random() < 0.5:
        return Blow(out, call=int(rng.integers(1, seeds.calls + 1)))
    return Blow(out, seconds=float(rng.uniform(0, seeds.seconds)))


def spoil_full(verb: str, rng: np.random.Generator, seeds: Seeds, folder: Path) -> Blow:
    return Blow(begin(verb, seeds.data, folder / "out"), limit=int(rng.integers(SMALLEST, LARGEST)))


def use_kill(verb: str, seeds: Seeds, blow: Blow) -> None:
    """Kill the verb, look at what is there, and run it again to the end."""
    words = VERBS[verb](seeds.data, blow.out)
    while not _killed(words, blow):  # it was over before: a little earlier, then
        shutil.rmtree(blow.out)
        begin(verb, seeds.data, blow.out)
        sooner = None if blow.seconds is None else blow.seconds * 0.7
        blow = blow._replace(seconds=sooner, call=None if blow.call is None else max(blow.call * 2 // 3, 1))
    check_after(verb, seeds, blow.out, words)


def use_full(verb: str, seeds: Seeds, blow: Blow) -> None:
    """Run the verb where files may not grow beyond some bytes; then without the limit."""
    words = VERBS[verb](seeds.data, blow.out)
    assert blow.limit is not None
    resource.setrlimit(resource.RLIMIT_FSIZE, (blow.limit, resource.RLIM_INFINITY))
    try:
        code, said = spoken(words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if code and not (
        code == 2 and said.count("\n") == 1 and str(blow.out) in said and "larger than the system" in said
    ):
        raise DifferenceError(f"with files of at most {blow.limit} bytes: exit code {code}: {said}")
    left = [path.name for path in blow.out.rglob("*.part")]
    if left:
        raise DifferenceError(f"with files of at most {blow.limit} bytes: left {left}")
    check_after(verb, seeds, blow.out, words)


def check_after(verb: str, seeds: Seeds, out: Path, words: list[Any]) -> None:
    """A run that was there answers; the same command succeeds, and leaves what it always leaves."""
    if verb in CHANGING:
        open_run(out / "run", verify=True).rank(["cod net quota"], 3)
    for time_of in ("next",) if verb == "compare" else ("next", "last"):  # the second time everything is there
        code, said = spoken(words)
        if code:
            raise DifferenceError(f"the {time_of} command ended with {code}: {said}")
    found = contents(out)
    if found != seeds.tree:
        other = sorted(name for name in found.keys() | seeds.tree.keys() if found.get(name) != seeds.tree.get(name))
        raise DifferenceError(f"other than without a kill: {', '.join(other)[:200]}")


def _killed(words: list[Any], blow: Blow) -> bool:
    """Run a verb in a child and kill it; tell whether it was still alive."""
    child = os.fork()
    if not child:
        if blow.call is not None:
            die_at(blow.call)
        try:
            run([str(word) for word in words])
        finally:
            os._exit(0)
    if blow.seconds is not None:
        time.sleep(blow.seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _format(name: str, verb: str, spoil: Any, use: Any) -> Format:
    return Format(name, partial(prepare, verb), partial(spoil, verb), partial(use, verb))


FORMATS = (
    *(_format(f"kills of {verb}", verb, spoil_kill, use_kill) for verb in VERBS),
    *(_format(f"full disk in {verb}", verb, spoil_full, use_full) for verb in FULL),
)


def kills_each(total: int) -> dict[str, int]:
    """Return how many cases each kind of kill gets of a total."""
    weights = {kind.name: WEIGHTS.get(kind.name.removeprefix("kills of "), 4) for kind in FORMATS[: len(VERBS)]}
    each = {name: total * weight // sum(weights.values()) for name, weight in weights.items()}
    first = next(iter(each))
    return {**each, first: each[first] + total - sum(each.values())}
