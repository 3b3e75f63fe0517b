"""How tests run the service: a process of its own, real HTTP."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

SECONDS = 240.0


class Forked:
    """The command in a process that has its modules already, in the manner of `subprocess.Popen`.

    It is forked from a process without threads that imports them once: starting Python takes longer than most tests.
    """

    _context = multiprocessing.get_context("forkserver")
    _context.set_forkserver_preload(["unmissed.cli.app", "unmissed.serve.supervisor", "numba"])

    def __init__(self, words):
        with tempfile.TemporaryDirectory() as folder:
            pipes = [Path(folder) / name for name in ("out", "err")]
            for pipe in pipes:
                os.mkfifo(pipe)
            self._process = self._context.Process(target=_run, args=(list(words), *pipes))
            self._process.start()
            self.stdout, self.stderr = (pipe.open(encoding="utf-8") for pipe in pipes)
        self.pid = self._process.pid

    def send_signal(self, number):
        os.kill(self.pid, number)

    def poll(self):
        return self._process.exitcode

    def wait(self, seconds):
        self._process.join(seconds)
        assert self.poll() is not None, "it does not end"
        return self.poll()


def _run(words, *pipes):
    """Run the command with its outputs into pipes."""
    from unmissed.cli.app import run

    for pipe, file in zip(pipes, (1, 2), strict=True):
        opened = os.open(pipe, os.O_WRONLY)
        os.dup2(opened, file)
        os.close(opened)
    run(words)


def start_command(words):
    """Start the command as its users do."""
    command = [sys.executable, "-m", "unmissed", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Served:
    """A running service, started by `start`.

    `lines` are those of standard error, `log` those of standard output, the access log.
    """

    def __init__(self, *words, start=Forked):
        self.process = start(["serve", "--port", "0", *map(str, words)])
        self.lines, self.log = [], []
        pairs = ((self.process.stderr, self.lines), (self.process.stdout, self.log))
        self._readers = [threading.Thread(target=_read, args=pair, daemon=True) for pair in pairs]
        for reader in self._readers:
            reader.start()
        self.url = self.wait_for("serving at ").split()[2]
        self.port = int(self.url.rpartition(":")[2])

    def wait_for(self, text, seconds=SECONDS):
        """Return the first line on standard error that contains a text."""
        return eventually(lambda: next((line for line in list(self.lines) if text in line), None), self, seconds)

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=SECONDS, **options)

    def workers(self):
        """Return the ids of the worker processes."""
        leaders = children(self.process.pid)
        return [pid for leader in leaders for pid in children(leader)]

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Stop the service; return its exit code."""
        if self.process.poll() is None:
            self.send(number)
        code = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        return code


@contextmanager
def serving(*words, start=Forked):
    """Run a service; at its end it has written no traceback."""
    served = Served(*words, start=start)
    try:
        yield served
    finally:
        served.stop()
        served.process.stdout.close()
        served.process.stderr.close()
    assert not [line for line in served.lines if "Traceback" in line or "Error:" in line], served.lines


def eventually(check, served=None, seconds=SECONDS):
    """Return the first true answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        if served is not None and served.process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {served.lines if served else ''}")


def children(pid):
    """Return the processes that a process started."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as stream:
                state, parent = stream.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(entry))
    return sorted(found)


def _read(stream, lines):
    for line in stream:
        lines.append(line.rstrip("\n"))
