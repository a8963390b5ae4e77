"""Parquet and Arrow, by pyarrow: single files, shards, and what `save_to_disk` of `datasets` writes.

Only the label column is read for all rows. Schemas stay, and so do their metadata, in which `datasets`
keeps the names of classes and what is a picture."""

import hashlib
import io
import re
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import yaml

from jumar.errors import BadInput
from jumar.store.mini.documents import Row, dumped, parsed
from jumar.store.mini.lines import label_field
from jumar.store.mini.tables import LABEL_FIELDS
from jumar.store.mini.tree import Chosen, Tree, library

_PARQUET = (".parquet", ".parq", ".pq")
_ARROW = (".arrow", ".feather")
_ARROW_FILE = b"ARROW1"
_CACHE = "cache-"
_COUNTS = ("splits", "download_size", "dataset_size", "size_in_bytes")


@dataclass(frozen=True)
class Columns:
    """One file."""

    tree: Tree
    name: str
    kind: str
    read: Callable[[Any], "_Batches"]
    write: Callable[[Any, Any], Any]

    @property
    def names(self) -> frozenset[str]:
        """The file alone."""
        return frozenset({self.name})

    @contextmanager
    def _open(self) -> Generator["_Batches"]:
        arrow = library("pyarrow", self.name)
        try:
            with self.tree.open(self.name) as file:
                yield self.read(file)
        except (arrow.ArrowException, OSError) as error:
            raise BadInput(f"not a {self.kind} file, or damaged: {error}") from error

    def labels(self) -> Iterator[Collection[str]]:
        """What the label column says, if there is one."""
        with self._open() as batches:
            path = _label_path(batches.schema)
            for batch in batches.all(path[:1]):
                if path:
                    yield from map(_classes, _values(batch.column(0), path[1:]))
                else:
                    yield from ([()] * batch.num_rows)

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These rows."""
        out, wanted, start = io.BytesIO(), rows, 0
        with self._open() as batches, self.write(out, batches) as writer:
            for batch in batches.all(None, wanted):
                end = start + batch.num_rows
                own = [row - start for row in wanted if start <= row < end]
                start = end
                if own:
                    writer.write_batch(batch.take(library("pyarrow", self.name).array(own)))
        return {self.name: out.getvalue()}


@dataclass(frozen=True)
class _Batches:
    """An opened file: its schema, and its batches with some or all columns.

    Given the wanted rows, those batches that have none of them may come without their columns."""

    schema: Any
    all: Callable[..., Iterator[Any]]
    compression: str | None = None


def _read_parquet(file: Any) -> _Batches:
    parquet = library("pyarrow.parquet", "a Parquet file")
    opened = parquet.ParquetFile(file)
    groups = opened.metadata.num_row_groups
    compression = opened.metadata.row_group(0).column(0).compression if groups else "SNAPPY"

    def batches(columns: list[str] | None, wanted: list[int] | None = None) -> Iterator[Any]:
        start = 0
        for group in range(groups):
            count = opened.metadata.row_group(group).num_rows
            is_wanted = wanted is None or any(start <= row < start + count for row in wanted)
            start += count
            used = columns if is_wanted else []
            yield from opened.iter_batches(4096, row_groups=[group], columns=used)

    return _Batches(opened.schema_arrow, batches, compression.lower())


def _write_parquet(out: Any, batches: _Batches) -> Any:
    parquet = library("pyarrow.parquet", "a Parquet file")
    known = ("snappy", "gzip", "brotli", "zstd", "lz4")
    used = batches.compression if batches.compression in known else "none"
    return parquet.ParquetWriter(out, batches.schema, compression=used)


def _read_arrow(file: Any) -> _Batches:
    ipc = library("pyarrow.ipc", "an Arrow file")
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(0)
    opened = ipc.open_file(file) if is_file else ipc.open_stream(file)

    def batches(columns: list[str] | None, _wanted: list[int] | None = None) -> Iterator[Any]:
        found: Iterator[Any] = (
            (opened.get_batch(at) for at in range(opened.num_record_batches)) if is_file else opened
        )
        for batch in found:
            yield batch if columns is None else batch.select(columns)

    return _Batches(opened.schema, batches, "file" if is_file else "stream")


def _write_arrow(out: Any, batches: _Batches) -> Any:
    ipc = library("pyarrow.ipc", "an Arrow file")
    return (ipc.new_file if batches.compression == "file" else ipc.new_stream)(out, batches.schema)


def _label_path(schema: Any) -> list[str]:
    """The column with the class, or the way to it: `objects`, `category`."""
    types = library("pyarrow", "a table").types
    whole = {name: schema.field(name).type for name in schema.names}
    classes = {name: kind for name, kind in whole.items() if not types.is_floating(kind)}
    # `fine_label` is the finer of two; longer names with the word come after the word itself.
    field = label_field(classes) or next(
        (n for n in sorted(classes, reverse=True) if n.lower().endswith(("_label", "_class"))), None
    )
    if field is not None:
        return [field]
    for name, kind in whole.items():
        inner = getattr(kind, "value_type", kind)
        if types.is_struct(inner):
            below = {inner.field(at).name for at in range(inner.num_fields)}
            found = next((label for label in LABEL_FIELDS if label in below), None)
            if found is not None:
                return [name, found]
    return []


def _values(column: Any, path: list[str]) -> Iterator[Any]:
    for value in column:
        plain = value.as_py()
        for step in path:
            plain = _step(plain, step)
        yield plain


def _step(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return cast("Row", value).get(name)
    if isinstance(value, list):
        rows = cast("list[Any]", value)
        return [cast("Row", row).get(name) for row in rows if isinstance(row, dict)]
    return None


def _classes(value: Any) -> Collection[str]:
    if value is None or isinstance(value, bytes | float | dict):
        return ()
    if isinstance(value, list):
        return {str(one) for one in cast("list[Any]", value)}
    return (str(value),)


def open_columns(tree: Tree, name: str, _left: set[str]) -> Columns | None:
    """Parquet or Arrow, by the name."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _PARQUET:
        return Columns(tree, name, "parquet", _read_parquet, _write_parquet)
    if suffix in _ARROW:
        return Columns(tree, name, "arrow", _read_arrow, _write_arrow)
    return None


def saved_datasets(tree: Tree, left: set[str], chosen: Chosen) -> set[str]:
    """What `save_to_disk` writes beside the Arrow files; caches of mapped data are left out.

    Every listed file stays, if need be without rows. The fingerprint changes: `datasets` finds its
    cached results by it."""
    done: set[str] = set()
    for state in sorted(name for name in left if PurePosixPath(name).name == "state.json"):
        folder = state.removesuffix("state.json")
        told = parsed(tree.read(state))
        if not isinstance(told, dict) or "_data_files" not in told:
            continue
        document = cast("Row", told)
        mark = hashlib.sha256(f"mini {document.get('_fingerprint')}".encode()).hexdigest()[:16]
        chosen.made[state] = dumped({**document, "_fingerprint": mark})
        done |= {state, *(n for n in left if n.startswith(folder + _CACHE))}
    return done


def without_counts(tree: Tree, left: set[str], chosen: Chosen) -> set[str]:
    """Cards and `dataset_info.json` without the counts of rows, which `datasets` would check."""
    done: set[str] = set()
    for name in left:
        last = PurePosixPath(name).name
        made = None
        if last == "dataset_info.json":
            told = parsed(tree.read(name))
            if isinstance(told, dict) and "features" in told:
                made = dumped(_uncounted(cast("Row", told)))
        elif last == "README.md":
            made = _card(tree.read(name))
        if made is not None:
            chosen.made[name] = made
            done.add(name)
    return done


def _uncounted(info: Row) -> Row:
    return {key: value for key, value in info.items() if key not in _COUNTS}


def _card(data: bytes) -> bytes | None:
    """A card of the hub: Markdown after YAML between lines of dashes."""
    parts = re.match(rb"---\r?\n(.*?)\n---\r?\n", data, re.DOTALL)
    try:
        told: object = yaml.safe_load(parts[1]) if parts is not None else None
    except yaml.YAMLError:
        return None
    if parts is None or not isinstance(told, dict):
        return None
    head = cast("Row", told)
    info = head.get("dataset_info")
    if isinstance(info, dict):
        head["dataset_info"] = _uncounted(cast("Row", info))
    elif isinstance(info, list):
        rows = cast("list[Any]", info)
        head["dataset_info"] = [
            _uncounted(cast("Row", row)) if isinstance(row, dict) else row for row in rows
        ]
    text = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return b"---\n" + text.encode() + b"---\n" + data[parts.end() :]
