"""LimitedConnection: an HTTP connection that limits headers, slow clients and the number of connections; Acceptor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from unmissed.serve.limits import RequestLimits
from unmissed.serve.problems import Problem

_PAUSE = 0.1  # seconds before connections are accepted again if the process had no file left


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's connection, with limits that uvicorn does not have.

    A request must arrive within `limits.seconds` after the connection was made or the request began, and a client that
    does not read its answer has as long. First line and headers may have `limits.headers` bytes. If there are more than
    `limits.connections`, the one is closed that has waited longest for a request; a new one is refused if all are busy.
    """

    limits = RequestLimits()
    waiting: dict[LimitedConnection, None] = {}  # noqa: RUF012, those of this process, the longest waiting first

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request, or close the connection if there are too many."""
        super().connection_made(transport)
        self._timer: Any = None
        self._n_header: int | None = 0  # None: the headers of the current request are complete
        if len(self.connections) > self.limits.connections and not self._close_another():
            self._refuse(Problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections", retry_after=1))
        else:
            self._wait(self.limits.seconds)
            self._set_waiting(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._forget()
        self._set_waiting(False)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count bytes of headers and parse."""
        if self.transport.is_closing():
            return
        if self._n_header is not None:
            self._n_header += len(data)
        super().data_received(data)
        if self._n_header is not None and self._n_header > self.limits.headers:
            self._refuse(Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large"))

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._n_header = 0
        self._wait(self.limits.seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; parsed ones count, too, if many come in one packet."""
        super().on_header(name, value)
        if len(self.headers) > 200:
            self._refuse(Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "more than 200 headers"))

    def on_headers_complete(self) -> None:
        """Start to answer, unless the request was refused."""
        too_long = sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > self.limits.headers
        if too_long:
            self._refuse(Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large"))
        self._n_header = None
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body, unless the request was refused."""
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop to wait: the request is there. uvicorn has a timer for idle connections."""
        self._forget()
        self._set_waiting(False)
        self._n_header = 0
        if self.cycle is not None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for another request."""
        has_another = bool(self.pipeline)  # which is answered next
        super().on_response_complete()
        self._set_waiting(not has_another and not self.transport.is_closing())

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read its answer."""
        super().pause_writing()
        self._wait(self.limits.seconds)

    def resume_writing(self) -> None:
        """Go on to write."""
        super().resume_writing()
        self._forget()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP request."""
        self._refuse(Problem(HTTPStatus.BAD_REQUEST, msg))

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered without the upgrade."""

    def _refuse(self, problem: Problem) -> None:
        """Send an error and close the connection."""
        if self.transport.is_closing():
            return
        self._forget()
        body = problem.body()
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, **problem.headers}.items())
        self.transport.write(STATUS_LINE[problem.status] + lines.encode() + b"\r\n" + body)
        self.transport.close()

    def _set_waiting(self, waits: bool) -> None:
        """Put the connection behind all others that wait for a request, or remove it from them."""
        self.waiting.pop(self, None)
        if waits:
            self.waiting[self] = None

    def _close_another(self) -> bool:
        """Close the connection that has waited longest for a request; return whether there was one."""
        longest = next(iter(self.waiting), None)
        if longest is None:
            return False
        longest._set_waiting(False)
        longest.transport.abort()
        return True

    def _wait(self, seconds: float) -> None:
        self._forget()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Acceptor:
    """Accepts connections one by one, so that workers share those that arrive at the same time.

    The event loop's own server accepts all that wait: one worker would get them all, and answer them alone for as long
    as clients keep them open.

    Parameters
    ----------
    listener : the listening socket, which other workers accept from, too
    make_protocol : makes the protocol of a connection
    """

    def __init__(self, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener, self._make_protocol = listener, make_protocol
        self._starting: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._resume()

    def close(self) -> None:
        """Accept no further connections."""
        self._is_closed = True
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Wait until accepted connections have begun."""
        if self._starting:
            await asyncio.wait(self._starting)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client left
        except OSError:  # no file or memory is left
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_PAUSE, self._resume)
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._begin(connection))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client left
            connection.close()
