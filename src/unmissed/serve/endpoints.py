"""Endpoints: what each address of the service answers."""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from unmissed.data.unicode import check_string
from unmissed.errors import InputError
from unmissed.runs.exploration import LabelList, explain_text, label_neighbors
from unmissed.runs.inspection import strongest_features
from unmissed.serve import messages as m
from unmissed.serve.problems import Problem
from unmissed.serve.projects import Project
from unmissed.serve.service import Service

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": m.SuggestForm.model_json_schema()}
            for kind in ("application/x-www-form-urlencoded", "multipart/form-data")
        },
    }
}
SUGGEST = "/v1/projects/", "/suggest"  # around the id of a project
_N_FEATURES, _N_NEIGHBORS = 20, 10
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": m.ProblemMessage} for code in (400, 401, 404, 413, 415, 422, 503)
}


def create_router(service: Service) -> APIRouter:
    """Return the routes of a service."""
    router = APIRouter(responses=_PROBLEMS)
    _add_suggestions(router, service)  # the first routes are found fastest
    _add_projects(router, service)
    _add_labels(router, service)
    _add_operation(router, service)
    return router


def _add_projects(router: APIRouter, service: Service) -> None:
    @router.get("/v1/projects", response_model=m.ProjectList, tags=["projects"])
    async def list_projects() -> Response:
        """List the projects: the runs of this service."""
        return _json({"projects": [_describe(project) for project in service.projects.values()]})

    @router.get("/v1/projects/{project_id}", response_model=m.ProjectMessage, tags=["projects"])
    async def show_project(project_id: str) -> Response:
        """Show a project."""
        return _json(_describe(service.project(project_id)))


def _add_suggestions(router: APIRouter, service: Service) -> None:
    @router.post(
        f"{SUGGEST[0]}{{project_id}}{SUGGEST[1]}",
        response_model=m.SuggestAnswer,
        tags=["suggestions"],
        openapi_extra=_FORM,
    )
    async def suggest(project_id: str, request: Request) -> Response:
        """Suggest labels for a text, as Annif does."""
        return await answer_suggest(service, project_id, request)

    @router.post("/v1/projects/{project_id}/suggest-batch", response_model=list[m.BatchAnswer], tags=["suggestions"])
    async def suggest_batch(
        project_id: str, batch: m.Batch, request: Request, limit: m.Limit = 10, threshold: m.Threshold = 0.0
    ) -> Response:
        """Suggest labels for several texts, as Annif does."""
        project = service.project(project_id)
        texts = [document.text for document in batch.documents]
        ranked = await _rank(service, request, project, texts, limit, threshold)
        return _json(
            [
                {
                    "document_id": document.document_id,
                    "results": _results(project, labels),
                    "no_known_words": labels.no_known_words,
                }
                for document, labels in zip(batch.documents, ranked, strict=True)
            ]
        )

    @router.post("/predict", response_model=list[m.LabelScore] | list[list[m.LabelScore]], tags=["suggestions"])
    async def predict(body: m.PredictRequest, request: Request) -> Response:
        """Classify one or several texts, as Hugging Face's text classification does."""
        project = service.project(body.parameters.project)
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        ranked = await _rank(service, request, project, texts, body.parameters.top_k, 0.0)
        found = [
            [{"label": project.labels.title(one.label), "score": one.score} for one in labels] for labels in ranked
        ]
        return _json(found[0] if isinstance(body.inputs, str) else found)

    @router.post("/v1/projects/{project_id}/explain", response_model=m.ExplainAnswer, tags=["suggestions"])
    async def explain(project_id: str, body: m.ExplainRequest, request: Request) -> Response:
        """Show which words of a text contribute how much to a label's raw score."""
        project = service.project(project_id)
        label = _find(project, body.label)
        _check_texts(service, request, [body.text])
        found = await service.queue.call(explain_text, project.run, body.text, label, body.limit)
        return _json(
            {
                **_label(project, label),
                **found._asdict(),
                "contributions": [one._asdict() for one in found.contributions],
            }
        )


async def answer_suggest(service: Service, project_id: str, request: Request) -> Response:
    """Suggest labels for the text of a form."""
    project = service.project(project_id)
    form = await _read_form(request)
    (labels,) = await _rank(service, request, project, [form.text], form.limit, form.threshold)
    kind = "probability" if project.is_calibrated else "score"
    return _json({"results": _results(project, labels), "score": kind, "no_known_words": labels.no_known_words})


def _add_labels(router: APIRouter, service: Service) -> None:
    @router.get("/v1/projects/{project_id}/labels", response_model=m.LabelSearch, tags=["labels"])
    async def search_labels(
        project_id: str,
        query: Annotated[str, Query(max_length=1000, description="The beginning of a title or identifier.")] = "",
        limit: m.Limit = 20,
    ) -> Response:
        """Find labels by the beginning of their titles or identifiers, the most frequent ones first."""
        project = service.project(project_id)
        found = await service.queue.call(project.labels.search, query, min(limit, service.limits.labels))
        return _json({"labels": [_counted(project, label) for label in found]})

    @router.get("/v1/projects/{project_id}/labels/{uri:path}", response_model=m.LabelDetails, tags=["labels"])
    async def show_label(project_id: str, uri: str) -> Response:
        """Show a label: its number of training positives, its largest weights, and labels with similar weights."""
        project = service.project(project_id)
        label = _find(project, uri)
        return _json(await service.queue.call(_details, project, label))


def _add_operation(router: APIRouter, service: Service) -> None:
    @router.get("/health/live", response_model=m.Health, tags=["operation"])
    async def live() -> Response:
        """Answer if the process is alive."""
        return _json({"status": "ok"})

    @router.get("/health/ready", response_model=m.Health, tags=["operation"])
    async def ready() -> Response:
        """Answer 200 if the runs are opened and warm, 503 while the service stops."""
        if service.is_stopping:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "the service is stopping", retry_after=5)
        return _json({"status": "ok"})

    @router.get("/metrics", response_class=Response, tags=["operation"])
    async def metrics() -> Response:
        """Return metrics for Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.post(
        "/admin/reload",
        response_model=m.ReloadAnswer,
        tags=["operation"],
        responses={code: {"model": m.ProblemMessage} for code in (403, 409)},
    )
    async def reload(request: Request) -> Response:
        """Open all runs again; the old ones answer until then, and stay if that fails. From this machine, or with a
        token.
        """
        if service.options.token is None and not _is_local(request):
            raise Problem(HTTPStatus.FORBIDDEN, "reload from the machine of the service, or start it with a token")
        try:
            return _json({"reloaded": await service.reload()})
        except (InputError, OSError) as error:
            raise Problem(HTTPStatus.CONFLICT, f"the old runs stay: {error}") from None


def _json(value: Any) -> Response:
    return JSONResponse(value)


def _describe(project: Project) -> dict[str, Any]:
    run = project.run
    return {
        "project_id": project.id,
        "name": project.id,
        "language": None if run.vocabulary is None else run.vocabulary.language,
        "backend": {"backend_id": run.recipe.method},
        "is_trained": True,
        "modification_time": project.modification_time,
        "n_labels": run.n_labels,
        "n_features": run.n_features,
        "takes_text": project.takes_text,
        "probabilities": "observed" if project.is_calibrated else None,
        "explains": project.explains,
    }


def _label(project: Project, label: int) -> dict[str, Any]:
    return {"uri": project.labels.name(label), "label": project.labels.title(label)}


def _counted(project: Project, label: int) -> dict[str, Any]:
    counts = project.run.label_counts
    return {**_label(project, label), "count": None if counts is None else int(counts[label])}


def _details(project: Project, label: int) -> dict[str, Any]:
    features = strongest_features(project.run, label, _N_FEATURES) if project.explains else []
    return {
        **_counted(project, label),
        "features": [
            {"feature": one.name or f"feature {one.number}", "weight": one.weight} for one in features if one.weight
        ],
        "neighbors": [
            {**_label(project, one.label), "similarity": one.similarity}
            for one in label_neighbors(project.run, label, _N_NEIGHBORS)
        ],
    }


def _results(project: Project, labels: LabelList) -> list[dict[str, Any]]:
    return [
        {
            **_label(project, one.label),
            "notation": project.labels.notation(one.label),
            "score": one.score,
            "margin": one.margin,
        }
        for one in labels
    ]


def _find(project: Project, name: str) -> int:
    label = project.labels.find(name)
    if label < 0:
        raise Problem(HTTPStatus.NOT_FOUND, f"no label {name[:80]!r} in {project.id}; search with labels?query=")
    return label


async def _rank(
    service: Service, request: Request, project: Project, texts: list[str], limit: int, threshold: float
) -> list[LabelList]:
    """Return the labels of texts, after checking them."""
    if not project.takes_text:
        raise Problem(HTTPStatus.BAD_REQUEST, f"{project.id} was not trained on texts; it cannot rank them")
    _check_texts(service, request, texts)
    service.metrics.texts(project.id, len(texts))
    if not texts:
        return []
    return await service.queue.suggest(project, texts, min(limit, service.limits.labels), threshold)


def _check_texts(service: Service, request: Request, texts: list[str]) -> None:
    """Raise Problem if texts exceed a limit, or InputError if one is no text; record their number."""
    limits = service.limits
    if len(texts) > limits.batch:
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{len(texts)} texts; a request may have {limits.batch}")
    for text in texts:
        if len(text) > limits.text:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a text has {len(text):,} characters; the limit is {limits.text:,}",
            )
        check_string("request", "the text", text)
    record = request.scope.get("unmissed.record", {})
    record["texts"] = len(texts)
    if service.options.log_texts:
        record["text"] = texts


async def _read_form(request: Request) -> m.SuggestForm:
    """Return the fields of a form; urlencoded ones may also be plain UTF-8, as curl sends them."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    fields: dict[str, Any]
    if kind == "application/x-www-form-urlencoded":
        body = (await request.body()).decode("utf-8", "replace")
        try:
            fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=100))
        except ValueError:
            raise Problem(HTTPStatus.BAD_REQUEST, "the form has more than 100 fields") from None
    elif kind == "multipart/form-data":
        async with request.form(max_fields=100, max_files=0, max_part_size=8 << 20) as form:
            fields = dict(form)
    else:
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send form fields: text, and optionally limit and threshold")
    try:
        return m.SuggestForm.model_validate(fields)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


def _is_local(request: Request) -> bool:
    """Return whether a request comes from this machine, directly, and not from a page of another site."""
    headers = request.headers
    if any(name in headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via")):
        return False
    origin = urlsplit(headers.get("origin", "")).hostname
    hosts = [urlsplit(f"//{headers.get('host', '')}").hostname, *([origin] if "origin" in headers else [])]
    return request.client is not None and all(map(_is_loopback, [request.client.host, *hosts]))


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
