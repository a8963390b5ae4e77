"""The application: all routes of the API and the pages, behind the guard."""

from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jumar.errors import JumarError, RangeUnsatisfiable
from jumar.server.api import (
    audit,
    beside,
    cards,
    code,
    drain,
    endpoints,
    evaluation,
    files,
    follow,
    groups,
    images,
    job_alerts,
    jobs,
    links,
    logs,
    metrics,
    prometheus,
    publish,
    recovery,
    repo_files,
    repos,
    s3,
    ssh_keys,
    steps,
    stores,
    tokens,
    usage,
    users,
    webhooks,
    why,
)
from jumar.server.edge.exchange import error_answer, http_error, invalid_request, is_modelarts
from jumar.server.edge.guard import Guard
from jumar.server.edge.site import API, Site
from jumar.server.hub.door import PREFIXES, HubDoor
from jumar.server.modelarts import (
    description,
    keys,
    v1,
    v1_boards,
    v1_configs,
    v2,
    v2_logs,
    v2_search,
)
from jumar.server.web import error_page, job_router, mount_pages
from jumar.spec.job import JobSpec


def create_app(site: Site) -> FastAPI:
    """The ASGI application that serves `site`."""
    app = FastAPI(
        title="jumar",
        version=site.info.version,
        description="Training jobs on the cards of a lab. All times are unix seconds.",
        openapi_url=f"{API}/openapi.json",
        # The usual documentation pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.site = site
    # Routes are tried one after the other, and open pages ask for these again and again.
    for module in (metrics, usage, logs, follow):
        app.include_router(module.router, prefix=API)
    app.include_router(job_router, include_in_schema=False)
    job_modules = (
        jobs,
        steps,
        evaluation,
        files,
        why,
        beside,
        endpoints,
        code,
    )
    for module in (
        cards,
        images,
        drain,
        webhooks,
        job_alerts,
        *job_modules,
        users,
        tokens,
        ssh_keys,
        groups,
        stores,
        s3,
        recovery,
        repos,
        repo_files,
        publish,
        links,
        audit,
    ):
        app.include_router(cast("APIRouter", module.router), prefix=API)
    app.include_router(keys.router)
    for module in (v1, v1_boards, v1_configs, v2, v2_logs, v2_search):
        # Another's API, with a description of its own.
        app.include_router(module.router, include_in_schema=False)
    app.include_router(description.router, include_in_schema=False)
    for prefix in PREFIXES:
        app.mount(prefix, HubDoor(site))
    app.include_router(prometheus.router, include_in_schema=False)
    mount_pages(app)
    app.add_exception_handler(JumarError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_middleware(Guard, loopback_only=site.loopback_only, public_url=site.public_url)
    _describe_job_spec(app)
    return app


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, JumarError)
    path = request.url.path
    if not path.startswith((f"{API}/", prometheus.PATH)) and not is_modelarts(path):
        return await error_page(request, error)
    response = error_answer(error, path)
    if isinstance(error, RangeUnsatisfiable):
        response.headers["Content-Range"] = f"bytes */{error.size}"
    return response


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _on_error(request, invalid_request(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return await _on_error(request, http_error(request, error))


def _describe_job_spec(app: FastAPI) -> None:
    # Jobs are validated by the same function as job files, not by the framework; the description
    # has to be told of the model.
    described = app.openapi

    def openapi() -> dict[str, Any]:
        schema = described()
        components = schema.setdefault("components", {}).setdefault("schemas", {})
        spec = JobSpec.model_json_schema(ref_template="#/components/schemas/{model}")
        components.update(spec.pop("$defs", {}))
        components["JobSpec"] = spec
        return schema

    app.openapi = openapi
