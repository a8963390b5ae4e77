"""The part of `Client` about repositories of the hub."""

from typing import Any

from jumar.client.connection import Call, Connection, decode, part
from jumar.spec.records import RepoRecord


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

    def _change(self, method: str, path: str, body: Any = None) -> Any:
        return self._connection.json(Call(method=method, path=path, body=body))


def _path(kind: str, owner: str, name: str) -> str:
    return f"/repos/{part(kind)}/{part(owner)}/{part(name)}"
