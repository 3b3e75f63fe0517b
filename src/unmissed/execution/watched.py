"""A call in a process of its own: its peak memory is its own, and it ends at a limit of time or memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unmissed.errors import InputError
from unmissed.writing import FULL

State = Literal["finished", "time limit", "memory limit", "failed"]
Say = Callable[[Any], None]
_GLANCE = 0.1  # seconds between two looks at the process


class Limits(NamedTuple):
    """How long a call may take, in seconds, and how much memory may be resident, in bytes; None for no limit."""

    seconds: float | None = None
    memory: int | None = None

    def check(self) -> Limits:
        """Refuse limits that nothing can keep, or that this system cannot watch."""
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"a limit of time must be above 0 seconds, not {self.seconds}")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"a limit of memory must be above 0 bytes, not {self.memory}")
        if self.memory is not None and not Path("/proc/self/status").is_file():
            raise InputError("a limit of memory needs /proc, which this system does not have")
        return self


class Outcome(NamedTuple):
    """How a call ended: what it returned or why it did not, its seconds since its first word, and its peak memory."""

    state: State
    value: Any
    reason: str
    seconds: float
    peak_bytes: int


def watch(call: Callable[[Say], Any], limits: Limits, hear: Callable[[Any], None]) -> Outcome:
    """Run `call(say)` in a fresh process and return how it ended.

    Parameters
    ----------
    call
        Can be pickled: an instance of a class or a function at the top of a module.
    limits
        When one is passed the process is killed; what it has written stays. The clock begins with the first word that
        the call says: until then it gets ready.
    hear
        Is given whatever the call says, and None at least ten times per second, so that the caller may look at a clock.
    """
    limits.check()
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_answer, args=(theirs, call))
    begin = time.perf_counter()
    process.start()
    theirs.close()
    try:
        return _listen(process, ours, limits, hear, begin)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        ours.close()


def _listen(process: Any, ours: Connection, limits: Limits, hear: Callable[[Any], None], begin: float) -> Outcome:
    peak, ready = 0, False
    while True:
        seconds = time.perf_counter() - begin
        peak = max(peak, peak_bytes(process.pid))
        if ready and limits.seconds is not None and seconds > limits.seconds:
            return Outcome("time limit", None, f"stopped after {limits.seconds:g} seconds", seconds, peak)
        if limits.memory is not None and peak > limits.memory:
            return Outcome("memory limit", None, f"stopped at {limits.memory / 2**30:.3g} GiB", seconds, peak)
        hear(None)
        if not ours.poll(_GLANCE):
            continue
        try:
            kind, value, own_peak = ours.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            told = f"its process ended with code {process.exitcode}"
            told += " (killed; out of memory?)" if process.exitcode == -9 else ""
            return Outcome("failed", None, told, seconds, peak)
        peak = max(peak, own_peak)
        if kind == "said":
            if not ready:
                begin, ready = time.perf_counter(), True
            hear(value)
        elif kind == "full":  # no fault of the call: others would fail as well
            raise OSError(*value)
        elif kind == "returned":
            return Outcome("finished", value, "", time.perf_counter() - begin, peak)
        else:
            return Outcome("failed", None, value, time.perf_counter() - begin, peak)


def _answer(theirs: Connection, call: Callable[[Say], Any]) -> None:
    """Run the call; whoever listens ends this process, also at Ctrl-C, and it does not outlive them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        value = call(lambda message: theirs.send(("said", message, peak_bytes())))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            theirs.send(("full", (error.errno, error.strerror, error.filename), peak_bytes()))
            return
        told = " ".join(str(error).split())
        theirs.send(("failed", f"{type(error).__name__}: {told}" if told else type(error).__name__, peak_bytes()))
    else:
        theirs.send(("returned", value, peak_bytes()))


def _end_with_parent() -> None:
    """End this process when the one that started it was killed: it would hold locks that the next one needs."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def peak_bytes(process: int | None = None) -> int:
    """Return the most memory that a process, or this one, has had resident; 0 where the system does not say.

    The system's own count for this process goes on where its parent's stood when it was begun; /proc starts afresh.
    """
    try:
        lines = Path(f"/proc/{'self' if process is None else process}/status").read_text().splitlines()
    except OSError:
        return _own_peak() if process is None else 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _own_peak() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    return (1 if sys.platform == "darwin" else 1024) * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
