"""Commits of files that were sent one by one: each is an object of LFS already, and the small texts
among them become plain files."""

import base64
import json
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, cast

from jumar.errors import BadInput
from jumar.hub.commits import Commits
from jumar.hub.objects import Objects
from jumar.hub.plain import is_plain
from jumar.hub.repositories import Repositories
from jumar.spec.repos import RepoRecord


class Deposits:
    """Makes them."""

    def __init__(self, repositories: Repositories, objects: Objects, commits: Commits) -> None:
        self._limits = repositories.limits
        self._objects = objects
        self._commits = commits

    def commit(
        self,
        repo: RepoRecord,
        branch: str,
        user: str,
        message: str,
        files: Mapping[str, str],
        *,
        texts: Mapping[str, str] | None = None,
        deleted: Iterable[str] = (),
    ) -> str:
        """The commit with `files` ({path: object}) and `texts` ({path: content}) on a branch."""
        with tempfile.TemporaryFile(dir=self._objects.spool) as file:
            lines = cast("BinaryIO", file)
            _write(lines, "header", {"summary": message})
            for path in deleted:
                _write(lines, "deletedEntry", {"path": path})
            for path, oid in files.items():
                self._add(repo, lines, path, oid)
            for path, text in (texts or {}).items():
                _write(lines, "file", {"path": path, "content": text})
            return self._commits.make(repo, branch, user, lines)

    def _add(self, repo: RepoRecord, lines: BinaryIO, path: str, oid: str) -> None:
        found = self._objects.linked(repo, [oid]).get(oid)
        if found is None:
            raise BadInput(
                f"{path[:200]}: object {oid[:64]!r} was not uploaded to this repository",
                hint="upload it first, then commit",
            )
        if found.size <= self._limits.plain_bytes:
            content = found.path.read_bytes()
            if is_plain(path, found.size, content, self._limits.plain_bytes):
                encoded = base64.b64encode(content).decode()
                _write(lines, "file", {"path": path, "content": encoded, "encoding": "base64"})
                return
        _write(lines, "lfsFile", {"path": path, "algo": "sha256", "oid": oid, "size": found.size})


def _write(lines: BinaryIO, key: str, value: Mapping[str, Any]) -> None:
    lines.write(json.dumps({"key": key, "value": value}).encode() + b"\n")
