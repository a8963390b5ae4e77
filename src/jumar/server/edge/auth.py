"""Who asks, and whether they may. Tokens come as `Authorization: Bearer …` or in the cookie."""

from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import Response

from jumar.errors import NotAllowed, NotApproved, NotFound, NotSignedIn
from jumar.people.rights import Right
from jumar.people.tokens import SESSION_S, Proof, digest, still_held
from jumar.people.unix import Peer
from jumar.server.edge.site import Site, SiteOf, site_of
from jumar.spec.people import UserRecord
from jumar.spec.records import JobSummary

COOKIE = "jumar_session"
LINK_COOKIE = "jumar_links"
MOST_LINKS = 8


async def user_or_none(connection: HTTPConnection) -> UserRecord | None:
    """The user who asks, or None for a stranger."""
    site, token, peer = site_of(connection), token_of(connection), peer_of(connection)
    if token:
        tokens = site.accounts.tokens
        # Most are known, and a thread takes longer than the look.
        user = tokens.known_user_of(token) or await run_in_threadpool(tokens.user_of, token)
    elif peer is not None and site.unix is not None:
        user = await run_in_threadpool(site.unix.user_of, peer)
    else:
        return None
    if user is not None:
        # When there are too many connections, those of strangers go first.
        connection.state.user = user.name
    return user


async def signed_in(connection: HTTPConnection) -> UserRecord:
    """The user who asks, of any role."""
    user = await user_or_none(connection)
    if user is None:
        raise NotSignedIn(
            "not signed in, or the token is not valid", hint=_sign_in_hint(site_of(connection))
        )
    return user


def _sign_in_hint(site: Site) -> str:
    return f"sign in with: jumar login {site.pages}"


async def member(user: Annotated[UserRecord, Depends(signed_in)]) -> UserRecord:
    """The user who asks, if an administrator has let them in."""
    if user.role not in ("member", "admin"):
        raise NotApproved(
            f"{user.name} is waiting for an administrator's approval",
            hint=f"ask an administrator to run: jumar users approve {user.name}",
        )
    return user


async def admin(user: Annotated[UserRecord, Depends(signed_in)]) -> UserRecord:
    """The user who asks, if they are an administrator."""
    if user.role != "admin":
        raise NotAllowed("only an administrator may do this")
    return user


SignedIn = Annotated[UserRecord, Depends(signed_in)]
Member = Annotated[UserRecord, Depends(member)]
Admin = Annotated[UserRecord, Depends(admin)]


def may_open(user: UserRecord, owner: str) -> bool:
    """Whether `user` may see and change all of a job of `owner`."""
    return user.role == "admin" or user.name == owner


def find_job(site: Site, job: str, user: UserRecord, owner: str | None = None) -> JobSummary:
    """The job that `user` means by `job`, or means of `owner`'s; waits for the database."""
    if owner is not None and not may_open(user, owner):
        raise NotAllowed(
            "this job belongs to somebody else",
            hint="only its owner or an administrator may open it",
        )
    found = site.service.find(job, user=user.name, owner=owner, sees_all=user.role == "admin")
    if not may_open(user, found.user):
        raise NotAllowed(
            f"job {found.id} belongs to {found.user}",
            hint="only its owner or an administrator may open it",
        )
    return found


def right_of(connection: HTTPConnection) -> Right:
    """With what somebody asks."""
    token, peer = token_of(connection), peer_of(connection)
    return Right(peer=peer) if not token and peer is not None else Right(digest(token))


async def check_still_seen(site: Site, request: HTTPConnection, job: JobSummary) -> None:
    """NotSignedIn or NotAllowed once who asked may no longer look at a job."""
    known = None if link_secrets(request) else site.accounts.tokens.known_user_of(token_of(request))
    if known is not None:
        # Many ask, every second, and what is known of them is forgotten with every change.
        _check_allowed(site, known, job.user)
    else:
        await run_in_threadpool(_check_still_seen, site, request, job)


def _check_still_seen(site: Site, request: HTTPConnection, job: JobSummary) -> None:
    if not holds_link(site, request, job.id):
        check_still_allowed(site, right_of(request), job.user)


def check_still_allowed(site: Site, right: Right, owner: str) -> None:
    """NotSignedIn or NotAllowed once who asked may no longer open a job of `owner`."""
    if right.peer is not None and site.unix is not None:
        user = site.unix.user_of(right.peer)
    else:
        user = site.accounts.tokens.user_by(right.token)
    _check_allowed(site, user, owner)


def _check_allowed(site: Site, user: UserRecord | None, owner: str) -> None:
    if user is None:
        raise NotSignedIn(
            "signed out: the token was revoked or has expired", hint=_sign_in_hint(site)
        )
    if user.role == "pending" or not may_open(user, owner):
        raise NotAllowed(
            f"{user.name} may no longer see this job", hint="ask an administrator of the server"
        )


async def job_of_path(
    job: str,
    site: SiteOf,
    user: Member,
    owner: Annotated[
        str | None,
        Query(alias="user", max_length=64, description="whose job it is, when it is not yours"),
    ] = None,
) -> JobSummary:
    """The job named in the path, if the user may open it."""
    return await run_in_threadpool(find_job, site, job, user, owner)


OpenedJob = Annotated[JobSummary, Depends(job_of_path)]


def link_secrets(connection: HTTPConnection) -> list[str]:
    """The secrets of the read-only links that a browser was led here by, the latest first."""
    kept = connection.cookies.get(LINK_COOKIE, "")
    return [secret for secret in kept.split(".") if secret][:MOST_LINKS]


def holds_link(site: Site, connection: HTTPConnection, job_id: str) -> bool:
    """Whether a link lets who asks look at a job; waits for the database."""
    opens = site.accounts.links.opens
    return any(opens(secret, job_id) for secret in link_secrets(connection))


async def member_or_none(connection: HTTPConnection) -> UserRecord | None:
    """The user who asks; None for who holds a read-only link and is nobody we know."""
    user = await user_or_none(connection)
    if link_secrets(connection) and (user is None or user.role == "pending"):
        return None
    return await member(await signed_in(connection))


def see_job(
    site: Site,
    connection: HTTPConnection,
    user: UserRecord | None,
    job: str,
    owner: str | None = None,
) -> JobSummary:
    """The job, if its user, an administrator or the holder of a link asks; waits for the database."""
    try:
        if user is not None:
            return find_job(site, job, user, owner)
    except (NotAllowed, NotFound):
        if not _is_linked(site, connection, job):
            raise
    if not _is_linked(site, connection, job):
        raise NotSignedIn(
            "not signed in, or the link was revoked or has expired", hint=_sign_in_hint(site)
        )
    return site.service.glance(job)


def _is_linked(site: Site, connection: HTTPConnection, job: str) -> bool:
    return job.isascii() and job.isalnum() and holds_link(site, connection, job)


async def seen_job_of_path(
    connection: HTTPConnection,
    job: str,
    site: SiteOf,
    user: Annotated[UserRecord | None, Depends(member_or_none)],
    owner: Annotated[
        str | None,
        Query(alias="user", max_length=64, description="whose job it is, when it is not yours"),
    ] = None,
) -> JobSummary:
    """The job named in the path, to be looked at only."""
    row = None if owner is not None or user is None else site.service.at_hand(job)
    if row is not None and user is not None and may_open(user, row.user):
        # Open pages ask every second, most of them for jobs that run.
        return row.summary()
    return await run_in_threadpool(see_job, site, connection, user, job, owner)


SeenJob = Annotated[JobSummary, Depends(seen_job_of_path)]
Visitor = Annotated[UserRecord | None, Depends(member_or_none)]
"""None: the holder of a read-only link. What they may see has to be asked for each job."""


def set_link_cookie(response: Response, secrets: list[str], *, secure: bool) -> None:
    """Let a browser look at what these links lead to."""
    response.set_cookie(
        LINK_COOKIE,
        ".".join(secrets[:MOST_LINKS]),
        max_age=SESSION_S,
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def set_cookie(response: Response, token: str, *, secure: bool) -> None:
    """Sign a browser in."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=SESSION_S,
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def came_over_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy before us; who lies harms only themselves."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def address_of(request: Request) -> str:
    """Where a request comes from: the socket's peer, whatever its headers say."""
    return request.client.host if request.client else ""


def peer_of(connection: HTTPConnection) -> Peer | None:
    """Who the kernel says is calling, where the call came over a Unix socket."""
    return getattr(connection.state, "peer", None)


def proof_of(connection: HTTPConnection) -> Proof | None:
    """That who asks may still do so in the moment in which something is made: a token can be taken
    back, what the kernel says cannot."""
    token = token_of(connection)
    return None if not token and peer_of(connection) is not None else still_held(token)


def token_of(connection: HTTPConnection) -> str:
    """The secret that came with a request or a handshake, or nothing."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return connection.cookies.get(COOKIE, "")
