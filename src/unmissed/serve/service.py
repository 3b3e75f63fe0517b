"""Service: the state that all requests of a process share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from unmissed.serve.limits import RequestLimits
from unmissed.serve.problems import Problem
from unmissed.serve.projects import Project
from unmissed.serve.rank_queue import RankQueue
from unmissed.serve.service_metrics import ServiceMetrics

Reload = Callable[[], Awaitable[list[str]]]
"""Opens all runs again and returns the ids of the projects; raises InputError if that fails."""
Log = Callable[[dict[str, Any]], None]
"""Takes the record of a request."""


@dataclass(frozen=True)
class Options:
    """What an operator chooses.

    Parameters
    ----------
    limits : limits of requests
    token : what clients must send as `Authorization: Bearer TOKEN`; None if everybody may use the service
    origins : origins (such as https://example.org) whose pages may use the service (CORS); `*` for all
    log : takes a record per request; None for no access log
    log_texts : add the texts to the records
    """

    limits: RequestLimits = field(default_factory=RequestLimits)
    token: str | None = None
    origins: Sequence[str] = ()
    log: Log | None = None
    log_texts: bool = False


class Service:
    """Projects, queue and metrics of this process.

    Parameters
    ----------
    projects : the opened runs; `replace` exchanges all of them at once
    options : what the operator chose
    reload : opens the runs again
    """

    def __init__(self, projects: dict[str, Project], options: Options, reload: Reload) -> None:
        self.projects = projects
        self.options = options
        self.limits = options.limits
        self.queue = RankQueue(options.limits.batch)
        self.metrics = ServiceMetrics(lambda: self.projects)
        self.is_draining = False  # answers say `Connection: close`
        self.is_stopping = False  # not ready
        self._reload = reload
        self._lock = asyncio.Lock()

    def project(self, name: str | None) -> Project:
        """Return a project, by default the first; raise Problem if there is none of this name."""
        projects = self.projects
        found = next(iter(projects.values())) if name is None else projects.get(name)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"no project {name!r:.80}; there are {', '.join(projects)}"[:300])
        return found

    async def reload(self) -> list[str]:
        """Open all runs again; return the ids of the projects."""
        async with self._lock:
            succeeded = False
            try:
                names = await self._reload()
                succeeded = True
            finally:
                self.metrics.reload(succeeded)
            return names
