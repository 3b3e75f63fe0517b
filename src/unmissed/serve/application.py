"""The application: endpoints, page and documentation behind the gate, as one ASGI app."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from unmissed._version import __version__
from unmissed.errors import InputError
from unmissed.serve.endpoints import create_router
from unmissed.serve.gate import Gate
from unmissed.serve.problems import Problem
from unmissed.serve.projects import RunPaths, check_paths, open_projects
from unmissed.serve.service import Options, Service
from unmissed.serve.shortcut import Shortcut

_DAY = {"cache-control": "public, max-age=86400"}
_SWAGGER = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon-32x32.png": "image/png"}


def create_app(runs: RunPaths, **options: Any) -> FastAPI:
    """Return an ASGI application over runs, opened and warm, to be run by any ASGI server or mounted in another app.

    `POST /admin/reload` opens the runs again in this process; requests that began before are answered by the old ones.

    Parameters
    ----------
    runs : folders of runs
    options : `limits`, `token`, `origins`, `log` and `log_texts`, as `unmissed.serve.service.Options` has them
    """
    paths = list(check_paths(runs).values())

    async def reload() -> list[str]:
        app.state.service.projects = opened = await asyncio.to_thread(open_projects, paths)
        return list(opened)

    app = build_app(Service(open_projects(paths), Options(**options), reload))
    return app


def build_app(service: Service) -> FastAPI:
    """Return the application of a service."""
    app = FastAPI(
        title="unmissed",
        version=__version__,
        description="Suggests labels for texts by trained runs. `score` is a probability if the run is calibrated.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(create_router(service))
    _add_pages(app)
    _add_errors(app)
    app.add_middleware(Shortcut, service=service, refuse=_refusal)
    if service.options.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.options.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Gate, service=service)
    if service.options.token is not None:
        _describe_token(app)
    return app


def _add_pages(app: FastAPI) -> None:
    """Add the page and the documentation, whose files are inside installed packages."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(_file("unmissed.serve", "page.html"))

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        return get_swagger_ui_html(
            openapi_url=f"{root}/openapi.json",
            title="unmissed: API",
            swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/favicon-32x32.png",
            swagger_ui_parameters={"validatorUrl": None},  # of another host
        )

    @app.get("/docs/{name}", include_in_schema=False)
    async def swagger(name: str) -> Response:
        if name not in _SWAGGER:
            raise Problem(404, "no such file")
        return Response(_file("fastapi_swagger.resources", name), media_type=_SWAGGER[name], headers=_DAY)


@cache
def _file(package: str, name: str) -> bytes:
    return (resources.files(package) / name).read_bytes()


def _add_errors(app: FastAPI) -> None:
    """Answer every error in the form of `Problem`."""

    async def refuse(_: Request, error: Exception) -> Response:
        response = _refusal(error)
        assert response is not None  # it is called for these errors only
        return response

    for kind in (Problem, InputError, RequestValidationError):
        app.add_exception_handler(kind, refuse)

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        what = {404: "nothing here; /docs lists all addresses", 405: f"{request.method} is not possible here"}
        return _respond(Problem(error.status_code, what.get(error.status_code, str(error.detail))), error.headers)


def _refusal(error: Exception) -> Response | None:
    """Return the answer to a request that was wrong; None if the error is another one."""
    if isinstance(error, RequestValidationError):
        return _respond(Problem(422, "; ".join(map(_first, list(error.errors())[:3]))))
    if isinstance(error, InputError):
        return _respond(Problem(400, str(error)))
    if isinstance(error, HTTPException):  # a form that is not well formed
        return _respond(Problem(error.status_code, str(error.detail)), error.headers)
    return _respond(error) if isinstance(error, Problem) else None


def _respond(problem: Problem, headers: Any = None) -> Response:
    return Response(
        problem.body(), problem.status, media_type="application/json", headers={**(headers or {}), **problem.headers}
    )


def _first(error: Any) -> str:
    """Return where a request is wrong and why, without the value that was sent."""
    where: Sequence[Any] = error.get("loc", ())
    return f"{'.'.join(str(one)[:40] for one in where)}: {error.get('msg', 'invalid')}"[:200]


def _describe_token(app: FastAPI) -> None:
    """Say in the documentation that requests need a token."""
    schema = app.openapi()
    schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
