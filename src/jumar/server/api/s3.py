"""The S3 door of a server: opened with it, told of its users, and the keys to it over REST."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotFound
from jumar.people.accounts import Accounts
from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.settings import Settings
from jumar.spec.records import S3Keys
from jumar.store.door import Door, door_endpoint
from jumar.store.forms import is_door, open_door
from jumar.store.keys import Keys, key_holders, renew_keys, user_keys
from jumar.store.rights import Guest
from jumar.tls import Certificate

router = APIRouter(tags=["store"])


class KeysRequest(Body):
    """Whether to make new keys."""

    renew: Annotated[bool, Field(description="Make new keys; old keys stop working.")] = False


@contextmanager
def door_of_site(
    settings: Settings, accounts: Accounts, certificate: Certificate | None
) -> Generator[Door | None]:
    """The door, open, where one is asked for or the store is behind it; ends with the server. With a
    certificate it speaks TLS."""
    if not settings.s3_port and not is_door(settings.home):
        yield None
        return
    door = open_door(
        settings.home, settings.s3_host, settings.s3_port, _guests(accounts), certificate
    )
    try:
        yield door
    finally:
        door.stop()


def admit_users(site: Site) -> None:
    """Tell the door, where there is one, who may come in now."""
    if site.door is not None:
        site.door.admit(_guests(site.accounts))


def new_keys(site: Site, name: str) -> None:
    """Let nobody in with the keys that a user has had, at the door or as a client of ModelArts; those
    who have none get none."""
    home = site.stores.home
    if name in key_holders(home):
        renew_keys(home, name)
        admit_users(site)


@router.post("/me/s3-keys", response_model=S3Keys, summary="My keys for the S3 door")
async def my_keys(request: Request, site: SiteOf, user: Member, wanted: KeysRequest) -> Response:
    """AK and SK of the user who asks. They are the user's own: nobody else is ever shown them."""
    keys = await run_in_threadpool(s3_keys, request, site, user.name, renew=wanted.renew)
    reply = answer(keys)
    reply.headers["Cache-Control"] = "no-store"
    return reply


def s3_keys(request: Request, site: Site, user: str, *, renew: bool) -> S3Keys:
    """The user's keys, with all that a client has to know of the door."""
    door = site.door
    if door is None:
        raise NotFound("this server has no S3 door", hint="start it with one: jumar up --s3 PORT")
    # By the name that the client knows this machine by.
    host = urlsplit(str(request.base_url)).hostname or "127.0.0.1"
    keys = _keys(site, door, user, renew)
    return S3Keys(
        endpoint=door_endpoint(host, door.port, is_secure=door.certificate is not None),
        region=door.credential.region,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        certificate=door.own_certificate,
    )


def _keys(site: Site, door: Door, user: str, renew: bool) -> Keys:
    keys = renew_keys(door.home, user) if renew else user_keys(door.home, user)
    if renew:
        admit_users(site)
    door.wait_for_key(user)
    return keys


def _guests(accounts: Accounts) -> tuple[Guest, ...]:
    known = accounts.users()
    return tuple(Guest(u.name, u.role == "admin") for u in known if u.role != "pending")
