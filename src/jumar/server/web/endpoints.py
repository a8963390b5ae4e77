"""Opening a running job from its page: endpoints in tabs of their own, and a terminal."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from jumar.errors import Conflict
from jumar.server.api.endpoints import endpoints_of, opened_endpoint
from jumar.server.edge.addresses import host_of, pages_at
from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.records import JobSummary
from jumar.spec.states import JobState

router = APIRouter(prefix="/jobs/{job}")
# xterm.js writes its own style sheet.
_TERMINAL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


async def endpoint_values(request: Request, site: Site, job: JobSummary) -> dict[str, object]:
    """What the page of a job shows of them; nothing unless it runs."""
    if job.state is not JobState.RUNNING:
        return {"endpoints": [], "ssh_host": ""}
    found = await endpoints_of(request, site, job)
    return {"endpoints": found, "ssh_host": host_of(pages_at(site, request))}


@router.get("/open/{name}")
async def open_endpoint(
    request: Request, opened: OpenedJob, site: SiteOf, user: Member, name: str
) -> Response:
    """Lead the browser into an endpoint. Not where another web site has sent it: nothing is started for
    the asking of others."""
    if request.headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        return RedirectResponse(f"/jobs/{opened.id}", status_code=303)
    record = await opened_endpoint(request, site, opened, user, name)
    return RedirectResponse(record.url or "/", status_code=303)


@router.get("/terminal")
async def terminal_page(request: Request, opened: OpenedJob, user: Member) -> Response:
    """A terminal in the job, over the same calls as `jumar shell`."""
    if opened.state is not JobState.RUNNING:
        raise Conflict(f"job {opened.id} is {opened.state}; a terminal needs one that is running")
    response = render(request, "terminal.html", {"job": opened}, user=user)
    response.headers["Content-Security-Policy"] = _TERMINAL_POLICY
    return response
