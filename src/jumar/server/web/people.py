"""The page where administrators approve users, set roles and give out passwords."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.server.api.users import known_users, reset_password, set_role
from jumar.server.edge.auth import Admin
from jumar.server.edge.site import SiteOf
from jumar.server.web.render import render
from jumar.spec.people import GivenPassword

router = APIRouter(prefix="/admin/users")


@router.get("")
async def users_page(request: Request, site: SiteOf, user: Admin) -> Response:
    """Who waits for approval, and everyone else."""
    return await _page(request, site, user)


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
