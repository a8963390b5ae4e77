"""`hub://KIND/OWNER/NAME@REVISION:PATH` as a store that can be read: a repository at the commit that its
revision is at when it is first asked."""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast
from urllib.parse import quote, urlsplit

from jumar.errors import BadInput, NotFound
from jumar.store.base import Entry, Listing
from jumar.store.errors import Damaged, StoreAway

if TYPE_CHECKING:
    from http.client import HTTPResponse

SCHEME = "hub"
Reach = Callable[[], tuple[socket.socket, str]]
"""A new connection to the server, and the token to use on it."""
_NAME = re.compile(r"(project|model|dataset)/([^/:@]+)/([^/:@]+)(?:@([^:]+))?(?::(.*))?", re.S)
_LIMIT_S = 120.0
_BLOCK_BYTES = 1 << 20
_NEXT = re.compile(r'<([^>]*)>; rel="next"')
_HINT = "write hub://dataset/OWNER/NAME, hub://model/OWNER/NAME@REVISION or hub://…@main:PATH"


@dataclass(frozen=True, slots=True)
class HubServer:
    """The server that has the repositories."""

    host: str
    reach: Reach


def split(rest: str) -> tuple[str, str]:
    """Repository with revision, and path in it, of what comes after `hub://`."""
    match = _NAME.fullmatch(rest.rstrip("/") if ":" not in rest else rest)
    if match is None:
        raise BadInput(f"hub://{rest[:200]} is not the address of a repository", hint=_HINT)
    kind, owner, name, revision, path = match.groups()
    return f"{kind}/{owner}/{name}@{revision or 'main'}", (path or "").lstrip("/")


class HubStore:
    """Thread-safe."""

    def __init__(self, server: HubServer, repository: str) -> None:
        self._server = server
        self.name = f"hub://{repository}:"
        where, _, self._revision = repository.partition("@")
        kind, self._owner, self._repo = where.split("/")
        self._kinds = f"{kind}s"
        self._lock = threading.Lock()

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        """All files below `prefix`."""
        return (self._entry(one) for one in self._tree(prefix, "true") if one["type"] == "file")

    def level(self, prefix: str = "") -> Listing:
        """What is directly under `prefix`."""
        found = self._tree(prefix, "false")
        files = tuple(self._entry(one) for one in found if one["type"] == "file")
        folders = (str(one["path"]) for one in found if one["type"] == "directory")
        return Listing(files, tuple(f"{path}/" for path in folders))

    def has_objects(self, prefix: str) -> bool:
        """Whether there is any file below a folder."""
        return next(self.walk(prefix), None) is not None

    def has_folder(self, prefix: str = "") -> bool:
        """Whether there is such a folder."""
        return prefix == "" or bool(self._tree(prefix, "false"))

    def stat(self, key: str) -> Entry:
        """One file."""
        folder = key.rpartition("/")[0]
        for one in self._tree(f"{folder}/" if folder else "", "false"):
            if one["path"] == key and one["type"] == "file":
                return self._entry(one)
        raise NotFound(f"{self.name}{key} does not exist")

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """A part of a file."""
        end = "" if length is None else str(start + length - 1)
        with self._get(self._file(key), {"Range": f"bytes={start}-{end}"}) as answer:
            return self._part(answer)

    def fetch(self, entry: Entry, file: BinaryIO, seen: Callable[[int], None]) -> None:
        """All of a file, which is what its name in the repository says, or Damaged."""
        is_lfs = len(entry.etag) == 64
        digest = hashlib.sha256() if is_lfs else hashlib.sha1(b"blob %d\0" % entry.size)
        with self._get(self._file(entry.key), {}) as answer:
            while block := self._part(answer, _BLOCK_BYTES):
                file.write(block)
                digest.update(block)
                seen(len(block))
        if digest.hexdigest() != entry.etag:
            raise Damaged(f"{self.name}{entry.key}: what arrived is not what the repository has")

    def make_ready(self) -> None:
        """Nothing is written here."""
        self._only_read()

    def create(self) -> None:
        """Repositories are not made by copying."""
        self._only_read()

    def write(self, key: str, data: bytes) -> Entry:
        """Not here."""
        self._only_read()

    def delete(self, keys: Iterable[str]) -> None:
        """Not here."""
        self._only_read()

    def delete_folders(self, prefix: str) -> int:
        """Not here."""
        self._only_read()

    def copy(self, key: str, to: str) -> Entry:
        """Not here."""
        self._only_read()

    def make_folder(self, prefix: str) -> None:
        """Not here."""
        self._only_read()

    def empty_folders(self) -> Iterator[str]:
        """Git has none."""
        return iter(())

    def _only_read(self) -> NoReturn:
        raise BadInput(
            f"{self.name[:-1]} can only be read like this: a change of a repository is a commit",
            hint="upload with: jumar repo upload KIND OWNER/NAME PATH, or push with git",
        )

    @cached_property
    def _commit(self) -> tuple[str, float]:
        """The commit, and a moment that tells it from others, also from those of the same second."""
        told = self._json(f"{self._api}/revision/{quote(self._revision, safe='')}")
        sha = str(told["sha"] or "")
        if not sha:
            return "", 0.0
        at = datetime.fromisoformat(str(told["lastModified"])).timestamp()
        return sha, int(at) + int(sha[:6], 16) / (1 << 24)

    @property
    def _api(self) -> str:
        return f"/hf/api/{self._kinds}/{self._owner}/{self._repo}"

    def _file(self, key: str) -> str:
        where = f"/hf/{self._kinds}/{self._owner}/{self._repo}"
        return f"{where}/resolve/{self._now()[0]}/{quote(key)}"

    def _now(self) -> tuple[str, float]:
        with self._lock:
            return self._commit

    def _tree(self, prefix: str, recursive: str) -> list[dict[str, Any]]:
        path = f"/{quote(prefix.rstrip('/'))}" if prefix else ""
        commit, _ = self._now()
        address = f"{self._api}/tree/{commit}{path}?recursive={recursive}" if commit else ""
        found: list[dict[str, Any]] = []
        try:
            while address:
                with self._get(address, {}) as answer:
                    found += cast("list[dict[str, Any]]", json.loads(self._part(answer)))
                    more = _NEXT.search(answer.headers.get("Link") or "")
                link = urlsplit(more[1]) if more else None
                address = f"{link.path}?{link.query}" if link else ""
        except NotFound:
            if not prefix:
                raise
        return found

    def _entry(self, one: dict[str, Any]) -> Entry:
        lfs = cast("dict[str, Any]", one.get("lfs") or {})
        etag = str(lfs.get("oid") or one["oid"])
        return Entry(str(one["path"]), int(one["size"]), self._now()[1], etag)

    def _json(self, address: str) -> dict[str, Any]:
        with self._get(address, {}) as answer:
            return cast("dict[str, Any]", json.loads(self._part(answer)))

    @contextmanager
    def _get(self, address: str, headers: dict[str, str]) -> "Generator[HTTPResponse]":
        # Late: it takes as long to import as all else that a copy between folders needs.
        from http.client import HTTPConnection, HTTPException

        wire, token = self._server.reach()
        wire.settimeout(_LIMIT_S)
        with closing(HTTPConnection(self._server.host)) as connection:
            connection.sock = wire
            own = {"Authorization": f"Bearer {token}"} if token else {}
            try:
                connection.request("GET", address, headers={**headers, **own})
                answer = connection.getresponse()
            except (OSError, HTTPException) as error:
                raise self._broke_off(error) from error
            # What fails from here on may be the disk that it is written to.
            with answer:
                if answer.status >= 400:
                    raise self._refused(answer)
                yield answer

    def _part(self, answer: "HTTPResponse", most: int | None = None) -> bytes:
        from http.client import HTTPException

        try:
            return answer.read(most)
        except (OSError, HTTPException) as error:
            raise self._broke_off(error) from error

    def _broke_off(self, error: Exception) -> StoreAway:
        return StoreAway(f"{self.name[:-1]}: the server broke off: {error}")

    def _refused(self, answer: "HTTPResponse") -> Exception:
        try:
            words = str(json.loads(self._part(answer, 1 << 16))["error"])
        except (ValueError, KeyError, TypeError):
            words = f"the server answers {answer.status}"
        if answer.status in (401, 404):
            return NotFound(f"{self.name[:-1]}: {words}")
        kind = StoreAway if answer.status >= 500 or answer.status == 429 else BadInput
        return kind(f"{self.name[:-1]}: {words}")
