"""Endpoints of running jobs over REST: what there is to open, and links that open it."""

from typing import Annotated, cast

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput
from jumar.server.edge.addresses import host_of, pages_at
from jumar.server.edge.auth import Member, OpenedJob, right_of
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.endpoints import PROGRAMS, flaw_of_endpoint
from jumar.spec.people import UserRecord
from jumar.spec.records import EndpointRecord, JobSummary

router = APIRouter(tags=["endpoints"], prefix="/jobs/{job}/endpoints")
Name = Annotated[str, Path(max_length=32, examples=["jupyter", "tensorboard", "http:6006"])]


@router.get("", response_model=list[EndpointRecord], summary="What can be opened of a job")
async def list_endpoints(request: Request, opened: OpenedJob, site: SiteOf) -> Response:
    """Those that the job was submitted with, those that are open, and those that any job can have."""
    return answer(await endpoints_of(request, site, opened))


@router.post(
    "/{name}", status_code=201, response_model=EndpointRecord, summary="Open an endpoint of a job"
)
async def open_endpoint(
    request: Request, opened: OpenedJob, site: SiteOf, user: Member, name: Name
) -> Response:
    """JupyterLab and TensorBoard are started beside the job, as its user. `url` lets one browser in,
    once, within a minute."""
    return answer(await opened_endpoint(request, site, opened, user, name), 201)


@router.delete("/{name}", status_code=204, summary="Close an endpoint of a job")
async def close_endpoint(opened: OpenedJob, site: SiteOf, name: Name) -> Response:
    """Ends what was started for it. One that is not open is closed."""
    _check_name(name)
    for endpoint in site.endpoints.of(opened.id):
        if endpoint.name == name:
            site.endpoints.close(endpoint)
    return Response(status_code=204)


async def endpoints_of(request: Request, site: Site, job: JobSummary) -> list[EndpointRecord]:
    """What there is to open."""
    spec = (await run_in_threadpool(site.service.get, job.id)).spec
    host = host_of(pages_at(site, request))
    open_now = {one.name: site.endpoints.origin(one, host) for one in site.endpoints.of(job.id)}
    declared = cast("list[str]", spec.get("endpoints") or [])
    names = dict.fromkeys([*PROGRAMS, *declared, *open_now])
    return [EndpointRecord(name=name, url=open_now.get(name)) for name in names if name != "ssh"]


async def opened_endpoint(
    request: Request, site: Site, job: JobSummary, user: UserRecord, name: str
) -> EndpointRecord:
    """An endpoint with an address that lets one browser in."""
    _check_name(name)
    if name == "ssh":
        raise BadInput("ssh is not opened in a browser", hint=f"jumar shell {job.id}")
    pages = pages_at(site, request)
    endpoint = await site.endpoints.open(job.id, job.user, name)
    url = site.endpoints.enter(endpoint, user.name, right_of(request), host_of(pages), pages)
    return EndpointRecord(name=name, url=url)


def _check_name(name: str) -> None:
    words = flaw_of_endpoint(name)
    if words is not None:
        raise BadInput(words)
