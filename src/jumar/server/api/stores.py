"""The users' keys for object stores over REST: given, checked, taken back; never read."""

from dataclasses import replace
from typing import Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.records import StoreAccount
from jumar.store.credentials import obs_credential, validate

router = APIRouter(tags=["stores"])
# A store that does not answer holds a thread for a while; others have to go on.
_asking = CapacityLimiter(4)
Kind = Literal["obs", "s3"]
Text = Annotated[str, Field(max_length=1024)]


class StoreKey(Body):
    """A key, and the region or the address of the store that it is for."""

    region: Text = ""
    endpoint: Text = ""
    access_key: Annotated[str, Field(min_length=1, max_length=1024)]
    secret_key: Annotated[str, Field(min_length=1, max_length=4096)]
    token: Annotated[str, Field(max_length=16384)] = ""
    """The security token of a temporary key."""


@router.get("/stores", response_model=list[StoreAccount], summary="Where I have keys for")
async def list_stores(site: SiteOf, user: Member) -> Response:
    """The stores that my jobs have keys for; the keys themselves are never given out."""
    return answer(await run_in_threadpool(site.stores.known, user.name))


@router.put("/stores/{kind}", response_model=StoreAccount, summary="Give a key")
async def put_store(site: SiteOf, user: Member, kind: Kind, key: StoreKey) -> Response:
    """The store is asked whether the key is valid; then my jobs use it for `obs://` or `s3://`."""
    kept = await to_thread.run_sync(_keep, site, user.name, kind, key, limiter=_asking)
    return answer(kept)


@router.delete("/stores/{kind}", status_code=204, summary="Take a key back")
async def delete_store(site: SiteOf, user: Member, kind: Kind) -> Response:
    """My jobs use the built-in store again."""
    await run_in_threadpool(site.stores.forget, user.name, kind)
    return Response(status_code=204)


def _keep(site: Site, user: str, kind: str, key: StoreKey) -> StoreAccount:
    credential = obs_credential(key.region, key.access_key, key.secret_key, key.endpoint, key.token)
    buckets = validate(credential)
    site.stores.keep(user, kind, credential)
    kept = next(known for known in site.stores.known(user) if known.kind == kind)
    return replace(kept, buckets=buckets)
