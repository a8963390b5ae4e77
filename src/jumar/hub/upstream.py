"""Another hub, which is asked for what does not exist here; what it gives is kept.

Files are kept by their ETag, answers by what was asked: an answer about a commit never changes, another one
counts only while the other hub cannot be asked."""

import hashlib
import json
import os
import re
import secrets
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urljoin, urlsplit

from jumar.errors import Unavailable
from jumar.hub.detours import Stay, is_same_place, opener_for
from jumar.hub.names import COMMIT, OID
from jumar.wholefile import whole_file

KEPT = ("etag", "x-repo-commit", "x-linked-etag", "x-linked-size", "x-error-code", "x-error-message", "link", "content-type", "content-length", "content-range", "x-total-count")  # fmt: skip
"""Headers that clients need. Those of Xet would send them past us."""
_LIMIT_S = 60.0
_MOST_ANSWER = 64 << 20
_MOST_REDIRECTS = 5
UNUSED_S = 30 * 24 * 3600
_WRONG_S = 600.0
_CLEAN_ETAG = re.compile(r"[0-9a-fA-F-]{8,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Told:
    """What the other hub answered."""

    status: int
    headers: dict[str, str]
    body: str = ""

    @property
    def etag(self) -> str:
        """What names the content: SHA-256 of an LFS file, else git's name of it; empty where it is none."""
        given = self.headers.get("x-linked-etag") or self.headers.get("etag", "")
        text = given.removeprefix("W/").strip('"')
        return text if _CLEAN_ETAG.fullmatch(text) else ""

    @property
    def size(self) -> int | None:
        """How large the file is."""
        text = self.headers.get("x-linked-size") or self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else None


class Upstream:
    """Thread-safe; waits for the network."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._folder = folder
        self._opener = urllib.request.build_opener(Stay())
        self._wrong: dict[str, float] = {}

    def answer(self, path: str, *, body: bytes | None, media: str, commit: str) -> Told:
        """What an API call is answered; `path` is quoted and may have a query. `commit`: the revision that
        it names, if it names one."""
        place = self._folder / "answers" / _name(path, body or b"")
        if COMMIT.fullmatch(commit) and (known := _known(place)) is not None:
            return known
        try:
            with self.open("GET" if body is None else "POST", path, body=body, media=media) as got:
                content = _all_of(got)
                told = Told(got.status, headers_of(got.headers), content.decode("utf-8", "replace"))
        except Unavailable:
            known = _known(place)
            if known is None:
                raise
            return known
        if told.status == 200:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(place, private=True) as file:
                file.write(json.dumps(asdict(told)).encode())
        return told

    def head(self, path: str, revision: str) -> Told:
        """What is told of a file, by its own answer and not by the one that it redirects to."""
        place = self._folder / "answers" / _name(f"HEAD {path}", b"")
        known = _known(place)
        if known is not None and COMMIT.fullmatch(revision):
            return known
        try:
            with self.open("HEAD", path, follow=False) as got:
                told = Told(got.status, headers_of(got.headers))
        except Unavailable:
            if known is None:
                raise
            return known
        if told.status < 400:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(place, private=True) as file:
                file.write(json.dumps(asdict(told)).encode())
        return told

    def kept(self, told: Told) -> BinaryIO | None:
        """The file, where it was fetched before."""
        place = self._file(told)
        try:
            file = place.open("rb") if place is not None else None
        except FileNotFoundError:
            return None
        if file is not None and place is not None:
            os.utime(place)
        return file

    def keeping(self, told: Told) -> "Keeping | None":
        """Takes the content of a file while it is passed on; None where nothing would know it again."""
        place = self._file(told)
        return None if place is None or told.size is None else Keeping(place, told.size, told.etag)

    def _file(self, told: Told) -> Path | None:
        return self._folder / "files" / _name(told.etag, b"") if told.etag else None

    def open(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        media: str = "",
        follow: bool = True,
        span: str = "",
    ) -> Any:
        """The answer, to be read and closed; Unavailable where there is none."""
        url = f"{self.url}{path}"
        headers = {"User-Agent": "jumar", "Accept-Encoding": "identity"}
        headers |= {"Content-Type": media} if media else {}
        headers |= {"Range": span} if span else {}
        for _ in range(_MOST_REDIRECTS):
            is_there = is_same_place(url, self.url)
            own = {"Authorization": f"Bearer {self._token}"} if self._token and is_there else {}
            request = urllib.request.Request(url, body, {**headers, **own}, method=method)
            got = self._ask(request, elsewhere=not is_there)
            target = got.headers.get("Location")
            if got.status not in (301, 302, 303, 307, 308) or not target:
                return got
            found = urljoin(url, target)
            if not follow and not is_same_place(found, self.url):
                return got
            got.close()
            if urlsplit(found).scheme not in ("http", "https"):
                break
            url = found
        raise Unavailable("the other hub redirects for ever")

    def _ask(self, request: urllib.request.Request, *, elsewhere: bool) -> Any:
        try:
            opener = opener_for(request.full_url, self.url) if elsewhere else self._opener
            return opener.open(request, timeout=_LIMIT_S)
        except urllib.error.HTTPError as error:
            if error.code >= 500 or error.code == 429:
                error.close()
                raise Unavailable(f"the other hub answers {error.code}", hint="try again") from None
            # It is an answer like any other.
            return error
        except (OSError, HTTPException, ValueError) as error:
            raise Unavailable("the other hub does not answer", hint="try again later") from error

    def distrust(self, told: Told) -> None:
        """What came was something else: for a while nobody gets it, not in parts either."""
        now = time.monotonic()
        still = {etag: until for etag, until in self._wrong.items() if until > now}
        self._wrong = {**still, told.etag: now + _WRONG_S}

    def is_distrusted(self, told: Told) -> bool:
        """Whether it was, a moment ago."""
        return self._wrong.get(told.etag, 0.0) > time.monotonic()

    def collect(self) -> None:
        """Remove what nobody has asked for in a month, and what a killed server left."""
        cut = time.time() - UNUSED_S
        for one in [*self._folder.glob("files/*"), *self._folder.glob("answers/*")]:
            if one.stat().st_mtime < cut:
                one.unlink(missing_ok=True)


class Keeping:
    """A file on its way to a client; kept once it is whole and what its name says."""

    def __init__(self, place: Path, size: int, etag: str) -> None:
        self._place, self._size = place, size
        self._oid = etag if OID.fullmatch(etag) else ""
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._aside = place.with_name(f".{secrets.token_hex(8)}")
        self._file = self._aside.open("xb")
        self._hashed = hashlib.sha256()

    def write(self, block: bytes) -> bool:
        """Take the next part; False once it is more than was announced."""
        if self._file.tell() + len(block) > self._size:
            return False
        self._file.write(block)
        self._hashed.update(block)
        return True

    def keep(self) -> bool:
        """Whether it is what it should be; only then it is kept."""
        is_whole = self._file.tell() == self._size
        is_true = not self._oid or self._hashed.hexdigest() == self._oid
        self._file.close()
        if is_whole and is_true:
            self._aside.rename(self._place)
        return is_whole and is_true

    def close(self) -> None:
        """Forget what is not kept."""
        self._file.close()
        self._aside.unlink(missing_ok=True)


def next_part(got: Any, most: int) -> bytes:
    """What has come of an answer, nothing at its end; Unavailable where it was cut or nothing comes. Never
    waits for more: an answer that trickles would hold its thread for ever."""
    try:
        part = cast("bytes", got.read1(most))
    except (OSError, HTTPException, ValueError) as error:
        raise _broke_off() from error
    # Of an answer with a length the library takes an early end for a good one.
    if not part and getattr(got, "length", None):
        raise _broke_off()
    return part


def _broke_off() -> Unavailable:
    return Unavailable("the other hub broke off its reply", hint="try again")


def hang_up(got: Any) -> None:
    """Have no more of an answer: a thread that waits for its next part goes on at once. To close it would wait
    for that thread."""
    # At its end it has let go of the connection already.
    with (
        suppress(OSError, ValueError, AttributeError),
        socket.socket(fileno=os.dup(got.fileno())) as wire,
    ):
        wire.shutdown(socket.SHUT_RDWR)


def _all_of(got: Any) -> bytes:
    content = bytearray()
    give_up_at = time.monotonic() + _LIMIT_S
    while part := next_part(got, _MOST_ANSWER):
        content += part
        if len(content) > _MOST_ANSWER:
            raise Unavailable("the other hub's answer is too large")
        if time.monotonic() > give_up_at:
            raise Unavailable("the other hub answers too slowly", hint="try again later")
    return bytes(content)


def headers_of(given: Mapping[str, str]) -> dict[str, str]:
    """Those that clients need."""
    lower = {name.lower(): value for name, value in given.items()}
    return {name: lower[name] for name in KEPT if name in lower}


def _name(text: str, body: bytes) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape") + b"\0" + body).hexdigest()


def _known(place: Path) -> Told | None:
    try:
        found = Told(**json.loads(place.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    os.utime(place)
    return found
