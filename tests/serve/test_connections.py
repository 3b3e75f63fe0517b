"""Connections: the longest waiting ones are closed if there are too many, and workers share those that arrive."""

import asyncio
import socket
from collections import Counter
from functools import partial

import pytest
import uvicorn
from uvicorn.server import ServerState

from unmissed.serve.connections import Acceptor, LimitedConnection
from unmissed.serve.limits import RequestLimits

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def few(monkeypatch):
    """Limits of three connections."""
    monkeypatch.setattr(LimitedConnection, "limits", RequestLimits(connections=3))
    monkeypatch.setattr(LimitedConnection, "waiting", {})


class Site:
    """A listening socket whose requests are answered in this event loop, by as many acceptors as there are answers."""

    def __init__(self, *answers):
        self.listener, self.writers = socket.create_server(("127.0.0.1", 0)), []
        self._states, self._acceptors, self._answers = [], [], answers

    async def __aenter__(self):
        self.listener.setblocking(False)
        return self

    async def __aexit__(self, *_):
        for acceptor in self._acceptors:
            acceptor.close()
            acceptor._listener.close()
        self.listener.close()
        for transport in [*self.writers, *(one.transport for state in self._states for one in state.connections)]:
            transport.close()
        await asyncio.sleep(0.05)

    def accept(self):
        """Begin to accept connections."""
        for answer in self._answers:
            config = uvicorn.Config(_app(answer), http=LimitedConnection, lifespan="off", log_config=None)
            config.load()
            self._states.append(state := ServerState())
            words = {"config": config, "server_state": state, "app_state": {}, "_loop": asyncio.get_running_loop()}
            make = partial(LimitedConnection, **words)
            self._acceptors.append(Acceptor(self.listener.dup(), make))
        return self

    async def connect(self, sent=b""):
        reader, writer = await asyncio.open_connection(*self.listener.getsockname())
        self.writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader, writer


def _app(answer):
    async def app(scope, receive, send):
        await answer()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    return app


async def is_closed(connection):
    try:
        return await asyncio.wait_for(connection[0].read(1), 0.2) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


async def status(connection, sent=REQUEST):
    connection[1].write(sent)
    return int((await asyncio.wait_for(connection[0].readuntil(b"\r\n\r\nok"), 10)).split()[1])


async def at_once():
    """Answer immediately."""


def test_the_connection_that_waits_longest_is_closed_for_a_new_one(few):
    async def work():
        async with Site(at_once) as site:
            site.accept()
            idle, slow, used = await site.connect(), await site.connect(REQUEST[:10]), await site.connect()
            assert await status(idle) == 200  # now it is the last of the three to wait
            fourth = await site.connect()
            assert [await is_closed(one) for one in (slow, used, idle, fourth)] == [True, False, False, False]
            fifth = await site.connect()
            assert [await is_closed(one) for one in (used, idle, fourth, fifth)] == [True, False, False, False]
            assert [await status(one) for one in (idle, fourth, fifth)] == [200, 200, 200]

    asyncio.run(work())


def test_a_new_connection_is_refused_only_if_all_others_have_requests(few):
    async def work():
        go = asyncio.Event()
        async with Site(go.wait) as site:
            site.accept()
            busy = [await site.connect(REQUEST) for _ in range(3)]
            refused, _ = await site.connect()
            assert (await asyncio.wait_for(refused.read(), 10)).startswith(b"HTTP/1.1 503 ")
            go.set()
            assert [await status(one, b"") for one in busy] == [200, 200, 200]
            assert await status(await site.connect()) == 200

    asyncio.run(work())


def test_workers_that_are_idle_share_connections_that_arrive_at_once():
    counts = Counter()

    async def count(worker):
        counts[worker] += 1

    async def work():
        async with Site(partial(count, "first"), partial(count, "second")) as site:
            waiting = [await site.connect(REQUEST) for _ in range(20)]
            site.accept()
            assert {await status(one, b"") for one in waiting} == {200}

    asyncio.run(work())
    assert counts == {"first": 10, "second": 10}
