"""RankQueue: one thread that computes; texts of requests that wait at the same time are ranked together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from unmissed.runs.exploration import LabelList
from unmissed.serve.projects import Project

T = TypeVar("T")


class _Request(NamedTuple):
    """The texts of a request; those with equal `kind` are ranked together."""

    kind: tuple[Project, int, float]
    texts: list[str]
    answer: asyncio.Future[list[LabelList]]


class RankQueue:
    """Ranks in a thread of its own, so that the event loop answers meanwhile.

    Texts that wait while others are ranked are ranked together afterwards: the cost per call counts once for them.
    Rankings do not depend on what is ranked with them.

    Parameters
    ----------
    batch : largest number of texts that are ranked together
    """

    def __init__(self, batch: int = 32) -> None:
        self._batch = batch
        self._waiting: deque[_Request] = deque()
        self._is_busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="unmissed-rank")

    async def suggest(self, project: Project, texts: list[str], k: int, threshold: float) -> list[LabelList]:
        """Return the labels of each text."""
        request = _Request((project, k, threshold), texts, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._start_next()
        return await request.answer

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _start_next(self) -> None:
        """Rank the requests that wait longest, unless the thread is busy."""
        if self._is_busy:
            return
        requests = self._next_requests()
        if requests:
            self._is_busy = True
            self._rank(requests)

    def _next_requests(self) -> list[_Request]:
        """Take the first request, and those after it that can be ranked with it."""
        taken: list[_Request] = []
        n_texts = 0
        while self._waiting:
            first = self._waiting[0]
            if first.answer.cancelled():
                self._waiting.popleft()
                continue
            if taken and (first.kind != taken[0].kind or n_texts + len(first.texts) > self._batch):
                break
            taken.append(self._waiting.popleft())
            n_texts += len(first.texts)
        return taken

    def _rank(self, requests: list[_Request]) -> None:
        texts = [text for request in requests for text in request.texts]
        project, k, threshold = requests[0].kind
        ranking = asyncio.get_running_loop().run_in_executor(self._thread, project.suggest, texts, k, threshold)
        ranking.add_done_callback(lambda done: self._answer(requests, done))

    def _answer(self, requests: list[_Request], done: asyncio.Future[list[LabelList]]) -> None:
        """Hand out the labels; if ranking failed, rank each request by itself, so that only the faulty one fails."""
        self._is_busy = False
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
                self._is_busy = True
                self._rank([request])
        self._start_next()
