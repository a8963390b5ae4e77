"""What the Hugging Face API tells of a repository and of its files."""

from typing import Any

from jumar.hub import card as cards
from jumar.hub import reading
from jumar.hub.hub import Hub
from jumar.hub.reading import Entry, iso
from jumar.spec.repos import RepoRecord

_README_BYTES = 1 << 20


def light_info(repo: RepoRecord) -> dict[str, Any]:
    """What lists show, without a look into the repository."""
    full = f"{repo.owner}/{repo.name}"
    return {
        "_id": repo.id,
        "id": full,
        "author": repo.owner,
        "private": repo.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [*repo.tags, *([f"license:{repo.licence}"] if repo.licence else [])],
        "createdAt": iso(repo.created_at),
        "lastModified": iso(repo.changed_at),
        **({"modelId": full} if repo.kind == "model" else {}),
    }


def info(hub: Hub, repo: RepoRecord, revision: str | None, with_blobs: bool) -> dict[str, Any]:
    """All of a repository at a revision; its main branch where none is given."""
    folder = hub.repositories.folder(repo)
    commit = reading.commit_of(folder, revision) if revision else reading.head_of(folder)
    files: list[Entry] = []
    about: dict[str, Any] = {"sha": commit}
    if commit is not None:
        files = [one for one in reading.entries(folder, commit) if not one.is_folder]
        about["lastModified"] = iso(reading.history(folder, commit, most=1)[0].at)
        readme = reading.text_at(folder, commit, "README.md", _README_BYTES)
        card = cards.card_of(readme)
        if card:
            about["cardData"] = card
    if repo.kind == "model" and any(one.path == "config.json" for one in files):
        about |= {"library_name": "transformers", "config": {}}
    about["siblings"] = [_sibling(one, with_blobs) for one in files]
    about["usedStorage"] = sum(one.size for one in files)
    return {**light_info(repo), **about}


def _sibling(entry: Entry, with_blobs: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"rfilename": entry.path}
    if with_blobs:
        shown |= {"size": entry.size, "blobId": entry.oid}
        if entry.pointer is not None:
            shown["lfs"] = {
                "sha256": entry.pointer.oid,
                "size": entry.size,
                "pointerSize": entry.stored,
            }
    return shown


def tree_entry(entry: Entry) -> dict[str, Any]:
    """A file or folder as lists of files have it."""
    if entry.is_folder:
        return {"type": "directory", "oid": entry.oid, "size": 0, "path": entry.path}
    shown: dict[str, Any] = {
        "type": "file",
        "oid": entry.oid,
        "size": entry.size,
        "path": entry.path,
    }
    if entry.pointer is not None:
        shown["lfs"] = {"oid": entry.pointer.oid, "size": entry.size, "pointerSize": entry.stored}
    return shown
