"""HTTP to one server: kept-alive connections, time limits, retries, errors in words, and what calls are
made of.

A call is tried again only when that cannot do a thing twice: the server was not reached at all, or
the call is one that may be repeated. Knows JSON and bytes, nothing of jobs."""

import json
import logging
import socket
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from jumar.client.over_socket import UnixConnection
from jumar.errors import (
    BadInput,
    Conflict,
    JumarError,
    NotAllowed,
    NotFound,
    NotSignedIn,
    ServerFailed,
    ServerUnreachable,
    StorageFull,
    TooManyAttempts,
    from_json,
)
from jumar.spec import wire
from jumar.tls import NotTrusted, client_context, is_certificate

T = TypeVar("T")


def decode(kind: type[T], answer: Any) -> T:
    """An answer as a record."""
    try:
        return wire.decode(kind, answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ServerUnreachable(
            f"the server's answer is not what was asked for: {error}",
            hint="is it a jumar server, and not a much newer one?",
        ) from error


def part(text: str) -> str:
    """`text` as one part of a path."""
    if not text:
        raise BadInput("the name of a job, user or group is empty")
    return quote(text, safe="")


def place_of(job: str) -> tuple[str, str | None]:
    """The path of a job, and whose it is where `job` is `user/name`.

    The user goes into the query: a slash inside a part of a path does not survive every proxy."""
    owner, slash, name = job.partition("/")
    if not slash:
        return f"/jobs/{part(job)}", None
    if not owner or not name:
        raise BadInput(f"{job!r} does not name a job", hint="write USER/NAME, such as ann/train")
    return f"/jobs/{part(name)}", owner


CONNECT_LIMIT_S = 10.0
ANSWER_LIMIT_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_MOST_ERROR_BYTES = 1 << 16
_BLOCK = 1 << 18
# What OpenSSL makes of an answer that is not encrypted.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")

# For answers without a code that is known here: of a HEAD, of a proxy in between, of another version.
_BY_STATUS: dict[int, type[JumarError]] = {
    kind.status: kind
    for kind in (NotSignedIn, NotAllowed, NotFound, Conflict, ServerUnreachable, StorageFull)
}

Query = Mapping[str, str | int | list[str] | None]

logger = logging.getLogger(__name__)


class Upload(Protocol):
    """Bytes that can be sent again."""

    def seek(self, offset: int, /) -> int: ...

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    method: str
    path: str
    query: Query | None = None
    body: object = None
    """Anything JSON can say."""
    content: bytes | None = None
    """Sent as it is, instead of `body`."""
    upload: Upload | None = None
    upload_size: int = 0
    headers: Mapping[str, str] | None = None
    repeatable: bool = False
    """Whether doing it twice is the same as once."""
    answer_limit_s: float = ANSWER_LIMIT_S
    patience_s: float | None = None
    """Instead of the connection's own."""


class Connection:
    """The way to one server. Threads may share it: each call takes a connection of its own."""

    def __init__(self, url: str, token: str, *, patience_s: float, trust: str = "") -> None:
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._make, base = _way_to(url, trust)
        self._base = base + "/api/v1"
        self._token = token
        self._trust = trust
        self._idle: list[HTTPConnection] = []

    def close(self) -> None:
        """Let go of the kept connections."""
        while self._idle:
            self._idle.pop().close()

    def reach(self) -> None:
        """Open a connection and keep it for the next call; ServerUnreachable when refused."""
        connection = self._new()
        try:
            self._connect(connection)
        except OSError as error:
            raise self._refused(error) or self._unreachable(error) from error
        self._idle.append(connection)

    def json(self, call: Call) -> Any:
        """The answer as JSON values; None when it is empty."""
        exchange = self._until_answered(call, whole=True)
        self._keep(exchange)
        if not exchange.data:
            return None
        try:
            return json.loads(exchange.data)
        except ValueError as error:
            raise ServerUnreachable(
                f"{self.url} did not answer like a jumar server", hint="is the address right?"
            ) from error

    @contextmanager
    def stream(self, call: Call) -> Generator[HTTPResponse]:
        """The answer, to be read in parts."""
        exchange = self._until_answered(call, whole=False)
        try:
            yield exchange.response
        except BaseException:
            exchange.connection.close()
            raise
        self._keep(exchange)

    def _keep(self, exchange: "_Exchange") -> None:
        if exchange.response.length == 0:
            # Read in parts to its end, which the response itself does not notice.
            exchange.response.close()
        # What was not read to its end would be taken for the next call's answer.
        if exchange.response.isclosed() and exchange.connection.sock is not None:
            self._idle.append(exchange.connection)
        else:
            exchange.connection.close()

    def _until_answered(self, call: Call, *, whole: bool) -> "_Exchange":
        """An answer with a good status, from as many tries as patience allows."""
        patience_s = self.patience_s if call.patience_s is None else call.patience_s
        give_up_at = time.monotonic() + patience_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._try(call, whole)
            except _Broken as broken:
                if not (broken.unsent or call.repeatable) or time.monotonic() > give_up_at:
                    raise self._unreachable(broken.error) from broken.error
                logger.debug("%s %s: %s, trying again", call.method, call.path, broken.error)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _try(self, call: Call, whole: bool) -> "_Exchange":
        while self._idle:
            try:
                return self._exchange(self._idle.pop(), call, whole)
            except _Broken:
                # A server may close a kept connection at any time: that says nothing about it.
                if not call.repeatable:
                    raise
        connection = self._new()
        try:
            self._connect(connection)
        except OSError as error:
            for_good = self._refused(error)
            if for_good is not None:
                raise for_good from error
            raise _Broken(error, unsent=True) from error
        return self._exchange(connection, call, whole)

    def _exchange(self, connection: HTTPConnection, call: Call, whole: bool) -> "_Exchange":
        try:
            self._send(connection, call)
            response = connection.getresponse()
            if response.status >= 300:
                raise _error_of(call, response)
            return _Exchange(connection, response, _whole(response) if whole else b"")
        except (OSError, HTTPException) as error:
            connection.close()
            raise _Broken(error, unsent=False) from error
        except BaseException:
            connection.close()
            raise

    def _send(self, connection: HTTPConnection, call: Call) -> None:
        if connection.sock is not None:
            connection.sock.settimeout(call.answer_limit_s)
        path = self._base + call.path
        if call.query:
            given = {name: value for name, value in call.query.items() if value is not None}
            path += "?" + urlencode(given, doseq=True)
        headers = {"Accept": "application/json", **(call.headers or {})}
        token = self._token_for(connection)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = None
        if call.upload is not None:
            call.upload.seek(0)
            headers["Content-Length"] = str(call.upload_size)
            headers["Content-Type"] = "application/x-tar"
            body = call.upload
        elif call.content is not None:
            body = call.content
            headers["Content-Type"] = "application/octet-stream"
        elif call.body is not None:
            body = json.dumps(call.body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(call.method, path, body=body, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # The server may refuse an upload before it has all of it; its answer says why.
            if call.upload is None:
                raise

    def _connect(self, connection: HTTPConnection) -> None:
        connection.connect()
        if connection.sock.family != socket.AF_UNIX:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _new(self) -> HTTPConnection:
        return self._make()

    def _token_for(self, connection: HTTPConnection) -> str:
        """Our own, or what the far end of an ssh connection has said."""
        return self._token or getattr(connection, "token", "")

    def open_stream(self) -> tuple[socket.socket, str]:
        """A new connection as bare bytes, and the token to use on it; for who passes it on."""
        connection = self._new()
        try:
            self._connect(connection)
        except OSError as error:
            raise self._unreachable(error) from error
        return connection.sock, self._token_for(connection)

    def _refused(self, error: OSError) -> JumarError | None:
        """What no patience helps against, in words."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._distrusted(error.verify_message)
        if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            plain = self.url.replace("https:", "http:", 1)
            return ServerUnreachable(
                f"{self.url} does not speak TLS", hint=f"try it without: {plain}"
            )
        return self._unreachable(error) if isinstance(error, socket.gaierror) else None

    def _distrusted(self, why: str) -> NotTrusted:
        if is_certificate(self._trust):
            return NotTrusted(
                f"{self.url} does not show the certificate that was trusted at login",
                hint="it was replaced, or somebody is in between: ask its administrator for the "
                f"new fingerprint, then: jumar login {self.url} --fingerprint SHA256",
            )
        return NotTrusted(
            f"the certificate of {self.url} is not trusted here: {why}",
            hint=f"jumar login {self.url} shows its fingerprint; JUMAR_TRUST names a file with the "
            "certificates of your own authority",
        )

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"no answer from the server at {self.url}: {error_words(error)}",
            hint="ask an administrator of this machine: jumar site status"
            if self.url.startswith("unix:")
            else "start it with jumar up --detach, or set JUMAR_SERVER to use another one",
        )


def _way_to(url: str, trust: str) -> tuple[Callable[[], HTTPConnection], str]:
    """What makes connections to the server at `url`, and the path that all others are below."""
    parts = urlsplit(url)
    if parts.scheme == "ssh":
        # Late: few use it.
        from jumar.client.over_ssh import SshConnection, SshPlace

        return partial(SshConnection, SshPlace.of(url)), ""
    if parts.scheme == "unix" and parts.path:
        return partial(UnixConnection, parts.path, CONNECT_LIMIT_S, _BLOCK), ""
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise BadInput(
            f"{url!r} is not a server's address",
            hint="write it like http://127.0.0.1:7420 or ssh://ann@trainer",
        )
    made = partial(HTTPConnection, parts.hostname, port, timeout=CONNECT_LIMIT_S, blocksize=_BLOCK)
    if parts.scheme == "https":
        made = partial(HTTPSConnection, *made.args, **made.keywords, context=client_context(trust))
    return made, parts.path.rstrip("/")


@dataclass(frozen=True, slots=True)
class _Exchange:
    connection: HTTPConnection
    response: HTTPResponse
    data: bytes


def job_call(
    method: str,
    job: str,
    rest: str = "",
    *,
    query: Query | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
    body: object = None,
    answer_limit_s: float = ANSWER_LIMIT_S,
) -> Call:
    """A call about one job."""
    path, user = place_of(job)
    return Call(
        method=method,
        path=path + rest,
        query={"user": user, **(query or {})},
        headers=headers,
        repeatable=repeatable,
        body=body,
        answer_limit_s=answer_limit_s,
    )


class _Broken(Exception):
    def __init__(self, error: Exception, *, unsent: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.unsent = unsent


def error_words(error: Exception) -> str:
    """What went wrong between here and the server, for people."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _whole(response: HTTPResponse) -> bytes:
    # http.client takes a head that was cut off for a complete one. An answer that does not say
    # how long it is cannot be told from a part of it.
    if response.length is None and not response.chunked:
        raise HTTPException("the answer broke off")
    return response.read()


def _error_of(call: Call, response: HTTPResponse) -> JumarError:
    status = response.status
    unknown = _BY_STATUS.get(status, ServerFailed if status >= 500 else BadInput)
    try:
        told = json.loads(response.read(_MOST_ERROR_BYTES))["error"]
        error = from_json(told, unknown=unknown)
        if isinstance(error, TooManyAttempts):
            error.wait_s = int(response.headers.get("Retry-After", "1"))
        return error
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return unknown(f"{call.method} {call.path}: the server answered {status} {response.reason}")
