"""Files, branches and history of a repository, as the Hugging Face clients ask for them."""

import json
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

from jumar.errors import BadInput, PathNotFound
from jumar.hub import reading
from jumar.hub.names import check_path
from jumar.hub.reading import EntryNotFound, Ref, iso
from jumar.server.edge.requests import whole_number
from jumar.server.hub.call import Call, in_thread
from jumar.server.hub.hf_info import tree_entry
from jumar.spec.repos import RepoRecord

_MOST_ENTRIES = 1000
_MOST_EXPANDED = 100
_MOST_PATHS = 10_000


async def serve(call: Call, repo: RepoRecord, rest: list[str]) -> None:
    """Answer one question about a repository."""
    match rest:
        case ["tree", revision, *path]:
            await _tree(call, repo, revision, "/".join(path))
        case ["paths-info", revision]:
            await _paths_info(call, repo, revision)
        case ["refs"]:
            branches, tags = await in_thread(reading.refs, call.hub.repositories.folder(repo))
            shown = {"branches": _refs(branches), "converts": [], "tags": _refs(tags)}
            await call.answer(200, shown)
        case ["commits", revision]:
            await _commits(call, repo, revision)
        case _:
            raise PathNotFound("the hub's API has no such path")


def next_link(call: Call, start: int, there_is_more: bool) -> dict[str, str]:
    """The header by which clients find the next page."""
    if not there_is_more:
        return {}
    query = {name: values[0] for name, values in call.query.items()} | {"cursor": str(start)}
    path = call.scope["raw_path"].decode("latin-1")
    return {"Link": f'<{call.origin}{path}?{urlencode(query)}>; rel="next"'}


async def _tree(call: Call, repo: RepoRecord, revision: str, path: str) -> None:
    folder = call.hub.repositories.folder(repo)
    recursive, expand = _is_true(call, "recursive"), _is_true(call, "expand")
    longest = _MOST_EXPANDED if expand else _MOST_ENTRIES
    most = min(longest, whole_number(call.asked("limit", str(longest)), most=1 << 30) or longest)
    start = whole_number(call.asked("cursor", "0"), most=1 << 30) or 0

    def look() -> tuple[str, list[dict[str, Any]], bool]:
        commit = reading.commit_of(folder, revision)
        found = reading.entries(folder, commit, path, recursive=recursive)
        if path and not found:
            raise EntryNotFound(path, commit)
        shown = [tree_entry(one) for one in found[start : start + most]]
        if expand:
            for one in shown:
                last = reading.history(folder, commit, most=1, path=str(one["path"]))[0]
                one["lastCommit"] = {"id": last.id, "title": last.title, "date": iso(last.at)}
        return commit, shown, start + most < len(found)

    commit, shown, more = await in_thread(look)
    await call.answer(200, shown, X_Repo_Commit=commit, **next_link(call, start + most, more))


def _is_true(call: Call, name: str) -> bool:
    return call.asked(name).lower() in ("true", "1")


async def _paths_info(call: Call, repo: RepoRecord, revision: str) -> None:
    body = await call.body()
    if "json" in call.headers.get("content-type", ""):
        try:
            paths = json.loads(body)["paths"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BadInput("the body names no paths") from None
    else:
        paths = parse_qs(body.decode("utf-8", "replace")).get("paths", [])
    wanted = [paths] if isinstance(paths, str) else paths
    if not isinstance(wanted, list) or len(cast("list[object]", wanted)) > _MOST_PATHS:
        raise BadInput(f"paths must be a list of at most {_MOST_PATHS}")
    named = {check_path(str(path).strip("/")) for path in cast("list[object]", wanted)}
    folder = call.hub.repositories.folder(repo)

    def look() -> list[dict[str, Any]]:
        found = reading.entries(folder, reading.commit_of(folder, revision))
        return [tree_entry(one) for one in found if one.path in named]

    await call.answer(200, await in_thread(look))


async def _commits(call: Call, repo: RepoRecord, revision: str) -> None:
    folder = call.hub.repositories.folder(repo)

    def look() -> tuple[list[dict[str, Any]], int]:
        commit = reading.commit_of(folder, revision)
        shown = [
            {
                "id": one.id,
                "title": one.title,
                "message": one.message,
                "date": iso(one.at),
                "authors": [{"user": one.author}],
            }
            for one in reading.history(folder, commit)
        ]
        return shown, reading.count_commits(folder, commit)

    shown, count = await in_thread(look)
    await call.answer(200, shown, X_Total_Count=str(count))


def _refs(refs: list[Ref]) -> list[dict[str, str]]:
    return [{"name": one.name, "ref": one.ref, "targetCommit": one.commit} for one in refs]
