"""The part of `Client` about repositories of the hub."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jumar.client.connection import Call, Connection, Upload, decode, job_call, part
from jumar.errors import FileChanged
from jumar.spec.repos import CollectedRecord, CommitRecord, ObjectRecord, RepoRecord

_UPLOAD_LIMIT_S = 3600.0
_ASKED_AT_ONCE = 5000
_COLLECT_LIMIT_S = 3600.0


class RepoCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def repos(
        self, *, kind: str | None = None, search: str = "", owner: str = ""
    ) -> tuple[RepoRecord, ...]:
        """The repositories that this user may read, the latest changed first."""
        found: list[RepoRecord] = []
        while True:
            query = {"kind": kind, "search": search, "owner": owner, "start": str(len(found))}
            call = Call(method="GET", path="/repos", query=query, repeatable=True)
            page = decode(tuple[RepoRecord, ...], self._connection.json(call))
            found += page
            if not page:
                return tuple(found)

    def create_repo(
        self, kind: str, name: str, *, owner: str = "", private: bool = False
    ) -> RepoRecord:
        """A new repository of this user, or of a group."""
        body = {"kind": kind, "name": name, "owner": owner, "private": private}
        return decode(RepoRecord, self._change("POST", "/repos", body))

    def repo(self, kind: str, owner: str, name: str) -> RepoRecord:
        """One repository."""
        call = Call(method="GET", path=_path(kind, owner, name), repeatable=True)
        return decode(RepoRecord, self._connection.json(call))

    def set_repo_private(self, kind: str, owner: str, name: str, private: bool) -> RepoRecord:
        """Show a repository to everybody, or to its owner only."""
        body = {"private": private}
        return decode(RepoRecord, self._change("PATCH", _path(kind, owner, name), body))

    def delete_repo(self, kind: str, owner: str, name: str) -> None:
        """Delete a repository with all its history."""
        self._change("DELETE", _path(kind, owner, name))

    def missing_objects(self, repo: RepoRecord, sizes: Mapping[str, int]) -> set[str]:
        """Those of these objects (sizes by SHA-256) whose bytes the server needs."""
        path = f"{_path(repo.kind, repo.owner, repo.name)}/missing"
        call = Call(method="POST", path=path, body={"objects": dict(sizes)}, repeatable=True)
        return set(decode(tuple[str, ...], self._connection.json(call)))

    def send_object(self, repo: RepoRecord, file: Upload, size: int) -> ObjectRecord:
        """Send a file, to be committed."""
        call = Call(
            method="POST",
            path=f"/repo-objects/{part(repo.kind)}/{part(repo.owner)}/{part(repo.name)}",
            upload=file,
            upload_size=size,
            repeatable=True,
            answer_limit_s=_UPLOAD_LIMIT_S,
        )
        return decode(ObjectRecord, self._connection.json(call))

    def commit_objects(
        self, repo: RepoRecord, files: Mapping[str, str], *, branch: str = "main", message: str = ""
    ) -> CommitRecord:
        """Commit files (SHA-256 by path) that were sent before."""
        path = f"{_path(repo.kind, repo.owner, repo.name)}/commits"
        body = {"files": dict(files), "branch": branch, "message": message}
        call = Call(method="POST", path=path, body=body, answer_limit_s=_UPLOAD_LIMIT_S)
        return decode(CommitRecord, self._connection.json(call))

    def upload_files(
        self,
        repo: RepoRecord,
        files: Mapping[str, Path],
        *,
        branch: str = "main",
        message: str = "",
        on_sent: Callable[[str], None] = lambda path: None,
    ) -> CommitRecord:
        """Commit files of this machine; what the server has is not sent again. `on_sent` hears of each
        that is."""
        digests = {path: _digest(place) for path, place in files.items()}
        left = self._missing(
            repo, {digests[path]: place.stat().st_size for path, place in files.items()}
        )
        for path, place in files.items():
            if digests[path] in left:
                with place.open("rb") as file:
                    sent = self.send_object(repo, file, os.fstat(file.fileno()).st_size)
                if sent.oid != digests[path]:
                    raise FileChanged(f"{place} changed while it was sent", hint="try again")
                left.discard(sent.oid)
                on_sent(path)
        return self.commit_objects(repo, digests, branch=branch, message=message)

    def _missing(self, repo: RepoRecord, sizes: Mapping[str, int]) -> set[str]:
        names = list(sizes)
        found: set[str] = set()
        for start in range(0, len(names), _ASKED_AT_ONCE):
            some = names[start : start + _ASKED_AT_ONCE]
            found |= self.missing_objects(repo, {oid: sizes[oid] for oid in some})
        return found

    def publish(
        self, job: str, name: str, *, path: str = "", private: bool = False, branch: str = "main"
    ) -> CommitRecord:
        """Copy what a job has left into a model repository, with a card."""
        body = {"name": name, "path": path, "private": private, "branch": branch}
        call = job_call("POST", job, "/publish", body=body, answer_limit_s=_UPLOAD_LIMIT_S)
        return decode(CommitRecord, self._connection.json(call))

    def collect_repos(self) -> CollectedRecord:
        """Remove what no repository refers to, for admins."""
        call = Call(method="POST", path="/repos/collect", answer_limit_s=_COLLECT_LIMIT_S)
        return decode(CollectedRecord, self._connection.json(call))

    def _change(self, method: str, path: str, body: Any = None) -> Any:
        return self._connection.json(Call(method=method, path=path, body=body))


def _path(kind: str, owner: str, name: str) -> str:
    return f"/repos/{part(kind)}/{part(owner)}/{part(name)}"


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
