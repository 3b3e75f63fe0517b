"""Shortcut: ASGI middleware that answers suggestions without the routing of FastAPI."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request
from fastapi.responses import Response

from unmissed.serve.endpoints import SUGGEST, answer_suggest
from unmissed.serve.gate import App, Receive, Scope, Send, path_of
from unmissed.serve.service import Service

Refuse = Callable[[Exception], Response | None]
"""Returns the answer to a request that an error ends; None if it is no error of the request."""


class Shortcut:
    """Answers `POST /v1/projects/ID/suggest` as the endpoint of FastAPI does, which documents it.

    Routing and exception handling of FastAPI nearly double what a request takes besides ranking.

    Parameters
    ----------
    app : answers all other requests
    service : ranks the texts
    refuse : makes answers of errors
    """

    def __init__(self, app: App, service: Service, refuse: Refuse) -> None:
        self._app, self._service, self._refuse = app, service, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        project_id = _project_of(scope)
        if project_id is None:
            await self._app(scope, receive, send)
            return
        scope["unmissed.route"] = f"{SUGGEST[0]}{{project_id}}{SUGGEST[1]}"
        try:
            response = await answer_suggest(self._service, project_id, Request(scope, receive))
        except Exception as error:
            refused = self._refuse(error)
            if refused is None:
                raise
            response = refused
        await response(scope, receive, send)


def _project_of(scope: Scope) -> str | None:
    """Return the id of the project that suggestions are requested of; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path, (begin, end) = path_of(scope), SUGGEST
    project_id = path[len(begin) : -len(end)]
    return project_id if path == f"{begin}{project_id}{end}" and project_id and "/" not in project_id else None
