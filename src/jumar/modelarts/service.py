"""Talking to ModelArts: signed requests, each with a limit; what may pass is tried again.

Our own few lines and not the vendor's SDK: that one does not retry, and needs MongoDB's driver."""

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from jumar.errors import BadInput, EngineFailed, NotAllowed, NotFound, NotSignedIn
from jumar.modelarts.account import Account
from jumar.modelarts.signing import Signed, authorization, canonical_query, date_header
from jumar.tls import client_context

REQUEST_LIMIT_S = 60.0
MOST_ANSWER_BYTES = 16 << 20
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_MOST_WORDS = 500


class Away(EngineFailed):
    """ModelArts did not answer, or not usefully: what was asked may or may not have been done."""


@dataclass(frozen=True, slots=True)
class Service:
    """ModelArts for one account; safe to use from several threads."""

    account: Account
    patience_s: float = 0.0
    """How long a question is asked again while nobody answers."""
    pause: Callable[[float], object] = time.sleep

    def read(self, method: str, path: str, body: Any = None, query: str = "") -> Any:
        """Ask something that changes nothing, or nothing more the second time; Away when there was
        no answer all the while."""
        until = time.monotonic() + self.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self.send(method, path, body, query)
            except Away:
                if time.monotonic() + pause > until:
                    raise
            self.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def send(
        self, method: str, path: str, body: Any = None, query: str = "", *, at: float | None = None
    ) -> Any:
        """One request. Away: it may have been done; any other error: it was not. `at`: when it was signed;
        the same request of the same second has the same signature."""
        place = urlsplit(self.account.endpoint)
        data = b"" if body is None else json.dumps(body).encode()
        target = f"/v2/{self.account.project_id}{path}"
        headers = {
            "host": place.netloc,
            "content-type": "application/json",
            "x-sdk-date": date_header(time.time() if at is None else at),
        }
        request = Signed(method=method, path=target, query=query, headers=headers, body=data)
        keys = self.account.access_key, self.account.secret_key
        headers["authorization"] = authorization(*keys, request)
        full = f"{target}?{canonical_query(query)}" if query else target
        status, text = self._exchange(
            method, f"{place.scheme}://{place.netloc}{full}", data, headers
        )
        return _understood(status, text, f"{method} {path}")

    def fetch(self, url: str, start: int) -> bytes:
        """At most MOST_ANSWER_BYTES of what lies at a link of theirs, from a byte on; empty at its end."""
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise BadInput(f"ModelArts gave a link that is none: {url[:200]!r}")
        headers = {"range": f"bytes={start}-{start + MOST_ANSWER_BYTES - 1}"}
        status, data = self._exchange("GET", url, b"", headers)
        if status == 416:
            return b""
        if status not in (200, 206):
            return _understood(status, data, "a link to a log")
        # Whoever knows no ranges sends all of it.
        return (data[start:] if status == 200 else data)[:MOST_ANSWER_BYTES]

    def _exchange(
        self, method: str, url: str, data: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        place = urlsplit(url)
        connection = (
            http.client.HTTPSConnection(
                place.hostname or "",
                place.port,
                timeout=REQUEST_LIMIT_S,
                context=client_context(self.account.trust),
            )
            if place.scheme == "https"
            else http.client.HTTPConnection(
                place.hostname or "", place.port, timeout=REQUEST_LIMIT_S
            )
        )
        target = f"{place.path}?{place.query}" if place.query else place.path
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MOST_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            words = str(error) or type(error).__name__
            raise Away(f"ModelArts at {self.account.endpoint} does not answer: {words}") from error
        finally:
            connection.close()


def _understood(status: int, text: bytes, what: str) -> Any:
    if len(text) > MOST_ANSWER_BYTES:
        raise Away(f"{what}: the answer is larger than {MOST_ANSWER_BYTES >> 20} MiB")
    try:
        said: Any = json.loads(text) if text else {}
    except ValueError:
        said = {}
        if status < 400:
            raise Away(f"{what}: the answer is not JSON") from None
    if status < 400:
        return said
    code, words = (_field(said, name) for name in ("error_code", "error_msg"))
    message = f"ModelArts refused {what}: {words or f'status {status}'} ({code or status})"
    if status in _PASSING:
        raise Away(message)
    kinds: dict[int, type[BadInput | NotSignedIn | NotAllowed | NotFound]] = {
        401: NotSignedIn,
        403: NotAllowed,
        404: NotFound,
    }
    raise kinds.get(status, BadInput)(message)


def _field(said: Any, name: str) -> str:
    value = dig(said, name)
    return value[:_MOST_WORDS] if isinstance(value, str) else ""


def dig(said: Any, *names: str) -> Any:
    """A field of what was answered, or of what is in it; None where an answer has another form."""
    for name in names:
        said = cast("dict[str, Any]", said).get(name) if isinstance(said, dict) else None
    return said


def count_of(said: Any, *names: str) -> int:
    """A number of what was answered; 0 where there is none."""
    value = dig(said, *names)
    return value if isinstance(value, int) and value > 0 else 0
