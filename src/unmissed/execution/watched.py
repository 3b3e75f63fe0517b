"""Runs a call in its own process, under limits of time and memory, and measures its peak memory."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unmissed.errors import InputError
from unmissed.worker_processes import end_with_parent
from unmissed.writing import FULL

State = Literal["finished", "time limit", "memory limit", "failed"]
Say = Callable[[Any], None]
_POLL = 0.1  # seconds between two checks of the limits


class Limits(NamedTuple):
    """Limits of a call: wall time in seconds and resident memory in bytes; None for no limit."""

    seconds: float | None = None
    memory: int | None = None

    def check(self) -> Limits:
        """Return the limits; raise if one is not positive or cannot be measured on this system."""
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"the time limit must be above 0 seconds; got {self.seconds}")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"the memory limit must be above 0 bytes; got {self.memory}")
        if self.memory is not None and not Path("/proc/self/status").is_file():
            raise InputError("a memory limit needs /proc, which this system does not have")
        return self


class Outcome(NamedTuple):
    """How a call ended.

    Parameters
    ----------
    state : "finished", "time limit", "memory limit" or "failed"
    value : the return value of a finished call, else None
    reason : why the call did not finish, else ""
    seconds : wall time since its first message
    peak_bytes : peak resident memory
    """

    state: State
    value: Any
    reason: str
    seconds: float
    peak_bytes: int


def watch(call: Callable[[Say], Any], limits: Limits, hear: Callable[[Any], None]) -> Outcome:
    """Run `call(say)` in a new process and return how it ended.

    Parameters
    ----------
    call
        Must be picklable: an instance of a class or a function at module level. It sends messages with `say`.
    limits
        The process is killed when it exceeds a limit; its files stay. Time is measured from the first message: before
        it the call prepares.
    hear
        Callback for each message, and for None at least ten times per second, so that the caller can check its clock.
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
        if not ours.poll(_POLL):
            continue
        try:
            kind, value, own_peak = ours.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            reason = f"its process ended with code {process.exitcode}"
            reason += " (killed; out of memory?)" if process.exitcode == -9 else ""
            return Outcome("failed", None, reason, seconds, peak)
        peak = max(peak, own_peak)
        if kind == "said":
            if not ready:
                begin, ready = time.perf_counter(), True
            hear(value)
        elif kind == "full":  # the disk is full: every other call would fail, too
            raise OSError(*value)
        elif kind == "returned":
            return Outcome("finished", value, "", time.perf_counter() - begin, peak)
        else:
            return Outcome("failed", None, value, time.perf_counter() - begin, peak)


def _answer(theirs: Connection, call: Callable[[Say], Any]) -> None:
    """Run the call in the child process and send its messages; the parent ends this process, also at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    try:
        value = call(lambda message: theirs.send(("said", message, peak_bytes())))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            theirs.send(("full", (error.errno, error.strerror, error.filename), peak_bytes()))
            return
        text = " ".join(str(error).split())
        theirs.send(("failed", f"{type(error).__name__}: {text}" if text else type(error).__name__, peak_bytes()))
    else:
        theirs.send(("returned", value, peak_bytes()))


def peak_bytes(process: int | None = None) -> int:
    """Return the peak resident memory of a process, by default this one; 0 if the system does not report it.

    `getrusage` starts at the peak of the parent process, so /proc is preferred.
    """
    try:
        lines = Path(f"/proc/{'self' if process is None else process}/status").read_text().splitlines()
    except OSError:
        return _own_peak() if process is None else 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def machine_bytes() -> int:
    """Return the physical memory of this machine; 0 if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _own_peak() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    return (1 if sys.platform == "darwin" else 1024) * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
