"""Runs in a Python that has MindSpore: reads MindRecord files and writes some of their records.

Standard library and MindSpore only, Python 3.7 and later."""

import json
import os
import re
import sqlite3
import sys
from importlib import import_module
from typing import Any, Dict, List  # noqa: UP035

_LABELS = ("label", "labels", "class", "category", "target", "label_id", "class_id", "y")
_HEADER_BYTES = 1 << 20
_LEAST_PAGE_BYTES, _MOST_PAGE_BYTES = 1 << 20, 1 << 28


def main() -> None:
    """One line in: files, names, folder. One line out: labels. One line in: rows to keep."""
    mindrecord: Any = import_module("mindspore.mindrecord")
    request = json.loads(sys.stdin.readline())
    files: List[str] = request["files"]  # noqa: UP006
    reader = mindrecord.FileReader(files, 1)
    schema: Dict[str, Any] = {  # noqa: UP006
        name: kind for name, kind in reader.schema().items() if isinstance(kind, dict)
    }
    label = next((name for name in _LABELS if name in schema), None)
    labels = [_plain(row.get(label)) for row in reader.get_next()]
    reader.close()
    sys.stdout.write("LABELS " + json.dumps(labels) + "\n")
    sys.stdout.flush()
    wanted = set(json.loads(sys.stdin.readline()))
    reader = mindrecord.FileReader(files, 1)
    rows = [row for number, row in enumerate(reader.get_next()) if number in wanted]
    reader.close()
    # The writer itself puts the number of the shard behind the name.
    count = len(files)
    name = request["names"][0] if count == 1 else re.sub(r"\d+$", "", request["names"][0])
    writer = mindrecord.FileWriter(os.path.join(request["out"], name), count)
    # Its own sizes take 48 MiB for each file, however little is in it.
    writer.set_header_size(_HEADER_BYTES)
    writer.set_page_size(_page_bytes(rows))
    writer.add_schema(schema, "reduced by jumar data mini")
    indexed = _indexed(files[0] + ".db", schema)
    if indexed:
        writer.add_index(indexed)
    writer.write_raw_data(rows)
    writer.commit()


def _page_bytes(rows: List[Dict[str, Any]]) -> int:  # noqa: UP006
    """A power of two with room for several of the largest rows."""
    largest = max((sum(map(_size, row.values())) for row in rows), default=0)
    size = _LEAST_PAGE_BYTES
    while size < min(4 * largest, _MOST_PAGE_BYTES):
        size *= 2
    return size


def _size(value: Any) -> int:
    if hasattr(value, "nbytes"):
        return value.nbytes
    return len(value) * 4 if isinstance(value, (bytes, str)) else 64


def _plain(value: Any) -> Any:
    """A label as JSON: a number, a text, or a list of them."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, list) and len(plain) == 1:  # pyright: ignore[reportUnknownArgumentType]
        return plain[0]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(plain, (bytes, float)) else plain  # pyright: ignore[reportUnknownVariableType]


def _indexed(database: str, schema: Dict[str, Any]) -> List[str]:  # noqa: UP006
    """The fields that have an index: columns such as `label_0` beside the places of the rows."""
    connection = sqlite3.connect(database)
    try:
        columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(INDEXES)")]
    finally:
        connection.close()
    names = {re.sub(r"_\d+$", "", column) for column in columns}
    return [name for name in schema if name in names]


main()
