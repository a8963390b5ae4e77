"""What is wrong with trainings over REST: those of all jobs that one may see, the latest first."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotFound
from jumar.server.api.alerts import kept_alerts
from jumar.server.edge.auth import Member, may_open
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.metrics import JobAlert
from jumar.spec.people import UserRecord

router = APIRouter(tags=["jobs"])
MOST = 200
_MOST_FILES = 2000
"""Looked into for one answer: a member's own may be far apart."""


def alerts_for(site: Site, user: UserRecord, limit: int = MOST) -> tuple[JobAlert, ...]:
    """Those of the jobs that `user` may open; waits for files and database."""
    sampler = site.service.sampler
    found: list[JobAlert] = []
    for job_id in sampler.alerted()[:_MOST_FILES]:
        if len(found) >= limit:
            break
        try:
            job = site.service.glance(job_id)
        except NotFound:
            # Removed a moment ago.
            continue
        if may_open(user, job.user):
            kept = kept_alerts(sampler.alerts_path(job_id))
            found += [
                JobAlert(job=job.id, job_name=job.name, user=job.user, state=job.state, alert=one)
                for one in kept
            ]
    found.sort(key=lambda one: one.alert.since or 0.0, reverse=True)
    return tuple(found[:limit])


@router.get("/alerts", response_model=list[JobAlert], summary="What is wrong with trainings")
async def list_alerts(
    site: SiteOf, user: Member, limit: Annotated[int, Query(ge=1, le=MOST)] = MOST
) -> Response:
    """Of my jobs; an administrator sees those of everybody."""
    return answer(await run_in_threadpool(alerts_for, site, user, limit))
