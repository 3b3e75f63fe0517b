"""Executor on a Dask cluster: workers receive keys, numbers and paths, and write their pieces to a shared disk."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from unmissed.errors import InputError, UnmissedError
from unmissed.execution.pieces import Piece
from unmissed.execution.threads import count_jobs
from unmissed.execution.work import Placed, SharedState, Task
from unmissed.files import open_regular

_AHEAD = 3  # tasks submitted ahead, per thread of the cluster
_REFRESH = 2.0  # seconds between two counts of the workers
_PATIENCE = 60.0  # seconds to wait for a scheduler and its first worker


class Dask:
    """An executor on the workers of a Dask cluster.

    Each worker opens the memory-mapped store and builds the shared state once. Its threads then run one task at a time
    and write the pieces into the run's folder. All workers and this process must see one disk under the same paths.
    Workers with another version of the code, with other data or without that disk are refused before training starts.

    Parameters
    ----------
    cluster : a `distributed.Client`, the address of a scheduler such as "tls://host:8786", or "local:2" for two worker
        processes on this machine, which listen on the loopback interface only
    dashboard : the address of Dask's dashboard of a local cluster, such as "localhost:8787"; none by default
    security : a `distributed.Security`, with the certificates to connect with; Dask's configuration by default
    patience : seconds to wait for the scheduler and for the first worker
    """

    elsewhere = True

    def __init__(
        self, cluster: Any, *, dashboard: str | None = None, security: Any = None, patience: float = _PATIENCE
    ) -> None:
        self._patience, self._security = patience, security
        self._counted = (float("-inf"), 1)
        self._own: list[Any] = []  # closed by `close`, in this order
        if dashboard is not None and not str(cluster).startswith("local:"):
            raise InputError("a dashboard needs a local cluster, local:N; other schedulers have their own")
        self._client = self._connect(cluster, dashboard) if isinstance(cluster, str) else cluster
        if not hasattr(self._client, "submit"):
            raise InputError(f"a cluster is a distributed.Client, an address or local:N; got {cluster!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and stop the cluster if this object started it; a client of the caller stays open."""
        for one in self._own:
            one.close()
        self._own.clear()

    def map(self, tasks: Iterable[Task], shared: SharedState) -> Iterator[Piece]:
        """Yield pieces in order of completion; tasks of lost workers run again on others."""
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        with _seen_by_all(first) as token:
            sent = Sent(_pack(shared), _stamp(), token)
            self._check_workers(sent)
            yield from self._results(chain([first], tasks), sent)

    def _results(self, tasks: Iterator[Task], sent: Sent) -> Iterator[Piece]:
        distributed = _distributed()
        nonce = uuid4().hex[:8]
        waiting = distributed.as_completed()
        under_way: set[Any] = set()

        def send() -> None:
            for task in islice(tasks, max(_AHEAD * self._n_threads() - len(under_way), 0)):
                name = f"unmissed-{task.key}-{nonce}"
                future = self._client.submit(_run, task, sent, key=name, pure=False)
                under_way.add(future)
                waiting.add(future)

        try:
            send()
            while under_way:
                future = next(waiting)
                under_way.discard(future)
                yield future.result()
                send()
        except distributed.KilledWorker as error:
            raise UnmissedError(f"a task lost its worker several times (out of memory?): {error}") from error
        except (CancelledError, OSError) as error:
            raise UnmissedError(
                "the connection to the cluster is lost; finished pieces are kept, call again to resume"
            ) from error
        finally:
            if under_way and self._client.status == "running":
                self._client.cancel(list(under_way))

    def _n_threads(self) -> int:
        """Return the total number of worker threads; the count is at most `_REFRESH` seconds old."""
        if self._client.status not in ("running", "connecting"):
            raise ConnectionError("the client is closed")
        if time.monotonic() > self._counted[0] + _REFRESH:
            self._counted = time.monotonic(), max(sum(self._client.nthreads().values()), 1)
        return self._counted[1]

    def _check_workers(self, sent: Sent) -> None:
        """Raise unless every worker can run the tasks."""
        try:
            self._client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError as error:
            raise UnmissedError(f"the cluster has no worker after {self._patience:g} seconds") from error
        for complaint in self._client.run(_complaint, sent, on_error="return").values():
            if complaint is not None:
                raise InputError(str(complaint))

    def _connect(self, cluster: str, dashboard: str | None) -> Any:
        distributed = _distributed()
        word, _, number = cluster.partition(":")
        if word == "local":
            if not number.isdecimal() or int(number) < 1:
                raise InputError(f"local:N is a number of worker processes, at least 1; got {cluster!r}")
            local = _local_cluster(int(number), dashboard, self._security)
            client = distributed.Client(local)
            self._own += [client, local]
            return client
        if "://" not in cluster:
            raise InputError(f"unknown cluster {cluster!r}; expected tcp://HOST:PORT, tls://HOST:PORT or local:N")
        try:
            client = distributed.Client(cluster, timeout=self._patience, security=self._security)
        except (OSError, ValueError, TypeError) as error:  # TypeError: tls:// without a certificate
            raise UnmissedError(f"no scheduler answers at {cluster}: {error}") from error
        self._own.append(client)
        return client


def open_dask(
    address: str,
    *,
    dashboard: str | None = None,
    tls_ca_file: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
) -> Dask:
    """Return the executor of a cluster's address; the TLS files are those of `dask scheduler`."""
    return Dask(address, dashboard=dashboard, security=tls_security(tls_ca_file, tls_cert, tls_key))


def tls_security(ca_file: str | None, cert: str | None, key: str | None) -> Any:
    """Return the `distributed.Security` for a CA file, a certificate and its key; None if no file is given.

    Traffic is then encrypted, and peers without a certificate of the CA are refused.
    """
    files = {"ca_file": ca_file, "cert": cert, "key": key}
    if not any(files.values()):
        return None
    missing = [f"--tls-{name.replace('_', '-')}" for name, value in files.items() if not value]
    if missing:
        raise InputError(f"TLS takes --tls-ca-file, --tls-cert and --tls-key together; missing: {', '.join(missing)}")
    for path in files.values():
        with open_regular(str(path)):
            pass
    pairs = {
        f"tls_{role}_{name}": files[name] for role in ("client", "scheduler", "worker") for name in ("cert", "key")
    }
    return _distributed().Security(tls_ca_file=ca_file, require_encryption=True, **pairs)


def _local_cluster(n_workers: int, dashboard: str | None, security: Any) -> Any:
    """Start a cluster on this machine that listens on the loopback interface only.

    Anyone who can connect to a scheduler can run code. Dask's HTTP servers cannot be turned off; without a dashboard
    they serve no pages.
    """
    import dask

    loopback = "127.0.0.1:0"  # any free port
    pages: dict[str, list[str]] = (
        {} if dashboard else {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    )
    with dask.config.set(pages):
        return _distributed().LocalCluster(
            n_workers=n_workers,
            threads_per_worker=max(count_jobs(None) // n_workers, 1),
            processes=True,
            host="127.0.0.1",
            memory_limit=0,  # Dask counts mapped files as memory and would stop workers that need little
            dashboard_address=dashboard or loopback,
            worker_dashboard_address=loopback,
            scheduler_kwargs={"dashboard": bool(dashboard)},
            security=security,
        )


@dataclass(frozen=True)
class Sent:
    """What is sent to a worker with every task.

    Parameters
    ----------
    packed : the pickled `SharedState`
    stamp : versions that the worker must have
    token : a file that the worker must see, or None if pieces are not on disk
    """

    packed: bytes
    stamp: dict[str, str]
    token: str | None

    @property
    def name(self) -> str:
        """A digest of the content."""
        return hashlib.sha256(repr((self.packed, self.stamp, self.token)).encode()).hexdigest()


class _Held:
    """Cache of the shared state in a worker process; it holds the last one only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._name = ""
        self._maker: Callable[[], Any] | None = None
        self._made: tuple[Any, ...] = ()

    def check(self, sent: Sent) -> None:
        """Raise unless this worker can run the tasks."""
        with self._lock:
            self._unpack(sent)

    def get(self, sent: Sent) -> Any:
        """Return the shared state, built on first use."""
        with self._lock:
            self._unpack(sent)
            if not self._made:
                assert self._maker is not None
                self._made = (self._maker(),)
            return self._made[0]

    def _unpack(self, sent: Sent) -> None:
        if self._name == sent.name:
            return
        import pickle

        self._name, self._maker, self._made = "", None, ()  # free the old state first
        _check_stamp(sent.stamp)
        if sent.token is not None and not Path(sent.token).is_file():
            raise InputError(f"{_here()} does not see {Path(sent.token).parent}; all workers need the same disk")
        try:
            self._maker = pickle.loads(sent.packed)
        except (ImportError, AttributeError) as error:
            raise InputError(f"{_here()} does not have the code that the tasks need: {error}") from error
        except UnmissedError as error:
            raise InputError(f"{_here()}: {error}") from error
        self._name = sent.name


_held = _Held()


def _run(task: Task, sent: Sent) -> Piece:
    """Run a task on this worker."""
    return task.run(_held.get(sent))


def _complaint(sent: Sent) -> str | None:
    """Return why this worker cannot run the tasks, or None if it can."""
    try:
        _held.check(sent)
    except UnmissedError as error:
        return str(error)
    return None


@contextmanager
def _seen_by_all(task: Task) -> Iterator[str | None]:
    """Create a token file next to the pieces while tasks run; a worker that does not see it has another disk."""
    if not isinstance(task, Placed):
        yield None
        return
    token = task.pieces.path.absolute() / f".{uuid4().hex}.part"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.touch()
    try:
        yield str(token)
    finally:
        token.unlink(missing_ok=True)


def _pack(shared: SharedState) -> bytes:
    """Pickle the shared state; raise if it holds a sparse matrix, since a cluster receives paths, not data."""
    import cloudpickle
    from scipy import sparse

    class Paths(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if sparse.issparse(obj):
                raise InputError(
                    "a cluster receives paths, not data: train from a store (`unmissed data convert` writes one); "
                    "a method whose shared state holds more than the rows trains on one machine"
                )
            return super().reducer_override(obj)

    target = io.BytesIO()
    Paths(target).dump(shared)
    return target.getvalue()


@cache
def _stamp() -> dict[str, str]:
    """Return the versions that every worker must have, because they can change results."""
    import numba
    import numpy
    import scipy

    from unmissed._version import __version__

    code = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {
        "unmissed": f"{__version__} ({code.hexdigest()[:8]})",
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


def _check_stamp(expected: dict[str, str]) -> None:
    for name, version in _stamp().items():
        if version != expected.get(name):
            raise InputError(f"{_here()} has {name} {version}; expected {expected.get(name)}, as this program has")


def _here() -> str:
    """Return the name of this worker for messages."""
    from distributed import get_worker

    try:
        return f"the worker {get_worker().address} on {platform.node()}"
    except ValueError:
        return f"the process {os.getpid()} on {platform.node()}"


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UnmissedError("a cluster needs Dask: pip install 'unmissed[dask]'") from error
    return distributed
