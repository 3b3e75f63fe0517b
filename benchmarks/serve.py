"""Latency, throughput, start, memory and reloads of `unmissed serve`, over loopback.

    python -m benchmarks.serve RUN TEXTS.jsonl[.xz] [--workers 2] [--seconds 20] [--reload-requests 10000]
        [--long 100000] [--connections 10000] [--only latency,saturation,ready,memory,reload,connections,long]

Starts the service in processes of its own, and requests suggestions of ten labels for the texts, one per request:

- latency: 50 requests per second at fixed times, from a few kept-alive connections; a request that begins late because
  the one before it was slow counts from the time at which it should have begun.
- saturation: wrk (Debian: apt-get install wrk) with 32 connections on two threads.
- ready: seconds from the start of the process until /health/ready answers, the second time, with files in memory.
- memory: private memory (/proc/PID/smaps_rollup) of each worker after 200 requests each: what it has written, and what
  it alone has read of mapped files so far, which is in memory once and is shared when another worker reads it.
- reload: requests on kept-alive connections during three reloads; every answer must be right.
- connections: open connections, half of them idle, half with a request that does not end; meanwhile, other clients
  request suggestions on connections of their own.
- long: many requests in a row by wrk; memory of the workers after a tenth of them, half of them, and at the end.

The service, wrk and this program share the machine's cores; other work on the machine changes all figures.
"""

from __future__ import annotations

import argparse
import http.client
import json
import lzma
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

PARTS = ("latency", "saturation", "ready", "memory", "reload", "connections", "long")
RATE = 50
FORM = {"content-type": "application/x-www-form-urlencoded"}
WRK = """
local bodies = {}
for line in io.lines("BODIES") do bodies[#bodies + 1] = line end
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
request = function()
  at = at % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
done = function(summary, latency)
  local errors = summary.errors
  print(string.format("RESULT %d %d %d %d %d %d", summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


class Service:
    """A service in processes of its own."""

    def __init__(self, run: Path, n_workers: int) -> None:
        words = ["serve", str(run), "--workers", str(n_workers), "--port", "0", "--no-access-log"]
        self.begin = time.perf_counter()
        bytecode = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-m", "unmissed", *words]  # an installed package has its bytecode
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=bytecode)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "serving at" in line:
                self.port = int(line.split()[2].rpartition(":")[2])
                break
        else:
            raise SystemExit("the service did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.path = f"/v1/projects/{urllib.parse.quote(run.resolve().name)}/suggest"
        self.connect().request("GET", "/health/ready")
        seconds = time.perf_counter() - self.begin
        used = self.processor_seconds([self.process.pid, *self.leaders(), *self.workers()])
        self.ready = f"{seconds:.2f} s, {used:.2f} s of processor time"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)  # a reload may take long

    def leaders(self) -> list[int]:
        """Return the ids of the processes that keep workers."""
        return _children(self.process.pid)

    def workers(self) -> list[int]:
        """Return the ids of the worker processes."""
        return [pid for leader in self.leaders() for pid in _children(leader)]

    def processor_seconds(self, processes: list[int] | None = None) -> float:
        """Return the processor time that processes have used, by default the workers."""
        processes = self.workers() if processes is None else processes
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in processes]
        return sum(int(ticks) for pair in fields for ticks in pair) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def _children(pid: int) -> list[int]:
    return sorted(one for one in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(one) == pid)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _memory(pid: int, name: str) -> int:
    """Return the sum of the fields of /proc/PID/smaps_rollup whose names begin so, in bytes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(number) for number in re.findall(rf"^{name}\w*:?\s+(\d+) kB", rollup, re.MULTILINE))


@contextmanager
def serving(run: Path, n_workers: int) -> Iterator[Service]:
    service = Service(run, n_workers)
    try:
        yield service
    finally:
        service.stop()


def post(connection: http.client.HTTPConnection, path: str, body: str) -> bool:
    """Request suggestions; return whether there were some, or the text has no known words."""
    connection.request("POST", path, body, FORM)
    answer = connection.getresponse()
    content = answer.read()
    return answer.status == 200 and (b'"uri"' in content or b'"no_known_words":true' in content)


def measure_latency(service: Service, bodies: list[str], seconds: float) -> str:
    """Return percentiles of the time from when a request should begin to its answer."""
    n_threads, n_requests = 4, int(RATE * seconds)
    taken = np.zeros(n_requests)
    begin = time.perf_counter() + 0.5

    def request(first: int) -> None:
        connection = service.connect()
        for number in range(first, n_requests, n_threads):
            due = begin + number / RATE
            time.sleep(max(due - time.perf_counter(), 0))
            assert post(connection, service.path, bodies[number % len(bodies)])
            taken[number] = time.perf_counter() - due

    warm = service.connect()
    for body in bodies[:50]:
        post(warm, service.path, body)
    _in_threads(request, range(n_threads))
    p50, p99 = np.percentile(1e3 * taken, [50, 99])
    return f"{n_requests:,} requests at {RATE}/s: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {1e3 * taken.max():.2f} ms"


class Wrk(NamedTuple):
    """What wrk reports: requests, seconds, percentiles in milliseconds, answers that are no success, and failures."""

    n_requests: int
    seconds: float
    p50: float
    p99: float
    refused: int
    failed: int


def run_wrk(service: Service, bodies: list[str], seconds: float) -> Wrk:
    """Request suggestions by wrk, as fast as they come."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is not installed (Debian: apt-get install wrk)")
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "bodies"
        lines.write_text("\n".join(bodies))
        script = Path(folder) / "post.lua"
        script.write_text(WRK.replace("BODIES", str(lines)))
        address = f"http://127.0.0.1:{service.port}{service.path}"
        command = [wrk, "-t2", "-c32", f"-d{int(seconds)}s", "--timeout", "10s", "-s", str(script), address]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", printed)
    assert found is not None, printed
    n, micros, p50, p99, refused, failed = map(int, found.groups())
    return Wrk(n, micros / 1e6, p50 / 1e3, p99 / 1e3, refused, failed)


def measure_saturation(service: Service, bodies: list[str], seconds: float) -> str:
    """Return requests per second and percentiles by wrk."""
    before = service.processor_seconds()
    found = run_wrk(service, bodies, seconds)
    used = service.processor_seconds() - before
    rate = f"{found.n_requests / found.seconds:,.0f} requests/s"
    cost = f"{1e3 * used / found.n_requests:.2f} ms of processor time per request"
    times = f"p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms"
    return f"{rate}, {times}, {cost}; {found.refused} refused, {found.failed} failed"


def measure_reloads(service: Service, bodies: list[str], n_requests: int) -> str:
    """Return the number of failures among requests during three reloads."""
    failures: list[str] = []
    done = [0] * 8

    def request(thread: int) -> None:
        connection = service.connect()
        for body in islice(cycle(bodies), n_requests // len(done)):
            try:
                if not post(connection, service.path, body):
                    failures.append("answer")
            except (OSError, http.client.HTTPException) as error:
                failures.append(repr(error))
                connection = service.connect()
            done[thread] += 1

    loading = [threading.Thread(target=request, args=(thread,)) for thread in range(len(done))]
    for thread in loading:
        thread.start()
    reloads = []
    for part in (0.1, 0.4, 0.7):
        while sum(done) < part * n_requests and any(thread.is_alive() for thread in loading):
            time.sleep(0.01)
        begin, connection = time.perf_counter(), service.connect()
        connection.request("POST", "/admin/reload")
        assert connection.getresponse().status == 200
        reloads.append(f"{time.perf_counter() - begin:.1f}")
    during = sum(done)
    for thread in loading:
        thread.join()
    counted = f"{sum(done):,} requests ({during:,} until the third reload ended)"
    return f"{counted}, {len(failures)} failures {failures[:3]}; reloads took {', '.join(reloads)} s"


def measure_long(service: Service, bodies: list[str], n_requests: int) -> str:
    """Return how the workers' memory grows over many requests."""
    done = bad = 0
    sizes = []
    for part in (0.1, 0.5, 1.0):
        while done < part * n_requests:
            found = run_wrk(service, bodies, 10)
            done, bad = done + found.n_requests, bad + found.refused + found.failed
        workers = service.workers()
        memory = {name: sum(_memory(pid, name) for pid in workers) / 1e6 for name in ("Private_", "Pss:", "Rss:")}
        sizes.append(f"{done:,}: " + ", ".join(f"{name.strip('_:')} {size:.1f} MB" for name, size in memory.items()))
    return f"{done:,} requests, {bad} refused or failed; memory of all workers after {'; '.join(sizes)}"


def measure_connections(service: Service, bodies: list[str], n_connections: int) -> str:
    """Return how other clients are answered while many connections are open and send nothing, or never end."""
    limit = min(n_connections + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    taken, failures, held = [], 0, []
    every = max(n_connections // 200, 1)
    for number in range(n_connections):
        held.append(socket.create_connection(("127.0.0.1", service.port)))
        if number % 2:
            held[-1].send(f"POST {service.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\ntext=".encode())
        if number % every == every - 1:
            begin, connection = time.perf_counter(), service.connect()
            failures += not post(connection, service.path, bodies[number % len(bodies)])
            taken.append(time.perf_counter() - begin)
            connection.close()
    open_now = sum(_is_open(one) for one in held)
    for one in held:
        one.close()
    p50, p99 = np.percentile(1e3 * np.array(taken), [50, 99])
    others = f"{len(taken)} other requests meanwhile: {failures} failures, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    return f"{n_connections:,} connections, {open_now:,} still open at the end; {others}"


def _is_open(connection: socket.socket) -> bool:
    """Return whether the service has not closed a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def measure_memory(service: Service, bodies: list[str]) -> str:
    """Return the private memory of each worker after some requests each."""
    for body in islice(cycle(bodies), 200 * len(service.workers())):
        post(service.connect(), service.path, body)  # a new connection each: they reach all workers
    written, read = (
        [_memory(pid, f"Private_{kind}") / 1e6 for pid in service.workers()] for kind in ("Dirty", "Clean")
    )
    sizes = ", ".join(
        f"{own:.1f} MB (and {mapped:.1f} MB of mapped files)" for own, mapped in zip(written, read, strict=True)
    )
    return f"private memory per worker: {sizes}"


def _in_threads(function: Callable[[int], None], numbers: range) -> None:
    failed: list[BaseException] = []

    def call(number: int) -> None:
        try:
            function(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def read_bodies(path: Path, n: int = 1000) -> list[str]:
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in islice(stream, n)]
    return [urllib.parse.urlencode({"text": text, "limit": 10}) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--reload-requests", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    parts = options.only.split(",")
    bodies = read_bodies(options.texts)
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.workers} workers")
    with serving(options.run, options.workers) as service:
        print(f"first start: ready after {service.ready}")
        if "memory" in parts:
            print(f"memory: {measure_memory(service, bodies)}", flush=True)
        if "latency" in parts:
            print(f"latency: {measure_latency(service, bodies, options.seconds)}", flush=True)
        if "saturation" in parts:
            print(f"saturation: {measure_saturation(service, bodies, options.seconds)}", flush=True)
        if "reload" in parts:
            print(f"reload: {measure_reloads(service, bodies, options.reload_requests)}")
        if "connections" in parts:
            print(f"connections: {measure_connections(service, bodies, options.connections)}", flush=True)
        if "long" in parts:
            print(f"long: {measure_long(service, bodies, options.long)}", flush=True)
    if "ready" in parts:
        with serving(options.run, options.workers) as service:
            print(f"ready after a warm start: {service.ready}")


if __name__ == "__main__":
    main()
