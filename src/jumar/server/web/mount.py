"""Puts the pages and their static files onto the application."""

import os

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from jumar.server.web import (
    account,
    admin,
    alerts,
    compare,
    endpoints,
    evaluation,
    job_files,
    job_pages,
    links,
    oidc,
    overview,
    people,
    porting,
    publishing,
    repo_pages,
    ssh_keys,
    submit,
    training_form,
    visit,
)
from jumar.server.web.render import STATIC


class _Kept(StaticFiles):
    """Static files that browsers keep: their addresses change with their content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def mount_pages(app: FastAPI) -> None:
    """Add all pages."""
    for module in (
        overview,
        admin,
        alerts,
        links,
        account,
        submit,
        compare,
        evaluation,
        ssh_keys,
        endpoints,
        job_files,
        publishing,
        job_pages,
        porting,
        people,
        training_form,
        repo_pages,
        oidc,
        visit,
    ):
        app.include_router(module.router, include_in_schema=False)
    kept = _Kept(directory=os.fspath(STATIC))
    # Only these: a page holds both secrets and what others wrote, and its compressed size would tell.
    app.mount("/static", GZipMiddleware(kept, minimum_size=1000, compresslevel=6), name="static")
