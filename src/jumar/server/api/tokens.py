"""The tokens of a user over REST: made, listed, taken back. A secret is shown once, when it is made."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotAllowed
from jumar.server.edge.auth import Member, proof_of, token_of
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.people import NewToken, TokenRecord, UserRecord

router = APIRouter(tags=["users"], prefix="/tokens")
LONGEST_S = 10 * 365 * 24 * 3600


class TokenRequest(Body):
    """What a new token is for, and how long it shall be good."""

    label: Annotated[str, Field(min_length=1, max_length=128)]
    expires_s: Annotated[int | None, Field(ge=1, le=LONGEST_S)] = None


def make_token(
    request: Request, site: Site, user: UserRecord, label: str, lasts_s: int | None
) -> NewToken:
    """One more token for who asks; waits for the database."""
    proof = proof_of(request)
    return site.accounts.tokens.new(user.name, label, lasts_s=lasts_s, proof=proof)


def revoke_token(site: Site, user: UserRecord, token_id: str) -> None:
    """Take back a token that `user` may; one of somebody else is none at all to a member."""
    owner = None if user.role == "admin" else user.name
    site.accounts.tokens.revoke_by_id(token_id, user=owner)


@router.get("", response_model=list[TokenRecord], summary="List tokens")
async def list_tokens(
    request: Request,
    site: SiteOf,
    user: Member,
    owner: Annotated[
        str | None, Query(alias="user", description="of this user; for administrators")
    ] = None,
) -> Response:
    """Sessions and tokens that are good, newest first, without their secrets."""
    name = owner or user.name
    if name != user.name:
        if user.role != "admin":
            raise NotAllowed("only an administrator may list another user's tokens")
        await run_in_threadpool(site.accounts.check_user, name)
    return answer(await run_in_threadpool(site.accounts.tokens.of, name, token_of(request)))


@router.post("", status_code=201, response_model=NewToken, summary="Make a token")
async def create_token(
    request: Request, site: SiteOf, user: Member, wanted: TokenRequest
) -> Response:
    """One more token for the same user, for a script or another machine."""
    made = await run_in_threadpool(make_token, request, site, user, wanted.label, wanted.expires_s)
    return answer(made, 201)


@router.delete("/{token_id}", status_code=204, summary="Take a token back")
async def delete_token(site: SiteOf, user: Member, token_id: str) -> Response:
    """From now on nobody is let in with it, and streams that were opened with it end."""
    await run_in_threadpool(revoke_token, site, user, token_id)
    return Response(status_code=204)
