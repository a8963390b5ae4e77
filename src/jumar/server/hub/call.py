"""One request to the hub: where it goes, who asks, what it brings."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, unquote

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from jumar.errors import BadInput, JobNotFound, NotAllowed, NotApproved, NotSignedIn
from jumar.hub.hub import Hub
from jumar.hub.names import PLURALS, Kind
from jumar.server.edge.exchange import too_large
from jumar.server.edge.requests import in_blocks
from jumar.server.edge.site import Site
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord
from jumar.spec.text import flaws

T = TypeVar("T")
BLOCK_BYTES = 4 << 20
MOST_JSON_BYTES = 16 << 20
# Apart from those of the API: a git that takes long must not hold up the rest of the server.
_threads = CapacityLimiter(24)
BAD_TOKEN = "Invalid credentials in Authorization header"


# The other hub's time is not ours: who waits for it holds up only others who do.
_far_threads = CapacityLimiter(24)


async def in_far_thread(work: Callable[..., T], *given: Any) -> T:
    """The same from one of the threads that wait for another hub. Who leaves does not wait for it."""
    return await to_thread.run_sync(work, *given, limiter=_far_threads, abandon_on_cancel=True)


async def in_thread(work: Callable[..., T], *given: Any) -> T:
    """What `work` returns, from a thread of the hub's."""
    return await to_thread.run_sync(work, *given, limiter=_threads)


class Call:
    """A request. `parts` are the segments of its path below the door, decoded one by one."""

    def __init__(self, site: Site, scope: Scope, receive: Receive, send: Send) -> None:
        self.site = site
        self.scope = scope
        self.receive = receive
        self._send = send
        self.method = str(scope["method"])
        self.headers = Headers(scope=scope)
        raw = scope["raw_path"].decode("latin-1").split("/")
        self.door = raw[1]
        self.parts = [unquote(part) for part in raw[2:]]
        self.query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self.user: UserRecord | None = None
        self.only_reads = False
        """Whether it is a job that asks, in the name of its user, or who came by SSH to fetch."""
        self.answered = False

    @property
    def hub(self) -> Hub:
        return self.site.hub

    @property
    def origin(self) -> str:
        """The address of this server, as the client wrote it."""
        return f"{self.scope['scheme']}://{self.headers['host']}"

    @property
    def base(self) -> str:
        """The address of the door that the client came through."""
        return f"{self.origin}/{self.door}"

    def asked(self, name: str, default: str = "") -> str:
        """A field of the query."""
        return self.query.get(name, [default])[0]

    async def sign_in(self, visited: str = "") -> None:
        """Find out who asks: by a token, never by a cookie. NotSignedIn where the token is not good.
        `visited`: the repository, where tokens for LFS are good that were given out over SSH."""
        token, name = _token(self.headers.get("authorization", ""))
        if token is None:
            return
        right = self.hub.visit_right(token, name or "", visited) if visited else None
        if right is None:
            user = await in_thread(self._user_of, token)
        else:
            user = await in_thread(self._user_named, name)
            self.only_reads = right != "upload"
        if user is None or (name is not None and name != user.name):
            raise NotSignedIn(BAD_TOKEN, hint="use a token as the password: jumar tokens create")
        if user.role not in ("member", "admin"):
            raise NotApproved(f"{user.name} is waiting for an administrator's approval")
        self.user = user
        self.scope.setdefault("state", {})["user"] = user.name

    def _user_of(self, token: str) -> UserRecord | None:
        job = self.hub.job_of(token)
        if job is None:
            return self.site.accounts.tokens.user_of(token)
        self.only_reads = True
        try:
            found = self.site.service.glance(job)
        except JobNotFound:
            return None
        if found.state.is_final:
            return None
        return self._user_named(found.user)

    def _user_named(self, name: str | None) -> UserRecord | None:
        return next((one for one in self.site.accounts.users() if one.name == name), None)

    def writer(self) -> UserRecord:
        """Who asks, if they may change anything at all."""
        user = self.signed_in()
        if self.only_reads:
            raise NotAllowed(
                "this token only reads",
                hint="a job that has to write needs a token of yours as HF_TOKEN, with HF_ENDPOINT",
            )
        return user

    def signed_in(self) -> UserRecord:
        """Who asks; NotSignedIn for a stranger."""
        if self.user is None:
            raise NotSignedIn("sign in with a token", hint="make one: jumar tokens create")
        return self.user

    async def repo(self, kind: Kind, owner: str, name: str, *, write: bool = False) -> RepoRecord:
        """The repository, if who asks may read it, or write to it."""
        repositories = self.hub.repositories
        find = repositories.writable if write else repositories.readable
        found = await in_thread(find, self.user, kind, owner, name)
        if write:
            # Only now: what may not even be read does not exist.
            self.writer()
        return found

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; ClientDisconnect when the client leaves amid it."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return

    def blocks(self) -> AsyncIterator[bytes]:
        """The body in large pieces."""
        return in_blocks(self.chunks(), BLOCK_BYTES)

    async def body(self, most: int = MOST_JSON_BYTES) -> bytes:
        """The body, whole."""
        received = bytearray()
        async for chunk in self.chunks():
            received += chunk
            if len(received) > most:
                raise too_large(most)
        return bytes(received)

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty one stands for no fields."""
        received = await self.body()
        if not received:
            return {}
        try:
            values = json.loads(received)
        except (ValueError, RecursionError):
            raise BadInput("the body is not JSON") from None
        if not isinstance(values, dict):
            raise BadInput("the body is not a JSON object")
        fields = cast("dict[str, Any]", values)
        for place, words in flaws(fields):
            raise BadInput(f"{'.'.join(map(str, place))}: {words}")
        return fields

    @asynccontextmanager
    async def while_there(self) -> AsyncGenerator[None]:
        """While an answer is sent that takes long; ClientDisconnect once nobody is there to take it. Without
        it sending goes on into nothing."""
        current = asyncio.current_task()
        assert current is not None
        has_left = False

        async def watch() -> None:
            nonlocal has_left
            while (await self.receive())["type"] != "http.disconnect":
                continue
            has_left = True
            current.cancel()

        watching = asyncio.create_task(watch())
        try:
            yield
        except asyncio.CancelledError:
            if not has_left:
                raise
            current.uncancel()
            raise ClientDisconnect from None
        finally:
            watching.cancel()

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self.answered = True
        await self._send(message)

    async def answer(
        self, status: int, body: bytes | object = b"", media: str = "application/json", **more: str
    ) -> None:
        """A whole answer; headers are given with `_` for `-`."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": media, "content-length": str(len(content))}
        headers |= {name.replace("_", "-").lower(): value for name, value in more.items()}
        await self.start(status, headers)
        shown = b"" if self.method == "HEAD" else content
        await self.send({"type": "http.response.body", "body": shown})

    async def start(self, status: int, headers: dict[str, str]) -> None:
        """The head of an answer."""
        pairs = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})


def _token(header: str) -> tuple[str | None, str | None]:
    """The token, and whose the client says it is; Basic carries both."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip(), None
    if scheme.lower() != "basic":
        return (value.strip(), None) if header else (None, None)
    try:
        name, _, token = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", None
    return token, name


def split_kind(parts: list[str]) -> tuple[Kind, list[str]]:
    """The kind that a path begins with, and the rest; a model where it names none."""
    kind = PLURALS.get(parts[0]) if parts else None
    return ("model", parts) if kind is None else (kind, parts[1:])


def ascii_line(text: str) -> str:
    """Text that a header can hold."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[:500]
