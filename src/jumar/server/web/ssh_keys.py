"""Public keys on the page of one's own account."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.server.edge.auth import Member, proof_of
from jumar.server.edge.site import SiteOf

router = APIRouter(prefix="/account/ssh-keys")


@router.post("")
async def add(
    request: Request, site: SiteOf, user: Member, key: Annotated[str, Form(max_length=16_384)]
) -> Response:
    """Add a key and show them all."""
    await run_in_threadpool(site.accounts.ssh_keys.add, user.name, key, proof=proof_of(request))
    return RedirectResponse("/account#ssh-keys", status_code=303)


@router.post("/remove")
async def remove(
    site: SiteOf, user: Member, fingerprint: Annotated[str, Form(max_length=64)]
) -> Response:
    """Remove one and show the others."""
    await run_in_threadpool(site.accounts.ssh_keys.remove, fingerprint, user=user.name)
    return RedirectResponse("/account#ssh-keys", status_code=303)
