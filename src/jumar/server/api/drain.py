"""Maintenance over REST: start no jobs for a while."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Admin, Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import SiteOf
from jumar.spec.draining import DrainReport

router = APIRouter(tags=["server"])


class NewDrain(Body):
    """How the server is to be drained."""

    why: Annotated[str, Field(max_length=500)] = ""
    until: Annotated[float, Field(allow_inf_nan=False)] | None = None
    requeue: bool = False


@router.get("/drain", response_model=DrainReport, summary="Whether jobs are started")
async def drain(site: SiteOf, _user: Member) -> Response:
    """The drain that is on, and how many jobs still run."""
    return answer(await run_in_threadpool(site.service.drain_report))


@router.put("/drain", response_model=DrainReport, summary="Start no more jobs")
async def begin_drain(site: SiteOf, admin: Admin, wanted: NewDrain) -> Response:
    """Jobs may still be submitted and wait. With `requeue`, running jobs are asked to save and go back
    in line; without it they run to their end."""

    def begin() -> DrainReport:
        site.service.draining.begin(
            by=admin.name, why=wanted.why, until=wanted.until, requeue=wanted.requeue
        )
        return site.service.drain_report()

    return answer(await run_in_threadpool(begin))


@router.delete("/drain", response_model=DrainReport, summary="Start jobs again")
async def end_drain(site: SiteOf, _admin: Admin) -> Response:
    """Waiting jobs start from now on."""
    await run_in_threadpool(site.service.draining.end)
    return answer(await run_in_threadpool(site.service.drain_report))
