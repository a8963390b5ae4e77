"""Puts the pages and their static files onto the application."""

import os

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from jumar.server.web import (
    account,
    compare,
    endpoints,
    evaluation,
    job_pages,
    overview,
    people,
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
        account,
        submit,
        compare,
        evaluation,
        ssh_keys,
        endpoints,
        publishing,
        job_pages,
        people,
        training_form,
        repo_pages,
        visit,
    ):
        app.include_router(module.router, include_in_schema=False)
    app.mount("/static", _Kept(directory=os.fspath(STATIC)), name="static")
