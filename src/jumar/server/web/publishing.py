"""The form that makes a model repository of what a training has left."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import JumarError
from jumar.server.api.publish import Publication, publish
from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.site import SiteOf
from jumar.server.web.render import render

router = APIRouter(prefix="/jobs/{job}/publish")


@router.get("")
async def publish_page(request: Request, opened: OpenedJob, user: Member) -> Response:
    """The form, filled so that one click is enough."""
    return render(request, "publish.html", {"job": opened, "problem": None}, user=user)


@router.post("")
async def publish_now(
    request: Request,
    opened: OpenedJob,
    site: SiteOf,
    user: Member,
    name: Annotated[str, Form(max_length=200)],
    path: Annotated[str, Form(max_length=4096)] = "",
    private: Annotated[bool, Form()] = False,
) -> Response:
    """Publish and show the repository, or say why not."""
    wanted = Publication.model_construct(
        name=name.strip(), path=path.strip(), private=private, branch="main"
    )
    try:
        made = await run_in_threadpool(publish, site, user, opened.id, wanted)
    except JumarError as error:
        values = {"job": opened, "problem": error}
        return render(request, "publish.html", values, user=user, status=error.status)
    assert made.repo is not None
    return RedirectResponse(f"/repos/model/{made.repo.owner}/{made.repo.name}", status_code=303)
