"""The page of alerts: what was found wrong with trainings, the latest first."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.notify.notices import shown
from jumar.server.api.job_alerts import alerts_for
from jumar.server.edge.auth import Member
from jumar.server.edge.site import SiteOf
from jumar.server.web.i18n import choose
from jumar.server.web.render import is_fragment, render
from jumar.words.reasons import phrase

router = APIRouter()


@router.get("/alerts")
async def alerts_page(request: Request, site: SiteOf, user: Member) -> Response:
    """Of one's own jobs; an administrator sees those of everybody."""
    found = await run_in_threadpool(alerts_for, site, user)
    language = choose(request).language
    told = [
        (one, phrase(language, "alert", one.alert.kind, name=one.alert.name, **shown(one.alert)))
        for one in found
    ]
    template = "_alerts.html" if is_fragment(request) else "alerts.html"
    return render(request, template, {"alerts": told}, user=user)
