"""Supervisor: the process of `unmissed serve`; it starts generations of workers and replaces them on a reload.

A generation opens the runs and answers by its workers, over one listening socket that the supervisor holds. For a
reload, the supervisor starts a second generation. When it is ready, the first one gets no more connections and finishes
its requests. If it fails, the first one stays.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from unmissed.archive import HashedAhead
from unmissed.errors import InputError
from unmissed.serve.generation import Site, fork, run_generation, stop_now
from unmissed.serve.projects import RunPaths, check_paths, signature
from unmissed.serve.service import Options
from unmissed.serve.worker import STOP

Say = Callable[[str], None]
_WATCH = 1.0  # seconds between two looks at the runs' folders
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass
class _Running:
    """A generation that was started: its process, its pipe, its report so far and who waits for it."""

    number: int
    pid: int
    lifeline: int
    report: int
    text: bytes = b""
    has_ended: bool = False
    waiting: list[socket.socket] = field(default_factory=list)


class Supervisor:
    """Runs the service until SIGTERM or SIGINT.

    Parameters
    ----------
    runs : folders of runs
    options : what the operator chose
    n_workers : number of worker processes
    watch : reload when a run changes
    say : prints a line for the operator
    """

    def __init__(self, runs: RunPaths, options: Options, n_workers: int, *, watch: bool = False, say: Say) -> None:
        if not hasattr(os, "fork"):
            raise InputError("unmissed serve needs a system with fork; use unmissed.serve.create_app with uvicorn here")
        self._paths = list(check_paths(runs).values())
        self._options, self._n_workers, self._watch, self._say = options, n_workers, watch, say
        self._number = 0
        self._current: _Running | None = None
        self._starting: _Running | None = None
        self._old: list[_Running] = []
        self._again: list[socket.socket] | None = None  # a reload that begins when the present one has ended
        self._seen = signature(self._paths)
        self._is_stopping = False

    def run(self, host: str, port: int, hashed: HashedAhead) -> None:
        """Serve at an address; raise InputError if it is taken, or if a run cannot be opened.

        The first generation uses the checksums in `hashed`; later ones compute their own.
        """
        with contextlib.ExitStack() as stack:
            self._listener = stack.enter_context(bind(host, port))
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._requests, requests = map(stack.enter_context, pair)
            metrics = stack.enter_context(tempfile.TemporaryDirectory(prefix="unmissed-serve-"))
            self._site = Site(self._paths, self._options, self._n_workers, self._listener, requests, metrics)
            self._wakeup = stack.enter_context(_signals())
            stack.callback(self._kill)
            import_module("numba")  # every generation needs it, and gets it by the fork
            gc.freeze()
            gc.enable()
            hashed.wait()  # a fork copies no threads
            self._start([])
            hashed.clear()
            self._loop()

    @property
    def address(self) -> str:
        """The address of the service."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def _loop(self) -> None:
        """Handle signals, requests of workers and reports of generations."""
        while self._generations() or not self._is_stopping:
            files: list[Any] = [self._wakeup, self._requests]
            files += [self._starting.report] if self._starting else []
            found = select.select(files, [], [], _WATCH)[0]
            if self._wakeup in found:
                self._handle_signals()
            if self._requests in found:
                self._take_request()
            if self._starting and self._starting.report in found:
                self._read_report(self._starting)
            if self._watch and signature(self._paths) != self._seen:
                self._reload([])
            if self._is_stopping and time.monotonic() > self._deadline:
                return

    def _handle_signals(self) -> None:
        for number in os.read(self._wakeup, 64):
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop()
            elif number == signal.SIGHUP:
                self._reload([])
        self._collect()

    def _generations(self) -> list[_Running]:
        return [one for one in (self._current, self._starting, *self._old) if one is not None]

    def _start(self, waiting: list[socket.socket]) -> None:
        """Start a generation; the one before the current one must have ended."""
        self._seen = signature(self._paths)
        self._number += 1
        number = self._number
        lifeline, keep = os.pipe()
        report, write = os.pipe()
        own = [self._wakeup, self._requests.fileno(), report, keep]
        own += [one.lifeline for one in self._generations() if one.lifeline >= 0]

        def body() -> None:
            run_generation(self._site, number, lifeline, write)

        pid = fork(body, close=tuple(own))
        os.close(lifeline)
        os.close(write)
        self._starting = _Running(number, pid, keep, report, waiting=waiting)

    def _reload(self, waiting: list[socket.socket]) -> None:
        """Begin a reload now, or after those that are under way."""
        if self._is_stopping:
            _answer(waiting, "failed", "the service is stopping")
        elif self._starting or self._old:
            self._seen = signature(self._paths)
            self._again = [*(self._again or []), *waiting]
        else:
            self._start(waiting)

    def _read_report(self, one: _Running) -> None:
        part = os.read(one.report, 1 << 16)
        one.text += part
        if part and not one.text.endswith(b"\n"):
            return
        os.close(one.report)
        self._starting = None
        report: dict[str, Any] = {"error": "the process that opened the runs was killed"}
        if one.text:
            report = json.loads(one.text)
        if "error" in report:
            self._failed(one, report["error"])
        else:
            self._took_over(one, report["projects"])

    def _failed(self, one: _Running, error: str) -> None:
        """Keep the current generation; at the start there is none."""
        self._close(one)
        self._old.append(one)
        if self._current is None and not self._is_stopping:
            raise InputError(error)
        _answer(one.waiting, "failed", error)
        if not self._is_stopping:
            self._say(f"reload failed, the old runs stay: {error}")

    def _took_over(self, one: _Running, projects: Sequence[dict[str, Any]]) -> None:
        names = [project["id"] for project in projects]
        _answer(one.waiting, "ok", "\n".join(names))
        if self._current is None:
            self._announce(projects)
        else:
            self._close(self._current)
            self._old.append(self._current)
            self._say(f"reloaded: {', '.join(names)}")
        self._current = one

    def _announce(self, projects: Sequence[dict[str, Any]]) -> None:
        for one in projects:
            self._say(f"{one['id']}: {one['method']}, {one['n_labels']:,} labels ({one['path']})")
            if not one["takes_text"]:
                self._say(f"note: {one['id']} was not trained on texts (or needs dense features), so it cannot suggest")
            elif not one["calibrated"]:
                self._say(
                    f"note: {one['id']} has no probabilities: scores have no scale, and Annif's http backend drops "
                    f"those up to 0; `unmissed calibrate {one['path']}` makes probabilities"
                )
        self._say(f"serving at {self.address} (API: {self.address}/docs; stop with Ctrl-C)")

    def _take_request(self) -> None:
        with contextlib.suppress(OSError):
            _, files, _, _ = socket.recv_fds(self._requests, 64, 1)
            for file in files:
                self._reload([socket.socket(fileno=file)])

    def _collect(self) -> None:
        """Take note of generations that ended, and begin a reload that waited for that."""
        for one in self._generations():
            if not one.has_ended and _has_ended(one.pid):
                one.has_ended = True
                if one is self._current and not self._is_stopping:
                    self._say("the process that keeps the workers ended; they answer until it is replaced")
                    self._reload([])
        self._old = [one for one in self._old if not one.has_ended]
        if self._current is not None and self._current.has_ended and self._is_stopping:
            self._current = None
        if self._again is not None and not self._starting and not self._old:
            waiting, self._again = self._again, None
            self._reload(waiting)

    def _stop(self) -> None:
        """Let all generations finish their requests and end."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._deadline = time.monotonic() + 2 * self._options.limits.seconds + 15
        for one in self._generations():
            self._close(one, stop=True)
        if self._starting is not None:
            stop_now(self._starting.pid)  # it has no requests yet
        self._say("stopping")

    def _close(self, one: _Running, *, stop: bool = False) -> None:
        if one.lifeline >= 0:
            with contextlib.suppress(OSError):
                if stop:
                    os.write(one.lifeline, STOP * 4096)
            os.close(one.lifeline)
            one.lifeline = -1

    def _kill(self) -> None:
        """End what is left, if the time is over or the supervisor failed."""
        for one in self._generations():
            self._close(one)
            if not one.has_ended:
                stop_now(one.pid)
                os.waitpid(one.pid, 0)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _answer(waiting: list[socket.socket], result: str, text: str) -> None:
    for one in waiting:
        with one, contextlib.suppress(OSError):
            one.sendall(f"{result}\n{text}".encode())
            one.shutdown(socket.SHUT_RDWR)  # a generation that was forked meanwhile may have a copy of it


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; raise InputError if that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InputError(f"cannot serve at {host}:{port}: {error.strerror or error}; choose another --port") from None
    return listener


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Yield a file from which the numbers of signals that arrive can be read."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    handlers = {one: signal.signal(one, lambda *_: None) for one in _SIGNALS}
    try:
        yield read
    finally:
        signal.set_wakeup_fd(before)
        for one, handler in handlers.items():
            signal.signal(one, handler)
        os.close(read)
        os.close(write)
