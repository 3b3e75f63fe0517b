"""How tests run the service: a process of its own, real HTTP."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx

SECONDS = 240.0


class Served:
    """A running service.

    `lines` are those of standard error, `log` those of standard output, the access log.
    """

    def __init__(self, *words):
        command = [sys.executable, "-m", "unmissed", "serve", "--port", "0", *map(str, words)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
def serving(*words):
    """Run a service; at its end it has written no traceback."""
    served = Served(*words)
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
