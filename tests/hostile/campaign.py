"""Cases in child processes: a crash, a hang, a traceback or hunger for memory is counted with the case that made it."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmissed.errors import UnmissedError

BATCH = 200  # cases in a child
PATIENCE = 60.0  # seconds after which a case hangs
MEMORY = 3 << 30  # bytes a child may ask for beyond what it began with
ACCEPTED, REFUSED, FAULT = "accepted", "refused", "fault"


class ViolationError(Exception):
    """The program's answer breaks its contract; the message says how."""


class DifferenceError(ViolationError):
    """Verified, and yet not what was written."""

    def __str__(self) -> str:
        return f"silent difference: {super().__str__()}"


@dataclass(frozen=True)
class Format:
    """A kind of input: how a case is made in a fresh folder, and how the program is made to use it.

    `spoil(rng, seeds, folder)` leaves a case in `folder` and returns what `use` is called with; what `use` raises
    beyond the program's own errors is a fault. Where cases are counted in groups, `group(rng, seeds)` names a case's
    group from the first draws of its generator. `memory` is what a child may allocate beyond what it began with.
    """

    name: str
    prepare: Callable[[Path], object]
    spoil: Callable[[np.random.Generator, object, Path], object]
    use: Callable[[object, object], object]
    group: Callable[[np.random.Generator, object], str] | None = None
    memory: int = MEMORY


class Fault(NamedTuple):
    """What went wrong in which case."""

    format: str
    case: int
    what: str


@dataclass
class Report:
    """How many cases ended how, and every fault."""

    counts: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0

    def line(self, name: str) -> str:
        kinds = Counter(fault.what.split(":")[0] for fault in self.faults)
        summary = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "no fault"
        return (
            f"{name}: {sum(self.counts.values()):,} cases, {self.counts[ACCEPTED]:,} accepted, "
            f"{self.counts[REFUSED]:,} refused, {summary} ({self.seconds:.0f} s)"
        )

    def group_lines(self) -> list[str]:
        """Return a line per group of cases."""
        return [
            f"{group}: {sum(counts.values()):,} cases, {counts[ACCEPTED]:,} accepted, {counts[REFUSED]:,} refused, "
            f"{counts[FAULT]:,} faults"
            for group, counts in sorted(self.groups.items())
        ]

    def add(self, kind: Format, seeds: object, seed: int, case: int, outcome: str) -> None:
        """Count how a case ended."""
        ended = outcome if outcome in (ACCEPTED, REFUSED) else FAULT
        self.counts[ended] += 1
        group = "" if kind.group is None else kind.group(np.random.default_rng([seed, case]), seeds)
        if group:
            self.groups.setdefault(group, Counter())[ended] += 1
        if ended == FAULT:
            self.faults.append(Fault(kind.name, case, f"{outcome} ({group})" if group else outcome))


def run_format(kind: Format, n_cases: int, seed: int, first: int = 0, patience: float = PATIENCE) -> Report:
    """Try cases first, first + 1, ... of a format, each with a generator of its own."""
    report = Report()
    begin = time.monotonic()
    with workplace() as position:
        seeds = kind.prepare(position / "seeds")
        case, end = first, first + n_cases
        with suppress(KeyboardInterrupt):  # Ctrl-C ends it with a report of what was done
            while case < end:
                case = _batch(kind, seeds, position, seed, case, min(case + BATCH, end), patience, report)
    report.seconds = time.monotonic() - begin
    return report


def try_case(kind: Format, seeds: object, workdir: Path, seed: int, case: int) -> str:
    """Make one case and let the program use it; returns how it ended."""
    folder = workdir / f"case-{case}"
    folder.mkdir()
    try:
        made = kind.spoil(np.random.default_rng([seed, case]), seeds, folder)
        try:
            kind.use(seeds, made)
        except UnmissedError as error:
            return REFUSED if "\n" not in str(error) else f"two lines: {error!r}"
        return ACCEPTED
    except ViolationError as error:
        return str(error)
    except MemoryError:
        return f"hungry: {_where()}"
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {' '.join(str(error).split())[:150]} {_where()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def workplace() -> _WorkFolder:
    """Return a temporary folder for the cases, in memory if possible."""
    return _WorkFolder("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


class _WorkFolder:
    def __init__(self, parent: str | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="hostile.", dir=parent))

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _batch(
    kind: Format, seeds: object, workdir: Path, seed: int, case: int, end: int, patience: float, report: Report
) -> int:
    """Run cases in a child until it is through, dies or hangs; returns the next case to do."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _work(kind, seeds, workdir, seed, range(case, end), writer)
        os._exit(0)
    os.close(writer)
    ended = None
    for line in _lines(reader, patience):
        report.add(kind, seeds, seed, case, line.partition(" ")[2])
        case += 1
    os.close(reader)
    if case < end:  # it did not get to the end
        finished, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.05)
        finished, status = (finished, status) if finished else os.waitpid(child, os.WNOHANG)
        if finished:
            code = os.waitstatus_to_exitcode(status)
            ended = f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            ended = f"hang: more than {patience:g} s"
        report.add(kind, seeds, seed, case, ended)
        shutil.rmtree(workdir / f"case-{case}", ignore_errors=True)
        case += 1
    else:
        os.waitpid(child, 0)
    return case


def _work(kind: Format, seeds: object, workdir: Path, seed: int, cases: range, writer: int) -> None:
    """Be the child: try the cases and tell of each how it ended."""
    _die_with_parent()
    faulthandler.disable()  # a crash is counted, not printed
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + kind.memory, used + kind.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in cases:
        outcome = try_case(kind, seeds, workdir, seed, case)
        os.write(writer, f"{case} {' '.join(outcome.split())}\n".encode("utf-8", "backslashreplace"))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _lines(reader: int, patience: float) -> Iterator[str]:
    """Give lines as they come, until the other end is closed or silent for too long."""
    held = b""
    while select.select([reader], [], [], patience)[0]:
        piece = os.read(reader, 1 << 16)
        if not piece:
            return
        *complete, held = (held + piece).split(b"\n")
        for line in complete:
            yield line.decode("utf-8", "replace")


def _where() -> str:
    """Return the last place of ours in the traceback."""
    trace = traceback.extract_tb(sys.exc_info()[2])
    ours = [entry for entry in trace if "unmissed" in entry.filename] or list(trace)
    return f"at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
