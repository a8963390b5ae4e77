"""The pages where administrators approve users, set roles and quotas, give out passwords and take back tokens."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput, UserNotFound
from jumar.server.api.tokens import revoke_token
from jumar.server.api.users import known_users, reset_password, set_role
from jumar.server.edge.auth import Admin, token_of
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.amounts import bytes_text
from jumar.spec.people import GivenPassword

router = APIRouter(prefix="/admin/users")


@router.get("")
async def users_page(request: Request, site: SiteOf, user: Admin) -> Response:
    """Who waits for approval, and everyone else."""
    return await _page(request, site, user)


@router.get("/{name}")
async def user_page(request: Request, site: SiteOf, user: Admin, name: str) -> Response:
    """One person: what they may hold, and what lets them in."""

    def look() -> dict[str, object]:
        known = [one for one in known_users(site) if one.name == name]
        if not known:
            raise UserNotFound(f"no user {name[:64]!r}")
        return {
            "person": known[0],
            "tokens": site.accounts.tokens.of(name, token_of(request)),
            "quota": site.service.quotas.of(name),
            "usual": site.service.limits.user,
            "disk": _disk(site, name),
        }

    return render(request, "user.html", await run_in_threadpool(look), user=user)


def _disk(site: Site, name: str) -> dict[str, str] | None:
    """What they take and may take, where that is limited."""
    use = site.service.disk
    if not use.limit_bytes:
        return None
    return {"used": bytes_text(use.of(name)), "limit": bytes_text(use.limit_bytes)}


@router.post("/{name}/quota")
async def set_quota(
    site: SiteOf, _admin: Admin, name: str, devices: Annotated[str, Form(max_length=16)] = ""
) -> Response:
    """How many devices they may hold; nothing: what everybody may."""
    said = devices.strip()
    if said and not said.isdecimal():
        raise BadInput("a quota is a number of devices", hint="leave it empty for no quota")
    await run_in_threadpool(site.service.quotas.put, name, int(said) if said else None)
    return RedirectResponse(f"/admin/users/{quote(name)}", status_code=303)


@router.post("/{name}/tokens/{token_id}/revoke")
async def revoke(site: SiteOf, admin: Admin, name: str, token_id: str) -> Response:
    """Nobody is let in with that token any more."""
    await run_in_threadpool(revoke_token, site, admin, token_id)
    return RedirectResponse(f"/admin/users/{quote(name)}", status_code=303)


@router.post("/{name}/reset")
async def reset(request: Request, site: SiteOf, user: Admin, name: str) -> Response:
    """Give out a password, which is shown in this answer and never again."""
    return await _page(request, site, user, given=await reset_password(site, name))


async def _page(
    request: Request, site: SiteOf, user: Admin, given: GivenPassword | None = None
) -> Response:
    users = await run_in_threadpool(known_users, site)
    values = {
        "given": given,
        "pending": [known for known in users if known.role == "pending"],
        "others": [known for known in users if known.role != "pending"],
    }
    return render(request, "users.html", values, user=user)


@router.post("/{name}/reject")
async def reject(site: SiteOf, _admin: Admin, name: str) -> Response:
    """Forget somebody who was never let in."""
    await run_in_threadpool(site.accounts.reject, name)
    return RedirectResponse("/admin/users", status_code=303)


@router.post("/{name}/role")
async def change_role(
    site: SiteOf, _admin: Admin, name: str, role: Annotated[str, Form(max_length=64)]
) -> Response:
    """Approve somebody, or change what they may do."""
    await run_in_threadpool(set_role, site, name, role)
    return RedirectResponse("/admin/users", status_code=303)
