"""Pages for administrators besides users: maintenance, cards, and who changed what."""

import time
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput
from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Admin
from jumar.server.edge.site import SiteOf
from jumar.server.web.render import render
from jumar.spec.devices import CardRef
from jumar.spec.duration import parse_duration

router = APIRouter(prefix="/admin")
ROWS = 100


@router.get("")
async def admin_page() -> Response:
    """There is none: the first of them."""
    return RedirectResponse("/admin/users", status_code=303)


@router.get("/cards")
async def cards_page(request: Request, site: SiteOf, admin: Admin) -> Response:
    """Whether jobs are started, and every card with who holds it or keeps it from being given out."""
    values = {
        "report": await run_in_threadpool(site.service.drain_report),
        "cards": await run_in_threadpool(site.service.cards),
    }
    return render(request, "cards.html", values, user=admin)


@router.post("/cards/hold")
async def hold_card(
    site: SiteOf,
    admin: Admin,
    card: Annotated[str, Form(max_length=300)],
    why: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Keep a card from being given out."""
    kind, ref = _named(card)
    put = site.service.holds.put
    await run_in_threadpool(lambda: put(kind, ref, by=admin.name, why=why.strip()))
    return RedirectResponse("/admin/cards", status_code=303)


@router.post("/cards/release")
async def release_card(
    site: SiteOf, _admin: Admin, card: Annotated[str, Form(max_length=300)]
) -> Response:
    """Give a card out again."""
    await run_in_threadpool(site.service.holds.lift, *_named(card))
    return RedirectResponse("/admin/cards", status_code=303)


def _named(card: str) -> tuple[str, CardRef]:
    """`npu/local/3`, as the page writes it."""
    kind, _, rest = card.partition("/")
    node, _, number = rest.rpartition("/")
    if not number.isdecimal():
        raise BadInput(f"{card!r} is not a card", hint="such as npu/local/3")
    return kind, CardRef(node, int(number))


@router.post("/drain")
async def drain(
    site: SiteOf,
    admin: Admin,
    why: Annotated[str, Form(max_length=500)] = "",
    hours: Annotated[str, Form(max_length=16)] = "",
    requeue: Annotated[bool, Form()] = False,
) -> Response:
    """Start no more jobs for a while, or until somebody says so."""
    until = None if not hours.strip() else time.time() + _seconds(hours)
    begin = site.service.draining.begin
    await run_in_threadpool(
        lambda: begin(by=admin.name, why=why.strip(), until=until, requeue=requeue)
    )
    return RedirectResponse("/admin/cards", status_code=303)


def _seconds(text: str) -> float:
    try:
        return float(str(parse_duration(text.strip())))
    except ValueError as error:
        raise BadInput(str(error), hint="such as 30m, 2h or 1d") from error


@router.post("/drain/end")
async def end_drain(site: SiteOf, _admin: Admin) -> Response:
    """Start jobs again."""
    await run_in_threadpool(site.service.draining.end)
    return RedirectResponse("/admin/cards", status_code=303)


@router.get("/audit")
async def audit_page(
    request: Request,
    site: SiteOf,
    admin: Admin,
    who: Annotated[str, Query(alias="user", max_length=64)] = "",
    before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER)] = None,
) -> Response:
    """Every call that changed something, the latest first."""
    page = site.accounts.audit.page
    found = await run_in_threadpool(
        lambda: page(user=who.strip() or None, before=before, limit=ROWS + 1)
    )
    values = {
        "records": found[:ROWS],
        "more": found[ROWS - 1].seq if len(found) > ROWS else None,
        "who": who,
    }
    return render(request, "audit.html", values, user=admin)
