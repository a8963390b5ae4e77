"""Users, sessions and tokens over REST."""

from dataclasses import dataclass
from typing import Annotated, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import NotSignedIn
from jumar.server.auth import Admin, Member, SignedIn
from jumar.server.exchange import answer
from jumar.server.s3 import set_role
from jumar.server.site import Site, SiteOf
from jumar.spec.records import UserRecord

router = APIRouter(tags=["users"])
# Hashing a password takes long on purpose; it must not take the threads of all other requests.
_hashing = CapacityLimiter(2)


class Credentials(BaseModel):
    """A name and its password."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Annotated[str, Field(max_length=1024)]


class RoleChange(BaseModel):
    """What a user may do from now on."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["admin", "member", "pending"]


class TokenRequest(BaseModel):
    """What a new token is for."""

    model_config = ConfigDict(extra="forbid")
    label: Annotated[str, Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that stands for a user; shown once."""

    token: str


@dataclass(frozen=True, slots=True)
class LoginCode:
    """A secret for one visit to the login page."""

    code: str
    url: str


async def sign_in(request: Request, site: Site, name: str, password: str) -> str:
    """A token for the user with this password."""
    address = request.client.host if request.client else ""
    site.patience.ask(name, address)
    try:
        token = await to_thread.run_sync(site.accounts.sign_in, name, password, limiter=_hashing)
    except NotSignedIn:
        site.patience.wrong(name, address)
        raise
    site.patience.right(name, address)
    return token


async def register(site: Site, name: str, password: str) -> UserRecord:
    """A new user, who waits for an administrator."""
    return await to_thread.run_sync(site.accounts.register, name, password, limiter=_hashing)


@router.get("/me", response_model=UserRecord, summary="Who I am")
async def me(user: SignedIn) -> Response:
    """The user whose token this is."""
    return answer(user)


@router.post("/users", status_code=201, response_model=UserRecord, summary="Register")
async def create_user(site: SiteOf, credentials: Credentials) -> Response:
    """Open to everyone; the new user is pending until an administrator approves."""
    return answer(await register(site, credentials.name, credentials.password), 201)


@router.get("/users", response_model=list[UserRecord], summary="List users")
async def list_users(site: SiteOf, _admin: Admin) -> Response:
    """Everyone the server knows, by name."""
    return answer(await run_in_threadpool(site.accounts.users))


@router.patch("/users/{name}", response_model=UserRecord, summary="Change a role")
async def change_role(site: SiteOf, _admin: Admin, name: str, change: RoleChange) -> Response:
    """Approve a user, make an administrator, or take rights back."""
    return answer(await run_in_threadpool(set_role, site, name, change.role))


@router.post("/session", response_model=Token, summary="Sign in")
async def create_session(request: Request, site: SiteOf, credentials: Credentials) -> Response:
    """A token for a name and a password."""
    return answer(Token(await sign_in(request, site, credentials.name, credentials.password)))


@router.post("/tokens", status_code=201, response_model=Token, summary="Make a token")
async def create_token(site: SiteOf, user: Member, wanted: TokenRequest) -> Response:
    """One more token for the same user, for a script or another machine."""
    token = await run_in_threadpool(site.accounts.new_token, user.name, wanted.label)
    return answer(Token(token), 201)


@router.post("/login-codes", status_code=201, response_model=LoginCode, summary="Make a login link")
async def create_login_code(site: SiteOf, user: Member) -> Response:
    """A link that signs a browser in, once, within an hour."""
    code = await run_in_threadpool(site.accounts.login_code, user.name)
    return answer(LoginCode(code, f"{site.info.url}/login?code={code}"), 201)
