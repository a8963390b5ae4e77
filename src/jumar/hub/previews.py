"""What of a file can be shown on a page: the tensors of a model, the first rows of a data set."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from jumar.hub import reading
from jumar.hub.gitting import bound
from jumar.hub.objects import Objects
from jumar.hub.reading import Entry
from jumar.spec.repos import RepoRecord

_ROWS = 20
_MOST_CELL = 200
_MOST_TENSORS = 500
_MOST_HEAD_BYTES = 25 << 20
_MOST_LINES_BYTES = 256 << 10
_PARQUET_S = 20.0
_NO_LIBRARY = 3


@dataclass(frozen=True, slots=True)
class Preview:
    """A table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int | None = None
    """How many rows there are in all, where that is known."""
    needs: str = ""
    """What has to be installed on the server to see more."""


def preview(folder: Path, objects: Objects, repo: RepoRecord, entry: Entry) -> Preview | None:
    """What can be shown of a file; None where that is nothing. Waits."""
    show = _SHOWN.get(entry.path.rpartition(".")[2].lower())
    if show is None:
        return None
    if entry.pointer is not None:
        with objects.open(repo, entry.pointer.oid, entry.path) as file:
            return show(file)
    with tempfile.NamedTemporaryFile(dir=objects.spool) as spooled:
        spooled.write(reading.content(folder, entry.oid))
        spooled.flush()
        spooled.seek(0)
        return show(cast("BinaryIO", spooled))


def _tensors(file: BinaryIO) -> Preview | None:
    size = int.from_bytes(file.read(8), "little")
    if size > _MOST_HEAD_BYTES:
        return None
    values = _object(file.read(size))
    values.pop("__metadata__", None)
    rows: list[tuple[str, ...]] = []
    for name, told in list(values.items())[:_MOST_TENSORS]:
        if not isinstance(told, dict):
            return None
        one = cast("dict[str, Any]", told)
        place = cast("list[int]", one.get("data_offsets") or [0, 0])
        shape = " x ".join(map(str, cast("list[int]", one.get("shape") or [])))
        rows.append(_cells(name, one.get("dtype"), shape, place[1] - place[0]))
    return Preview(("name", "dtype", "shape", "bytes"), tuple(rows), len(values)) if rows else None


def _lines(file: BinaryIO) -> Preview | None:
    """The first lines of JSON, one object each."""
    found: list[dict[str, Any]] = []
    for line in file.read(_MOST_LINES_BYTES).split(b"\n")[:_ROWS]:
        values = _object(line)
        if not values:
            break
        found.append(values)
    columns = tuple(dict.fromkeys(name for one in found for name in one))[:50]
    rows = tuple(_cells(*(one.get(name, "") for name in columns)) for one in found)
    return Preview(tuple(name[:_MOST_CELL] for name in columns), rows) if rows else None


def _parquet(file: BinaryIO) -> Preview | None:
    script = Path(__file__).with_name("parquet_rows.py")
    process = subprocess.Popen(
        [sys.executable, "-I", str(script), str(file.name)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    bound(process.pid)
    try:
        said, _ = process.communicate(timeout=_PARQUET_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()
    if process.returncode == _NO_LIBRARY:
        return Preview((), (), needs="pyarrow")
    values = _object(said)
    if process.returncode != 0 or not values:
        return None
    rows = tuple(tuple(row) for row in cast("list[list[str]]", values["rows"]))
    return Preview(tuple(cast("list[str]", values["columns"])), rows, int(values["count"]))


def _object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}


def _cells(*values: object) -> tuple[str, ...]:
    texts = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values)
    return tuple(text[:_MOST_CELL] for text in texts)


_SHOWN: Mapping[str, Any] = {"safetensors": _tensors, "jsonl": _lines, "parquet": _parquet}
