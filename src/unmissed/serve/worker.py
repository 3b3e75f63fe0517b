"""Worker: the process that answers requests, forked from a process that has the runs opened."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from unmissed.errors import InputError
from unmissed.serve.application import build_app
from unmissed.serve.connections import Acceptor, LimitedConnection
from unmissed.serve.projects import Project
from unmissed.serve.service import Options, Service
from unmissed.serve.service_metrics import share_metrics

STOP = b"s"  # through the pipe of a generation: stop; its end without it: another generation took over
_KEEP_ALIVE = 75  # seconds: longer than nginx keeps idle connections, so that nginx closes them
_OTHER_FILES = 100  # besides connections and what is open when the worker starts, such as memory-mapped arrays
_LINGER = 2.0  # seconds in which clients of a replaced worker send another request and learn to reconnect


class Server(uvicorn.Server):
    """uvicorn's server, with an `Acceptor`; it reports when it accepts connections."""

    def __init__(self, config: uvicorn.Config, report: Callable[[], None]) -> None:
        super().__init__(config)
        self._report = report

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report it."""
        config, state = self.config, self.server_state
        loop = asyncio.get_running_loop()

        def make_protocol() -> asyncio.Protocol:
            return LimitedConnection(config=config, server_state=state, app_state={}, _loop=loop)

        self.servers: list[Any] = []
        for listener in sockets or []:
            listener.setblocking(False)
            listener.listen(config.backlog)
            self.servers.append(Acceptor(listener, make_protocol))
        self.started = True
        self._report()


def run_worker(
    projects: dict[str, Project],
    options: Options,
    listener: socket.socket,
    lifeline: int,
    requests: socket.socket,
    metrics: tuple[str, str],
    report: Callable[[], None],
) -> None:
    """Answer requests until the pipe `lifeline` ends, or until SIGTERM.

    Parameters
    ----------
    projects : the opened runs
    options : what the operator chose
    listener : the listening socket, which all workers share
    lifeline : the reading end of the generation's pipe
    requests : where the supervisor takes requests for reloads
    metrics : folder and slot of the metrics
    report : called when the worker accepts connections
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    share_metrics(*metrics)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def serve() -> None:
        service = Service(projects, options, lambda: _request_reload(requests))
        server = Server(_config(service), report)
        asyncio.get_running_loop().add_reader(lifeline, _end, service, server, lifeline)
        await server.serve(sockets=[listener])

    LimitedConnection.limits = options.limits
    _raise_file_limit(len(os.listdir("/dev/fd")) + options.limits.connections + _OTHER_FILES)
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())


def _raise_file_limit(n_files: int) -> None:
    """Raise the limit of open files of this process to `n_files`, if the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < n_files:
        most = n_files if hard == resource.RLIM_INFINITY else min(n_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        build_app(service),
        http=LimitedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(service.limits.seconds) + 1,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not available for this system
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _end(service: Service, server: uvicorn.Server, lifeline: int) -> None:
    """Stop, or let clients finish if another generation took over."""
    loop = asyncio.get_running_loop()
    loop.remove_reader(lifeline)
    for one in server.servers:
        one.close()  # others accept from now on
    service.is_draining = True
    if os.read(lifeline, 1) == STOP:
        service.is_stopping = server.should_exit = True
    else:
        loop.call_later(_LINGER, setattr, server, "should_exit", True)


async def _request_reload(requests: socket.socket) -> list[str]:
    """Let the supervisor reload; return the ids of the projects."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        socket.send_fds(requests, [b"reload"], [theirs.fileno()])
        theirs.close()
        mine.setblocking(False)
        answer = b""
        while part := await asyncio.get_running_loop().sock_recv(mine, 1 << 16):
            answer += part
    result, _, text = answer.decode("utf-8", "replace").partition("\n")
    if result != "ok":
        raise InputError(text or "the supervisor is gone")
    return text.split("\n") if text else []
