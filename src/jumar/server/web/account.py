"""The page of one's own account: tokens and sessions, keys for the store, and the password."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput, NotAllowed, TooManyAttempts
from jumar.server.api.s3 import s3_keys
from jumar.server.api.tokens import make_token, revoke_token
from jumar.server.api.users import change_password
from jumar.server.edge.auth import Member, token_of
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.people import NewToken, UserRecord
from jumar.spec.records import S3Keys

router = APIRouter(prefix="/account")
Text = Annotated[str, Form(max_length=1024)]
_DAY_S = 24 * 3600
DAYS = (30, 90, 365)
"""How long a token may be good, on this page; 0 is until it is taken back."""


@router.get("")
async def account_page(request: Request, site: SiteOf, user: Member, changed: int = 0) -> Response:
    """Tokens, sessions and the form for another password."""
    return await _page(request, site, user, changed=bool(changed))


@router.post("/tokens")
async def create(
    request: Request,
    site: SiteOf,
    user: Member,
    label: Text,
    days: Annotated[int, Form(ge=0, le=3650)] = 0,
) -> Response:
    """Make a token, whose secret is in this answer and never shown again."""
    try:
        made = await run_in_threadpool(
            make_token, request, site, user, label, days * _DAY_S or None
        )
    except BadInput:
        return await _page(request, site, user, problem="account.label_rules", status=422)
    return await _page(request, site, user, made=made)


@router.post("/tokens/{token_id}/revoke")
async def revoke(site: SiteOf, user: Member, token_id: str) -> Response:
    """Take a token back, or end another session."""
    await run_in_threadpool(revoke_token, site, user, token_id)
    return RedirectResponse("/account", status_code=303)


@router.post("/keys")
async def keys(
    request: Request, site: SiteOf, user: Member, renew: Annotated[bool, Form()] = False
) -> Response:
    """Show the AK and SK for the S3 door, or new ones; the old ones stop working."""
    shown = await run_in_threadpool(s3_keys, request, site, user.name, renew=renew)
    return await _page(request, site, user, keys=shown)


@router.post("/password")
async def change(
    request: Request, site: SiteOf, user: Member, new: Text, repeat: Text, old: Text = ""
) -> Response:
    """Another password; all other sessions end."""
    if new != repeat:
        return await _page(request, site, user, problem="register.differ", status=422)
    try:
        await change_password(request, site, user, old, new)
    except NotAllowed:
        return await _page(request, site, user, problem="account.wrong_old", status=403)
    except TooManyAttempts:
        return await _page(request, site, user, problem="login.too_many", status=429)
    except BadInput:
        return await _page(request, site, user, problem="register.rules", status=422)
    return RedirectResponse("/account?changed=1", status_code=303)


async def _page(
    request: Request,
    site: Site,
    user: UserRecord,
    *,
    made: NewToken | None = None,
    keys: S3Keys | None = None,
    changed: bool = False,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    tokens = await run_in_threadpool(site.accounts.tokens.of, user.name, token_of(request))
    ssh_keys = await run_in_threadpool(site.accounts.ssh_keys.of, user.name)
    values = {
        "tokens": tokens,
        "ssh_keys": ssh_keys,
        "days": DAYS,
        "made": made,
        "keys": keys,
        "has_door": site.door is not None,
        "changed": changed,
        "problem": problem,
    }
    return render(request, "account.html", values, user=user, status=status)
