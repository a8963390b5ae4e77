"""WebDataset: tar files whose neighbours with the same name up to the first dot are one sample."""

import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, cast

from jumar.errors import BadInput
from jumar.store.mini.documents import parsed, plain_labels
from jumar.store.mini.tree import Tree

_LABELS = ("cls", "cls.txt", "label", "index")
_BROKEN = (tarfile.TarError, EOFError, OSError)
_MOST_LABEL_BYTES = 1 << 20


@dataclass(frozen=True)
class Shard:
    """One tar file, plain or gzip."""

    tree: Tree
    name: str
    kind = "webdataset"

    @property
    def names(self) -> frozenset[str]:
        """The file alone."""
        return frozenset({self.name})

    def _samples(
        self, look: Callable[[tarfile.TarFile, list[tarfile.TarInfo]], Any]
    ) -> Iterator[Any]:
        try:
            with (
                self.tree.open(self.name) as file,
                tarfile.open(fileobj=file, mode="r:*") as archive,
            ):
                members = (member for member in archive if member.isfile())
                for _, parts in groupby(members, key=lambda member: _key(member.name)):
                    yield look(archive, list(parts))
                    # tarfile remembers all members otherwise.
                    cast("Any", archive).members = []
        except _BROKEN as error:
            raise BadInput(f"incomplete or damaged tar file: {error}") from error

    def labels(self) -> Iterator[set[str]]:
        """What `.cls` or `.json` says."""
        return self._samples(_labels)

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These samples, member by member as they were."""
        wanted, out = set(rows), io.BytesIO()
        numbers = iter(range(1 << 62))
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made:

            def take(archive: tarfile.TarFile, parts: list[tarfile.TarInfo]) -> None:
                if next(numbers) in wanted:
                    for part in parts:
                        made.addfile(part, archive.extractfile(part))

            for _ in self._samples(take):
                pass
        return {self.name: self.tree.packed_like(self.name, out.getvalue())}


def open_shard(tree: Tree, name: str, _left: set[str]) -> Shard | None:
    """A tar file whose first two members are of one sample; other archives are not for us."""
    if not name.lower().endswith((".tar", ".tar.gz", ".tgz")) or not tree.size(name):
        return None
    try:
        with tree.open(name) as file, tarfile.open(fileobj=file, mode="r:*") as archive:
            files = (member for member in archive if member.isfile())
            first, second = next(files, None), next(files, None)
    except _BROKEN:
        # Whoever unpacks it says what is wrong.
        return None
    if first is None or second is None or _key(first.name) != _key(second.name):
        return None
    return Shard(tree, name)


def _key(name: str) -> str:
    folder, _, last = name.rpartition("/")
    return f"{folder}/{last.partition('.')[0]}"


def _labels(archive: tarfile.TarFile, parts: list[tarfile.TarInfo]) -> set[str]:
    by_ending = {PurePosixPath(part.name).name.partition(".")[2].lower(): part for part in parts}
    for ending in _LABELS:
        if ending in by_ending:
            return {_read(archive, by_ending[ending]).decode("utf-8", "replace").strip()}
    if "json" in by_ending:
        return plain_labels(parsed(_read(archive, by_ending["json"])))
    return set()


def _read(archive: tarfile.TarFile, part: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(part)
    return b"" if file is None else file.read(_MOST_LABEL_BYTES)
