"""Archives as temporary folders: unpacked, and packed again."""

import tarfile
import tempfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from jumar.store.archive import Limits, is_archive, unpack
from jumar.store.folder import FolderStore
from jumar.store.places import Place, parse_url
from jumar.store.transfer.run import copy_entry


@dataclass(frozen=True, slots=True)
class Aside:
    """The unpacked files, and a folder for the selection before it is delivered."""

    scratch: Path
    all: Place
    few: Place

    def deliver(self, target: Place) -> int:
        """Copy the selection to the target, packed if that is an archive name; returns the bytes."""
        folder = Path(self.few.url.path)
        if not is_archive(target.key):
            keys = [(entry, target.prefix + entry.key) for entry in self.few.store.walk()]
            for entry, key in keys:
                copy_entry(self.few.store, entry, target.store, key)
            return sum(entry.size for entry, _ in keys)
        name = PurePosixPath(target.key).name
        _pack(folder, self.scratch / name)
        store = FolderStore(str(self.scratch), "aside")
        entry = store.stat(name)
        copy_entry(store, entry, target.store, target.key)
        return entry.size


@contextmanager
def unpacked_aside(source: Place) -> Generator[Aside]:
    """The archive, unpacked into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="jumar-mini-") as scratch:
        places: list[Place] = []
        for name in ("all", "few"):
            folder = Path(scratch) / name
            folder.mkdir()
            places.append(Place(parse_url(str(folder)), FolderStore(str(folder), "aside"), ""))
        unpack(source, places[0], Limits())
        yield Aside(Path(scratch), *places)


def _pack(folder: Path, archive: Path) -> None:
    """Reproducibly: the same files give the same archive, without times and owners."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if archive.suffix.lower() == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in paths:
                info = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                info.external_attr = 0o644 << 16
                zipped.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
        return
    with tarfile.open(archive, _tar_mode(archive.name.lower())) as packed:
        for path in paths:
            info = tarfile.TarInfo(path.relative_to(folder).as_posix())
            info.size = path.stat().st_size
            with path.open("rb") as file:
                packed.addfile(info, file)


def _tar_mode(name: str) -> Literal["w:gz", "w:bz2", "w:xz", "w:"]:
    if name.endswith("gz"):
        return "w:gz"
    if name.endswith("bz2"):
        return "w:bz2"
    return "w:xz" if name.endswith("xz") else "w:"
