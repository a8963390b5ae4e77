"""Copies of a source to run in: the source is never touched, and no run sees what another wrote."""

import os
import shutil
from pathlib import Path

from jumar.errors import BadInput, StorageFull
from jumar.port.tree import TreeResult
from jumar.port.write import write_copy

_SPARE_BYTES = 256 << 20


def check_room(result: TreeResult, scratch: Path, *, copies: int) -> None:
    """Refuse a source that does not fit before anything is copied."""
    wanted = copies * sum(found.size for found in result.files)
    free = shutil.disk_usage(scratch).free
    if wanted + _SPARE_BYTES > free:
        raise BadInput(
            f"{copies} copies of {result.root} need {wanted >> 20} MiB, but {scratch} has "
            f"{free >> 20} MiB left",
            hint="keep data outside the source and pass its full path, or set TMPDIR",
        )


def make_copy(result: TreeResult, folder: Path, *, ported: bool) -> None:
    """Fill a new folder; links that lead out of the source keep their target."""
    folder.mkdir()
    try:
        write_copy(result, folder, ported=ported)
        for found in result.files:
            if found.is_link:
                _lead_out(result.root.resolve(), folder, found.path)
    except OSError as error:
        raise StorageFull(f"cannot copy {result.root} to {folder}: {error.strerror}") from error


def _lead_out(root: Path, folder: Path, path: str) -> None:
    target = os.path.join(os.path.dirname(root / path), os.readlink(root / path))
    if not Path(os.path.normpath(target)).is_relative_to(root):
        (folder / path).unlink()
        (folder / path).symlink_to(os.path.normpath(target))


def placed(words: tuple[str, ...], source: Path, copy: Path) -> tuple[str, ...]:
    """The words of a command for a copy of the source.

    Paths into the source become those of the copy; relative ones that lead out of it become absolute."""
    return tuple(_placed(word, source.resolve(), copy) for word in words)


def _placed(word: str, source: Path, copy: Path) -> str:
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value or "\0" in value:
        return word
    path = Path(os.path.normpath(source / value))
    if os.path.isabs(value) and path.is_relative_to(source):
        value = str(copy / path.relative_to(source))
    elif not os.path.isabs(value) and not path.is_relative_to(source) and path.exists():
        value = str(path)
    return f"{option}{equals}{value}"
