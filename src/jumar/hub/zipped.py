"""A folder of a repository as one zip file, made while it is sent: nothing is copied on disk."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from jumar.errors import NotFound
from jumar.hub import reading
from jumar.hub.objects import Objects
from jumar.hub.reading import Entry
from jumar.spec.repos import RepoRecord

_BLOCK_BYTES = 1 << 20
_LINK = "120000"


class _Sink:
    """Takes what the zip file writes, until somebody sends it."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def write(self, block: bytes) -> int:
        self._blocks.append(bytes(block))
        return len(block)

    def flush(self) -> None:
        return

    def taken(self) -> bytes:
        joined = b"".join(self._blocks)
        self._blocks.clear()
        return joined


def zipped(
    folder: Path, objects: Objects, repo: RepoRecord, commit: str, path: str
) -> Iterator[bytes]:
    """The zip file, block by block. What is missing is told by its name before the first one."""
    found = [
        one
        for one in reading.entries(folder, commit, path)
        if not one.is_folder and one.mode != _LINK
    ]
    if not found:
        raise NotFound(f"there are no files in {path or 'the repository'} at this revision")
    pointers = {one.pointer.oid: one.path for one in found if one.pointer is not None}
    here = objects.linked(repo, pointers)
    for oid, name in pointers.items():
        if oid not in here:
            objects.open(repo, oid, name).close()
    return _blocks(folder, objects, repo, found, f"{path}/" if path else "")


def _blocks(
    folder: Path, objects: Objects, repo: RepoRecord, found: list[Entry], inside: str
) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_STORED) as made:
        for one in found:
            info = zipfile.ZipInfo(one.path.removeprefix(inside))
            with made.open(info, "w", force_zip64=one.size >= 1 << 31) as target:
                for block in _content(folder, objects, repo, one):
                    target.write(block)
                    yield sink.taken()
    yield sink.taken()


def _content(folder: Path, objects: Objects, repo: RepoRecord, one: Entry) -> Iterator[bytes]:
    if one.pointer is None:
        yield reading.content(folder, one.oid)
        return
    with objects.open(repo, one.pointer.oid, one.path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
