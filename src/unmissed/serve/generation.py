"""Generation: a process that opens the runs, forks the workers that share them, and replaces workers that end."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmissed.errors import UnmissedError
from unmissed.serve.projects import Project, open_projects
from unmissed.serve.service import Options
from unmissed.serve.worker import run_worker

_PAUSE = 1.0  # seconds before a worker is replaced that ended right after its start


@dataclass(frozen=True)
class Site:
    """What all generations share.

    Parameters
    ----------
    paths : the folders of the runs
    options : what the operator chose
    n_workers : number of worker processes
    listener : the listening socket
    requests : where workers request reloads from the supervisor
    metrics : the folder of the metrics
    """

    paths: list[Path]
    options: Options
    n_workers: int
    listener: socket.socket
    requests: socket.socket
    metrics: str


def fork(body: Callable[[], None], *, close: tuple[int, ...] = ()) -> int:
    """Return the id of a new process that runs `body`, without some files of this one, and ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for file in close:
            os.close(file)
        body()
        status = 0
    except BaseException as error:  # the caller's stack must not run a second time in this process
        _say(f"unmissed: a process of the service failed: {type(error).__name__}: {error}")
    finally:
        os._exit(status)


def run_generation(site: Site, number: int, lifeline: int, report: int) -> None:
    """Open the runs, report success or failure, and keep the workers alive until the pipe `lifeline` ends.

    The report is a JSON line: `{"projects": [...]}` or `{"error": "..."}`.
    """
    os.setpgid(0, 0)  # Ctrl-C reaches only the supervisor, which then ends the pipe
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    gc.disable()  # what is opened is kept
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of OpenMP (encoders, faiss) do not survive the fork of the workers
    try:
        projects = open_projects(site.paths)
    except (UnmissedError, OSError, MemoryError) as error:
        _report(report, {"error": " ".join(str(error).split()) or type(error).__name__})
        return
    gc.freeze()  # what is shared is never written by the garbage collector
    gc.enable()
    workers = _Workers(site, projects, number, lifeline)
    workers.start(report)
    _report(report, {"projects": [_summary(project) for project in projects.values()]})
    workers.keep()


class _Workers:
    """The worker processes of a generation."""

    def __init__(self, site: Site, projects: dict[str, Project], number: int, lifeline: int) -> None:
        self._site, self._projects, self._number, self._lifeline = site, projects, number, lifeline
        self._slots: dict[int, tuple[int, float]] = {}
        self._wakeup, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def start(self, report: int) -> None:
        """Start all workers, without the file `report`, and wait until they accept connections."""
        ready, starting = os.pipe()
        for slot in range(self._site.n_workers):
            self._fork(slot, lambda: os.close(starting), close=(ready, report))
        os.close(starting)
        os.read(ready, 1)  # ends when every worker has closed its end, or died
        os.close(ready)

    def keep(self) -> None:
        """Replace workers that end, until the pipe of the generation ends; then wait for them to finish."""
        while not select.select([self._lifeline, self._wakeup], [], [])[0].count(self._lifeline):
            os.read(self._wakeup, 64)
            for slot, started in self._ended():
                if time.monotonic() - started < _PAUSE:
                    time.sleep(_PAUSE)
                self._fork(slot, lambda: None)
        end = time.monotonic() + 2 * self._site.options.limits.seconds + 10
        while self._slots and time.monotonic() < end:
            select.select([self._wakeup], [], [], 0.2)
            self._ended()
        for pid in self._slots:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fork(self, slot: int, report: Callable[[], None], *, close: tuple[int, ...] = ()) -> None:
        site = self._site
        metrics = site.metrics, f"{self._number % 2}-{slot}"  # two generations overlap, never three

        def work() -> None:
            for one in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(one, signal.SIG_DFL)
            run_worker(self._projects, site.options, site.listener, self._lifeline, site.requests, metrics, report)

        self._slots[fork(work, close=(self._wakeup, *close))] = slot, time.monotonic()

    def _ended(self) -> list[tuple[int, float]]:
        """Return the slots of workers that ended, and when these were started."""
        found = []
        for pid in list(self._slots):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    found.append(self._slots.pop(pid))
        return found


def _summary(project: Project) -> dict[str, Any]:
    run = project.run
    return {
        "id": project.id,
        "path": str(run.folder),
        "method": run.recipe.method,
        "n_labels": run.n_labels,
        "calibrated": project.is_calibrated,
        "takes_text": project.takes_text,
    }


def _report(file: int, value: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(file, json.dumps(value).encode() + b"\n")
    os.close(file)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, (" ".join(line.split()) + "\n").encode())


def stop_now(pid: int) -> None:
    """Kill a generation, and its workers if there are any."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
