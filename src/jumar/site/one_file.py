"""The launcher as one file, for hosts that have Python and nothing else; the same sources give the same
bytes."""

import importlib.util
import marshal
import os
import stat
import zipfile
from pathlib import Path

_SOURCES = Path(__file__).parents[2]
_MAIN = b"""\
import sys

if sys.version_info < (3, 7):
    sys.stderr.write("error: Python 3.7 or later is needed, this is %d.%d\\n" % sys.version_info[:2])
    sys.stderr.write("hint: name a newer one, such as: python3.9 jumar-launch.pyz\\n")
    sys.exit(2)

from jumar.launch.__main__ import main

sys.exit(main())
"""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def build_launcher(output: Path) -> None:
    """Write the archive aside and rename it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = output.with_name(f"{output.name}.{os.getpid()}.new")
    files = [_SOURCES / "jumar" / "__init__.py", *_launcher()]
    with aside.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            add_file(archive, "__main__.py", _MAIN)
            for path in files:
                name, source = str(path.relative_to(_SOURCES)), path.read_bytes()
                add_file(archive, name, source)
                if path.suffix == ".py":
                    add_file(archive, f"{name}c", _compiled(name, source))
    aside.chmod(aside.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    aside.rename(output)


def newest_source() -> float:
    """When what the archive is made of was changed last."""
    return max(path.stat().st_mtime for path in _launcher())


def _launcher() -> list[Path]:
    found = (_SOURCES / "jumar/launch").rglob("*")
    return sorted(path for path in found if path.suffix in (".py", ".tsv"))


def add_file(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """One file, without the time of the day in it."""
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _compiled(name: str, source: bytes) -> bytes:
    """Saves this version of Python the compiling at each start; others take the source."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    # A hash-based file that is never checked against the source.
    flags = (1).to_bytes(4, "little")
    return (
        importlib.util.MAGIC_NUMBER
        + flags
        + importlib.util.source_hash(source)
        + marshal.dumps(code)
    )
