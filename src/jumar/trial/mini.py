"""Small data in the place of the whole: `--mini data/` or `--mini obs://lab/flowers=5`."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from jumar.errors import BadInput
from jumar.store.accounts import StoreConfig
from jumar.store.mini.make import MiniReport, make_mini
from jumar.store.places import open_place

PER_CLASS = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """Data to be cut, as the command names it."""

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


def cut(wanted: Wanted, target: Path, config: StoreConfig, folder: Path) -> MiniReport:
    """Make the mini set; a path is looked for from `folder`."""
    source = wanted.name if "://" in wanted.name else str(folder / wanted.name)
    target.mkdir(parents=True)
    return make_mini(
        open_place(source, config), open_place(f"{target}/", config), per_class=wanted.per_class
    )


def inside(wanted: Wanted, folder: Path) -> str | None:
    """Where in `folder` the data lies, if it does."""
    if "://" in wanted.name:
        return None
    path = Path(os.path.normpath(folder.resolve() / wanted.name))
    return (
        str(path.relative_to(folder.resolve())) if path.is_relative_to(folder.resolve()) else None
    )


def renamed(words: tuple[str, ...], wanted: Wanted, target: Path) -> tuple[str, ...]:
    """The words of a command with the mini set in the place of the whole."""
    return tuple(_renamed(word, wanted.name.rstrip("/"), str(target)) for word in words)


def _renamed(word: str, name: str, target: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{option}{equals}{target}" if value.rstrip("/") == name else word


def put(mini: Path, place: Path) -> None:
    """Lay the mini set where a copy of the source has, or would have, the whole."""
    if place.is_symlink():
        place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(str(mini), str(place))
