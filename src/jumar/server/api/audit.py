"""The audit log over REST."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Admin
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import SiteOf
from jumar.spec.people import AuditRecord

router = APIRouter(tags=["server"])
MOST_ROWS = 1000


@router.get("/audit", response_model=list[AuditRecord], summary="Who changed what")
async def audit(
    site: SiteOf,
    _admin: Admin,
    user: Annotated[str | None, Query(max_length=64, description="only calls of this user")] = None,
    before: Annotated[
        int | None, Query(ge=0, le=MOST_NUMBER, description="`seq` of the last one seen")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 100,
) -> Response:
    """Every call of the last year that changed something, the latest first."""
    page = site.accounts.audit.page
    return answer(
        await run_in_threadpool(lambda: page(user=user or None, before=before, limit=limit))
    )
