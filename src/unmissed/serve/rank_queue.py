"""RankQueue: texts of requests that wait at the same time are ranked together; long ones in a thread of their own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from unmissed.runs.exploration import LabelList
from unmissed.serve.projects import Project

T = TypeVar("T")
_SHORT = 20_000  # characters that are ranked in the event loop, in a few milliseconds


class _Request(NamedTuple):
    """The texts of a request; those with equal `kind` are ranked together."""

    kind: tuple[Project, int, float]
    texts: list[str]
    answer: asyncio.Future[list[LabelList]]

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.texts))


class RankQueue:
    """Ranks texts: short ones in the event loop, because a thread would cost them more time than it saves others.

    Long texts, and those that an encoder embeds, are ranked in a thread, so that the event loop answers meanwhile.
    Rankings do not depend on what is ranked with them.

    Parameters
    ----------
    batch : largest number of texts that are ranked together
    """

    def __init__(self, batch: int = 32) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="unmissed-rank")
        self._short = _Lane(batch, _SHORT, _call_now)
        self._long = _Lane(batch, None, self._call_in_thread)

    async def suggest(self, project: Project, texts: list[str], k: int, threshold: float) -> list[LabelList]:
        """Return the labels of each text."""
        request = _Request((project, k, threshold), texts, asyncio.get_running_loop().create_future())
        is_short = not project.has_encoder and request.size <= _SHORT
        (self._short if is_short else self._long).add(request)
        return await request.answer

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns in the thread."""
        return await self._call_in_thread(function, *arguments)

    def _call_in_thread(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


class _Lane:
    """Requests that wait, and those that are ranked together now.

    Parameters
    ----------
    batch, size : largest numbers of texts and of characters that are ranked together; None is no limit
    call : calls a function and returns the future of its result
    """

    def __init__(self, batch: int, size: int | None, call: Callable[..., asyncio.Future[list[LabelList]]]) -> None:
        self._batch, self._size, self._call = batch, size, call
        self._waiting: deque[_Request] = deque()
        self._is_busy = False

    def add(self, request: _Request) -> None:
        """Rank a request together with those that the event loop has read at the same time."""
        self._waiting.append(request)
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._start_next)

    def _start_next(self) -> None:
        """Rank the requests that wait longest."""
        requests = self._next_requests()
        self._is_busy = bool(requests)
        if requests:
            self._rank(requests)

    def _next_requests(self) -> list[_Request]:
        """Take the first request, and those after it that can be ranked with it."""
        taken: list[_Request] = []
        n_texts = size = 0
        while self._waiting:
            first = self._waiting[0]
            if first.answer.cancelled():
                self._waiting.popleft()
                continue
            n_texts, size = n_texts + len(first.texts), size + first.size
            is_too_much = n_texts > self._batch or (self._size is not None and size > self._size)
            if taken and (first.kind != taken[0].kind or is_too_much):
                break
            taken.append(self._waiting.popleft())
        return taken

    def _rank(self, requests: list[_Request]) -> None:
        texts = [text for request in requests for text in request.texts]
        project, k, threshold = requests[0].kind
        ranking = self._call(project.suggest, texts, k, threshold)
        ranking.add_done_callback(lambda done: self._answer(requests, done))

    def _answer(self, requests: list[_Request], done: asyncio.Future[list[LabelList]]) -> None:
        """Hand out the labels; if ranking failed, rank each request by itself, so that only the faulty one fails."""
        error = done.exception()
        if error is None:
            rows = iter(done.result())
            for request in requests:
                labels = [next(rows) for _ in request.texts]
                if not request.answer.done():
                    request.answer.set_result(labels)
        elif len(requests) == 1:
            if not requests[0].answer.done():
                requests[0].answer.set_exception(error)
        else:
            for request in requests:
                self._rank([request])
            return
        asyncio.get_running_loop().call_soon(self._start_next)  # after these answers have been sent


def _call_now(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Call a function; return the future of its result, whose callbacks run when the event loop has read more."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    try:
        done.set_result(function(*arguments))
    except Exception as error:
        done.set_exception(error)
    return done
