"""The first page: every card, the queue with expected starts, who used what this week, what ended today."""

import time
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.devices.overview import CardView, overview
from jumar.server.edge.auth import SignedIn
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import is_fragment, render
from jumar.spec.records import JobRecord, JobSummary
from jumar.spec.usage import UsedBy

router = APIRouter()
_QUEUED = 10
_ENDED = 10
_USERS = 12
_DAY_S = 24 * 3600
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that the page shows."""

    cards: tuple[CardView, ...]
    slots: int
    slots_held: int
    line: tuple[JobRecord, ...]
    waiting: int
    used: tuple[UsedBy, ...]
    ended: tuple[JobSummary, ...]
    counts: dict[str, int]

    @property
    def most_used(self) -> float:
        """The longest bar."""
        return max((line.card_s for line in self.used), default=0.0) or 1.0


@router.get("/")
async def overview_page(request: Request, site: SiteOf, user: SignedIn, seen: str = "") -> Response:
    """The overview; with `seen`, only if something has changed since."""
    if user.role == "pending":
        return RedirectResponse("/waiting", status_code=303)
    version = f"{site.service.version}-{site.service.sampler.looks}"
    if seen == version:
        return Response(status_code=_NO_CONTENT)
    picture = await run_in_threadpool(_picture, site)
    template = "_overview.html" if is_fragment(request) else "overview.html"
    return render(request, template, {"now_seen": version, "picture": picture}, user=user)


def _picture(site: Site) -> Picture:
    service = site.service
    uses = service.cards()
    cards = [use for use in uses if use.kind != "cpu"]
    slots = [use for use in uses if use.kind == "cpu"]
    used = [line for line in service.used(7) if line.kind != "cpu" or not cards]
    counts = service.page(limit=1).counts
    return Picture(
        cards=overview(service.sampler.cards, cards),
        slots=len(slots),
        slots_held=sum(use.job_id is not None for use in slots),
        line=service.line(_QUEUED),
        waiting=counts.get("queued", 0),
        used=tuple(used[:_USERS]),
        ended=service.ended(time.time() - _DAY_S, _ENDED),
        counts=counts,
    )
