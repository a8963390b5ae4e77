"""Users, their passwords and sessions over REST; their tokens are in `tokens.py`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.api.s3 import admit_users, new_keys
from jumar.server.edge.addresses import pages_at
from jumar.server.edge.auth import Admin, Member, SignedIn, address_of, proof_of, token_of
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.people import GivenPassword, UserRecord

router = APIRouter(tags=["users"])
# Hashing a password takes long on purpose; it must not take the threads of all other requests.
_hashing = CapacityLimiter(2)


class Credentials(Body):
    """A name and its password."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Annotated[str, Field(max_length=1024)]


class RoleChange(Body):
    """What a user may do from now on."""

    role: Literal["admin", "member", "pending"]


class PasswordChange(Body):
    """The password so far and the one from now on."""

    old: Annotated[str, Field(max_length=1024)] = ""
    new: Annotated[str, Field(max_length=1024)]


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that stands for a user."""

    token: str


@dataclass(frozen=True, slots=True)
class LoginCode:
    """A secret for one visit to the login page."""

    code: str
    url: str


async def sign_in(
    request: Request, site: Site, name: str, password: str, label: str = "sign-in"
) -> str:
    """A token for the user with this password."""
    with site.patience.guess(name, address_of(request)):
        return await to_thread.run_sync(
            site.accounts.sign_in, name, password, label, limiter=_hashing
        )


async def register(request: Request, site: Site, name: str, password: str) -> UserRecord:
    """A new user, who waits for an administrator."""
    with site.patience.registration(address_of(request)):
        return await to_thread.run_sync(site.accounts.register, name, password, limiter=_hashing)


async def change_password(
    request: Request, site: Site, user: UserRecord, old: str, new: str
) -> None:
    """Another password for the user who asks; whoever found a session open guesses in vain."""
    keep = token_of(request)
    with site.patience.guess(user.name, address_of(request)):
        await to_thread.run_sync(
            lambda: site.accounts.change_password(user.name, old, new, keep=keep), limiter=_hashing
        )


def set_role(site: Site, name: str, role: str) -> UserRecord:
    """Change what a user may do, on the platform and behind the S3 door; waits for the database."""
    user = site.accounts.set_role(name, role)
    admit_users(site)
    return user


async def reset_password(site: Site, name: str) -> GivenPassword:
    """A password to begin anew with; whatever proved the user before ends, S3 keys included."""
    given = await to_thread.run_sync(site.accounts.reset_password, name, limiter=_hashing)
    await run_in_threadpool(new_keys, site, name)
    return given


@router.get("/me", response_model=UserRecord, summary="Who I am")
async def me(user: SignedIn) -> Response:
    """The user whose token this is."""
    return answer(user)


@router.post("/users", status_code=201, response_model=UserRecord, summary="Register")
async def create_user(request: Request, site: SiteOf, credentials: Credentials) -> Response:
    """Open to everyone; the new user is pending until an administrator approves."""
    user = await register(request, site, credentials.name, credentials.password)
    return answer(user, 201)


def known_users(site: Site) -> Sequence[UserRecord]:
    """Everyone, with the roles that they have now."""
    known = site.accounts.users()
    if site.unix is not None:
        known = site.unix.with_admins(known)
    disk = site.service.disk
    return (
        [replace(user, disk_bytes=disk.of(user.name)) for user in known]
        if disk.limit_bytes
        else known
    )


@router.get("/users", response_model=list[UserRecord], summary="List users")
async def list_users(site: SiteOf, _admin: Admin) -> Response:
    """Everyone the server knows, by name."""
    return answer(await run_in_threadpool(known_users, site))


@router.patch("/users/{name}", response_model=UserRecord, summary="Change a role")
async def change_role(site: SiteOf, _admin: Admin, name: str, change: RoleChange) -> Response:
    """Approve a user, make an administrator, or take rights back."""
    return answer(await run_in_threadpool(set_role, site, name, change.role))


@router.delete("/users/{name}", status_code=204, summary="Reject a user")
async def reject(site: SiteOf, _admin: Admin, name: str) -> Response:
    """Forget a user who was never approved."""
    await run_in_threadpool(site.accounts.reject, name)
    return Response(status_code=204)


@router.post("/users/{name}/reset", response_model=GivenPassword, summary="Give out a new password")
async def reset(site: SiteOf, _admin: Admin, name: str) -> Response:
    """A password for a user who has lost theirs, good for a day. All sessions, tokens, login links
    and S3 keys of that user end."""
    return answer(await reset_password(site, name))


@router.put("/me/password", status_code=204, summary="Change my password")
async def set_password(
    request: Request, site: SiteOf, user: Member, change: PasswordChange
) -> Response:
    """All other sessions of the user end; tokens that the user has made stay."""
    await change_password(request, site, user, change.old, change.new)
    return Response(status_code=204)


@router.post("/session", response_model=Token, summary="Sign in")
async def create_session(request: Request, site: SiteOf, credentials: Credentials) -> Response:
    """A token for a name and a password; it ends after 30 days."""
    return answer(Token(await sign_in(request, site, credentials.name, credentials.password)))


@router.post("/login-codes", status_code=201, response_model=LoginCode, summary="Make a login link")
async def create_login_code(request: Request, site: SiteOf, user: Member) -> Response:
    """A link that signs a browser in, once, within an hour."""
    proof = proof_of(request)
    code = await run_in_threadpool(site.accounts.login_code, user.name, proof)
    return answer(LoginCode(code, f"{pages_at(site, request)}/login?code={code}"), 201)
