"""A small sample in place of the full data: `--mini data/` or `--mini obs://lab/flowers=5`."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jumar.errors import BadInput
from jumar.store.archive import is_archive
from jumar.store.credentials import StoreConfig
from jumar.store.mini.make import MiniReport, make_mini
from jumar.store.places import open_place

PER_CLASS = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """Data to sample, as the command names it."""

    name: str
    per_class: int


def parse(text: str) -> Wanted:
    """`URL`, or `URL=N` for N files of each class."""
    name, equals, count = text.rpartition("=")
    if not equals:
        return Wanted(text, PER_CLASS)
    if not name or not count.isdecimal() or int(count) < 1:
        raise BadInput(f"--mini: {text!r} is not DIR or DIR=N", hint="for example --mini data=4")
    return Wanted(name, int(count))


@dataclass(frozen=True, slots=True)
class Cut:
    """A mini data set, and what it kept."""

    path: Path
    report: MiniReport


def cut(wanted: Wanted, scratch: Path, config: StoreConfig, folder: Path) -> Cut:
    """Create the mini data set in `scratch`; a path is relative to `folder`."""
    source = wanted.name if "://" in wanted.name else str(folder / wanted.name)
    name = PurePosixPath(source).name
    scratch.mkdir(parents=True)
    # An archive becomes a smaller archive, anything else a folder.
    path = scratch / name if is_archive(name) else scratch / "data"
    target = str(path) if is_archive(name) else f"{path}/"
    report = make_mini(
        open_place(source, config), open_place(target, config), per_class=wanted.per_class
    )
    return Cut(path, report)


def inside(wanted: Wanted, folder: Path) -> str | None:
    """The path of the data in `folder`, if it is there."""
    if "://" in wanted.name:
        return None
    root = folder.resolve()
    path = Path(os.path.normpath(root / wanted.name))
    return str(path.relative_to(root)) if root in path.parents else None


def renamed(words: tuple[str, ...], wanted: Wanted, target: Path) -> tuple[str, ...]:
    """The words of a command with the mini data set in place of the full one."""
    changed = tuple(_renamed(word, wanted.name.rstrip("/"), str(target)) for word in words)
    if changed == words:
        raise BadInput(
            f"--mini: the command does not contain {wanted.name}",
            hint="name the data in the command; with --port, data inside this folder is replaced "
            "in the copy that runs",
        )
    return changed


def _renamed(word: str, name: str, target: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{option}{equals}{target}" if value.rstrip("/") == name else word


def put(mini: Path, place: Path) -> None:
    """Put the mini data set where a copy of the source has, or would have, the full one."""
    if place.is_symlink():
        place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(str(mini), str(place))
