"""Signing in at the site's OpenID Connect provider, in a browser."""

import logging
from dataclasses import astuple
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import NameTaken, NotFound, NotSignedIn, Unavailable
from jumar.people.oidc import Oidc, Visit, new_visit
from jumar.server.edge.addresses import pages_at
from jumar.server.edge.auth import came_over_tls
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.visit import login_form, own_address, signed_in

log = logging.getLogger(__name__)
router = APIRouter(prefix="/login/oidc")
_COOKIE = "jumar_oidc"
_WAY_S = 600


@router.get("")
async def leave(
    request: Request, site: SiteOf, next: Annotated[str, Query(max_length=2048)] = "/"
) -> Response:
    """Send the browser to the provider."""
    oidc, visit = _provider(site), new_visit()
    try:
        address = await run_in_threadpool(oidc.address, visit, _redirect(site, request))
    except (NotSignedIn, Unavailable) as refusal:
        log.warning("sign-in by %s: %s", oidc.options.label, refusal)
        return login_form(request, next=next, problem="login.provider_failed", status=503)
    response = RedirectResponse(address, status_code=303)
    # "lax": the way back begins at another site.
    response.set_cookie(
        _COOKIE,
        " ".join((*astuple(visit), own_address(next))),
        max_age=_WAY_S,
        path=router.prefix,
        httponly=True,
        samesite="lax",
        secure=came_over_tls(request),
    )
    return response


@router.get("/back")
async def come_back(
    request: Request,
    site: SiteOf,
    state: Annotated[str, Query(max_length=256)] = "",
    code: Annotated[str, Query(max_length=4096)] = "",
    error: Annotated[str, Query(max_length=256)] = "",
) -> Response:
    """Sign in whom the provider names, in the browser that was sent to it."""
    oidc = _provider(site)
    try:
        token, place = await _brought(request, site, oidc, state, code, error)
    except NameTaken:
        return login_form(request, problem="login.provider_taken", status=409)
    except (NotSignedIn, Unavailable) as refusal:
        log.warning("sign-in by %s: %s", oidc.options.label, refusal)
        return login_form(request, problem="login.provider_failed", status=401)
    response = signed_in(request, token, place)
    response.delete_cookie(_COOKIE, path=router.prefix)
    return response


async def _brought(
    request: Request, site: Site, oidc: Oidc, state: str, code: str, error: str
) -> tuple[str, str]:
    """The token for whom the provider names, and where they wanted to go."""
    kept = request.cookies.get(_COOKIE, "").strip('"').split(" ")
    if error:
        raise NotSignedIn(f"the sign-in provider refused: {error}")
    if len(kept) != 4 or not state or kept[0] != state or not code:
        raise NotSignedIn("this sign-in was not begun in this browser, or took too long")
    redirect = _redirect(site, request)
    token = await run_in_threadpool(oidc.sign_in, Visit(*kept[:3]), code, redirect)
    return token, kept[3]


def _provider(site: Site) -> Oidc:
    if site.oidc is None:
        raise NotFound("this server has no sign-in provider")
    return site.oidc


def _redirect(site: Site, request: Request) -> str:
    return f"{pages_at(site, request)}{router.prefix}/back"
