"""The public keys of a user over REST: with them they come into their jobs by SSH."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member, proof_of
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import SiteOf
from jumar.spec.people import SshKeyRecord

router = APIRouter(tags=["users"], prefix="/ssh-keys")


class PublicKey(Body):
    """The line of a file that ends in .pub."""

    key: Annotated[str, Field(max_length=16_384)]
    label: Annotated[str, Field(max_length=128)] = ""


class Removal(Body):
    """Which key; fingerprints have slashes in them, so it is not in the address."""

    fingerprint: Annotated[str, Field(max_length=64)]


@router.get("", response_model=list[SshKeyRecord], summary="List public keys")
async def list_keys(site: SiteOf, user: Member) -> Response:
    """Those of who asks, newest first."""
    return answer(await run_in_threadpool(site.accounts.ssh_keys.of, user.name))


@router.post("", status_code=201, response_model=SshKeyRecord, summary="Add a public key")
async def add_key(request: Request, site: SiteOf, user: Member, wanted: PublicKey) -> Response:
    """From now on `ssh -p PORT JOB@HOST` leads into this user's jobs with it."""
    made = await run_in_threadpool(
        site.accounts.ssh_keys.add, user.name, wanted.key, wanted.label, proof_of(request)
    )
    return answer(made, 201)


@router.delete("", status_code=204, summary="Remove a public key")
async def remove_key(site: SiteOf, user: Member, wanted: Removal) -> Response:
    """Connections that were made with it end."""
    await run_in_threadpool(site.accounts.ssh_keys.remove, wanted.fingerprint, user=user.name)
    return Response(status_code=204)
