"""The page where administrators approve users and set roles."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.server.auth import Admin
from jumar.server.s3 import set_role
from jumar.server.site import SiteOf
from jumar.server.web.render import render

router = APIRouter()


@router.get("/users")
async def users_page(request: Request, site: SiteOf, user: Admin) -> Response:
    """Who waits for approval, and everyone else."""
    users = await run_in_threadpool(site.accounts.users)
    values = {
        "pending": [known for known in users if known.role == "pending"],
        "others": [known for known in users if known.role != "pending"],
    }
    return render(request, "users.html", values, user=user)


@router.post("/users/{name}/role")
async def change_role(
    site: SiteOf, _admin: Admin, name: str, role: Annotated[str, Form(max_length=64)]
) -> Response:
    """Approve somebody, or change what they may do."""
    await run_in_threadpool(set_role, site, name, role)
    return RedirectResponse("/users", status_code=303)
