"""Gate: ASGI middleware that checks, limits and records each request before an endpoint sees it."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from unmissed.serve.problems import Problem
from unmissed.serve.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_logger = logging.getLogger(__name__)
_OPEN = ("/", "/docs", "/openapi.json")  # without a token: they hold no data
_OPEN_FOLDERS = ("/health/", "/docs/")
_RELOAD = "/admin/reload"  # takes as long as the runs need
_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (
        b"content-security-policy",  # page and documentation have their scripts and styles inside
        b"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]
_TYPE = b"application/json"
_BUFFERED = 16  # largest bodies that may be in memory at the same time


class _Exchange:
    """One request and what is recorded about it."""

    def __init__(self, scope: Scope, send: Send, service: Service) -> None:
        self.scope, self._send, self._service = scope, send, service
        self.status, self.n_received, self.n_sent = 0, 0, 0
        self.begin = time.perf_counter()
        self.record: dict[str, Any] = {}
        scope["unmissed.record"] = self.record

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_SECURITY]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            if self._service.is_draining:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        else:
            self.n_sent += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, problem: Problem, *, close: bool = False) -> None:
        """Send an error, unless the answer has begun."""
        if self.status:
            return
        body = problem.body()
        headers = [(b"content-type", _TYPE), (b"content-length", str(len(body)).encode())]
        headers += [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        if close:
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def finish(self) -> None:
        """Count and log the request."""
        seconds = time.perf_counter() - self.begin
        route = self.scope.get("unmissed.route") or getattr(self.scope.get("route"), "path", None)
        method = self.scope["method"] if route else "other"
        self._service.metrics.end(route or "other", method, self.status, seconds)
        log = self._service.options.log
        if log is not None:
            client = self.scope.get("client")
            log(
                {
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "client": client[0] if client else None,
                    "method": self.scope["method"],
                    "path": self.scope["path"][:200],
                    "status": self.status,
                    "ms": round(seconds * 1000, 2),
                    "received": self.n_received,
                    "sent": self.n_sent,
                    **self.record,
                }
            )


class Gate:
    """ASGI middleware: token, sizes, concurrency and time of requests; security headers; metrics and access log.

    Parameters
    ----------
    app : the application behind it
    service : its limits, options and metrics
    """

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._service, self._limits = app, service, service.limits
        token = service.options.token
        self._token = None if token is None else f"Bearer {token}".encode()
        self._n_open = self._n_buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._service)
        self._service.metrics.begin()
        try:
            await self._answer(exchange, receive)
        except Problem as problem:
            await exchange.refuse(problem, close=problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except Exception as error:  # a client gets one line, never a traceback
            _logger.error("%s: %s", type(error).__name__, " ".join(str(error).split())[:500])
            _logger.debug("traceback", exc_info=error)
            await exchange.refuse(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the service failed; its log says why"))
        finally:
            exchange.finish()

    async def _answer(self, exchange: _Exchange, receive: Receive) -> None:
        scope = exchange.scope
        headers = dict(scope["headers"])
        self._check_token(scope, headers)
        body = await self._read(exchange, headers, receive)
        if body is None:
            exchange.status = 499  # the client left, as nginx counts it
            return
        try:
            await self._admit(exchange, body)
        finally:
            self._n_buffered -= len(body)

    async def _admit(self, exchange: _Exchange, body: bytes) -> None:
        """Let the application answer, if it is not busy, within the time limit."""
        if self._n_open >= self._limits.concurrent:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at the same time", retry_after=1)
        self._n_open += 1
        try:
            async with asyncio.timeout(None if path_of(exchange.scope) == _RELOAD else self._limits.seconds):
                await self._app(exchange.scope, _replay(body), exchange.send)
        except TimeoutError:
            limit = f"the request took more than {self._limits.seconds:g} s"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, limit, retry_after=5) from None
        finally:
            self._n_open -= 1

    def _check_token(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        path = path_of(scope)
        if self._token is None or path in _OPEN or path.startswith(_OPEN_FOLDERS) or _is_preflight(scope, headers):
            return
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            raise Problem(HTTPStatus.UNAUTHORIZED, "send the token of this service: Authorization: Bearer TOKEN")

    async def _read(self, exchange: _Exchange, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the body of a request; None if the client left. The caller subtracts its size from `_n_buffered`."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._limits.body:
            raise self._too_large()
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    part = message.get("body", b"")
                    exchange.n_received += len(part)
                    self._n_buffered += len(part)
                    parts.append(part)
                    if exchange.n_received > self._limits.body:
                        raise self._too_large()
                    if self._n_buffered > _BUFFERED * self._limits.body:
                        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests", retry_after=1)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except BaseException as error:
            self._n_buffered -= exchange.n_received
            if isinstance(error, TimeoutError):
                late = f"the request did not arrive within {self._limits.seconds:g} s"
                raise Problem(HTTPStatus.REQUEST_TIMEOUT, late) from None
            raise
        self._n_buffered -= exchange.n_received
        return None

    def _too_large(self) -> Problem:
        return Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request has more than {self._limits.body:,} bytes; send less"
        )


def path_of(scope: Scope) -> str:
    """Return the path below the address at which the application is mounted."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _is_preflight(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Return whether a browser asks what it may send; it cannot send the token with that."""
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _replay(body: bytes) -> Receive:
    """Return a function that gives the application the body that was read, and then waits."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()  # nothing more comes; the time limit ends it
        raise AssertionError

    return receive
