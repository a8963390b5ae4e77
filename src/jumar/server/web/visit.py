"""Signing in and out, and registering, in a browser."""

import re
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput, Conflict, NotSignedIn, TooManyAttempts
from jumar.server.api.users import register, sign_in
from jumar.server.edge.auth import COOKIE, came_over_tls, set_cookie, token_of, user_or_none
from jumar.server.edge.site import SiteOf, site_of
from jumar.server.web.render import render

router = APIRouter()
Text = Annotated[str, Form(max_length=1024)]


@router.get("/login")
async def login_page(request: Request, site: SiteOf, code: str = "", next: str = "/") -> Response:
    """The login form; a login link signs in at once."""
    if not code:
        return login_form(request, next=next)
    # Another site may hold a link to somebody else's account: then the visitor has to agree.
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return login_form(request, next=next, code=code)
    return await _redeem(request, site, code, next)


@router.post("/login")
async def log_in(
    request: Request,
    site: SiteOf,
    name: Text = "",
    password: Text = "",
    code: Text = "",
    next: Text = "/",
) -> Response:
    """Sign in with a name and a password, or with a login link."""
    if code:
        return await _redeem(request, site, code, next)
    try:
        token = await sign_in(request, site, name, password, "browser")
    except NotSignedIn:
        return login_form(request, next=next, name=name, problem="login.wrong", status=401)
    except TooManyAttempts:
        return login_form(request, next=next, name=name, problem="login.too_many", status=429)
    return signed_in(request, token, next)


@router.post("/logout")
async def log_out(request: Request, site: SiteOf) -> Response:
    """Forget the browser; a copy of its cookie is worth nothing from now on."""
    await run_in_threadpool(site.accounts.revoke, token_of(request))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE)
    return response


@router.get("/register")
async def register_page(request: Request) -> Response:
    """The form of a new user."""
    return _registration(request)


@router.post("/register")
async def create_user(
    request: Request, site: SiteOf, name: Text, password: Text, repeat: Text
) -> Response:
    """Make a new user and sign them in; they wait for an administrator."""
    if password != repeat:
        return _registration(request, name=name, problem="register.differ", status=422)
    try:
        await register(request, site, name, password)
        token = await sign_in(request, site, name, password, "browser")
    except TooManyAttempts:
        return _registration(request, name=name, problem="register.too_many", status=429)
    except Conflict:
        return _registration(request, name=name, problem="register.taken", status=409)
    except BadInput:
        return _registration(request, name=name, problem="register.name_rules", status=422)
    return signed_in(request, token, "/waiting")


@router.get("/waiting")
async def waiting_page(request: Request) -> Response:
    """Where a new user waits; goes on once they are approved."""
    user = await user_or_none(request)
    if user is None:
        return RedirectResponse("/login", status_code=303)
    if user.role != "pending":
        return RedirectResponse("/", status_code=303)
    return render(request, "waiting.html", {}, user=user)


async def _redeem(request: Request, site: SiteOf, code: str, next: str) -> Response:
    try:
        token = await run_in_threadpool(site.accounts.redeem_login_code, code)
    except NotSignedIn:
        return login_form(request, next=next, problem="login.code_wrong", status=401)
    return signed_in(request, token, next)


def signed_in(request: Request, token: str, next: str) -> Response:
    """Sign a browser in and lead it to a page of ours."""
    response = RedirectResponse(own_address(next), status_code=303)
    set_cookie(response, token, secure=came_over_tls(request))
    return response


def own_address(address: str) -> str:
    """`address` if it is a page of this server; a link must not lead elsewhere after the login."""
    # Browsers take a backslash for a slash, and leave control characters out.
    own = re.fullmatch(r"/(?![/\\])[^\\\x00-\x20]*", address)
    return address if own else "/"


def login_form(
    request: Request,
    *,
    next: str = "/",
    name: str = "",
    code: str = "",
    problem: str | None = None,
    status: int = 200,
) -> Response:
    """The page to sign in at, with what went wrong."""
    oidc = site_of(request).oidc
    values = {
        "next": next,
        "name": name,
        "code": code,
        "problem": problem,
        "provider": None if oidc is None else oidc.options.label,
    }
    return render(request, "login.html", values, status=status)


def _registration(
    request: Request, *, name: str = "", problem: str | None = None, status: int = 200
) -> Response:
    return render(request, "register.html", {"name": name, "problem": problem}, status=status)
