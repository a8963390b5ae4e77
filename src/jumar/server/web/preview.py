"""What a page shows of a file that a job has left: by its content first, by its name where that says nothing.

A job may have written anything: everything is bounded, and nothing is taken for markup."""

import csv
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal, cast

from jumar.server.api.plain import plain

Kind = Literal["image", "text", "table", "tensors", "none"]
Read = Callable[[int, int], bytes]
"""`count` bytes from `offset` on."""
TEXT_BYTES = 256 << 10
_JSON_BYTES = 1 << 20
_MOST_ROWS, _MOST_COLUMNS = 200, 50
_LONGEST_CELL = 200
_MOST_TENSORS = 2000
_HEADER_BYTES = 16 << 20
MOST_IMAGE_BYTES = 32 << 20
_HEAD_BYTES = 64
# SVG is not among them: it may hold scripts, and is shown as the text that it is.
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DELIMITERS = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What there is to show of a file."""

    kind: Kind
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    """Of a table, the first is its head."""
    notes: tuple[tuple[str, str], ...] = ()
    """Names and values that a file says about itself."""
    parameters: int = 0
    """Numbers in all tensors."""
    is_cut: bool = False
    """Whether there is more than is shown."""


def preview(name: str, size: int, read: Read) -> Preview:
    """The file called `name`."""
    ending = name.rpartition(".")[2].lower()
    head = read(0, _HEAD_BYTES)
    if image_type(head) is not None:
        return Preview(kind="image" if size <= MOST_IMAGE_BYTES else "none")
    if ending == "safetensors":
        return _tensors(size, read) or Preview(kind="none")
    data = read(0, TEXT_BYTES)
    if b"\0" in data:
        return Preview(kind="none")
    text, is_cut = data.decode("utf-8", "replace"), size > len(data)
    if ending in _DELIMITERS:
        return _table(text, _DELIMITERS[ending], is_cut=is_cut)
    if ending in ("json", "ipynb") and size <= _JSON_BYTES:
        return _json(read(0, _JSON_BYTES), text, is_cut=is_cut)
    return Preview(kind="text", text=plain(text), is_cut=is_cut)


def image_type(head: bytes) -> str | None:
    """The type of an image by its first bytes; None for what browsers are not shown as one."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGES if head.startswith(start)), None)


def _table(text: str, delimiter: str, *, is_cut: bool) -> Preview:
    rows: list[tuple[str, ...]] = []
    try:
        for row in csv.reader(StringIO(text), delimiter=delimiter):
            if len(rows) > _MOST_ROWS:
                is_cut = True
                break
            if row:
                rows.append(tuple(cell[:_LONGEST_CELL] for cell in row[:_MOST_COLUMNS]))
                is_cut = is_cut or len(row) > _MOST_COLUMNS
    except csv.Error:
        return Preview(kind="text", text=plain(text), is_cut=is_cut)
    return Preview(kind="table", rows=tuple(rows), is_cut=is_cut)


def _json(data: bytes, text: str, *, is_cut: bool) -> Preview:
    try:
        shown = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        # Not JSON after all: shown as it is.
        return Preview(kind="text", text=plain(text), is_cut=is_cut)
    return Preview(kind="text", text=shown[:TEXT_BYTES], is_cut=len(shown) > TEXT_BYTES)


def _tensors(size: int, read: Read) -> Preview | None:
    """Names, types and shapes; None for what is no file of safetensors."""
    start = read(0, 8)
    if len(start) < 8:
        return None
    (length,) = struct.unpack("<Q", start)
    if not 2 <= length <= min(_HEADER_BYTES, size - 8):
        return None
    try:
        found: Any = json.loads(read(8, length))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    header = cast("dict[str, Any]", found)
    said: Any = header.pop("__metadata__", {})
    notes = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    rows = [_tensor(name, value) for name, value in header.items()]
    return Preview(
        kind="tensors",
        rows=tuple((name, dtype, " × ".join(map(str, shape))) for name, dtype, shape in rows)[
            :_MOST_TENSORS
        ],
        notes=tuple((name, str(value)[:_LONGEST_CELL]) for name, value in notes.items()),
        parameters=sum(math.prod(shape) for _, _, shape in rows),
        is_cut=len(rows) > _MOST_TENSORS,
    )


def _tensor(name: str, value: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(value, dict):
        return name, "", ()
    told = cast("dict[str, Any]", value)
    shape = told.get("shape")
    sides = cast("list[Any]", shape) if isinstance(shape, list) else []
    known = tuple(side for side in sides if isinstance(side, int) and 0 <= side < 1 << 48)
    return name, str(told.get("dtype", ""))[:_LONGEST_CELL], known[:16]
