"""Records of text: JSON lines, JSON lists and CSV that name no other files, as for language models."""

import csv
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from jumar.errors import BadInput
from jumar.store.mini.documents import LISTS, Row, dumped, parsed, plain_labels
from jumar.store.mini.samples import is_image
from jumar.store.mini.tables import LABEL_FIELDS, decoded, has_header, label_column, split_rows
from jumar.store.mini.tree import BAD_GZIP, MOST_BYTES_IN_MEMORY, Tree, Uncuttable

# What a text comes from is as good as a class, where there is no class.
_LABELS = (
    *LABEL_FIELDS,
    *("task", "task_name", "task_type", "subset", "domain", "source", "language", "lang", "type"),
)
# Fields of samples, not of tables about something: of classes, of colours.
_TEXTS = {
    *("text", "content", "instruction", "prompt", "messages", "conversations", "conversation"),
    *("question", "query", "sentence", "sentence1", "premise", "review", "context", "chosen"),
    *("input", "output", "response", "answer", "completion", "document", "paragraphs", "dialogue"),
    *("title", "description", "code", "文本", "内容", "问题", "review_body", "comment", "tokens"),
}
_LOOKED_AT = 100


def label_field(fields: Collection[str]) -> str | None:
    """The field that holds the class: by its name."""
    by_name = {field.lower(): field for field in fields}
    return next((by_name[name] for name in _LABELS if name in by_name), None)


def _labels(row: object, field: str | None) -> set[str]:
    return plain_labels(cast("Row", row).get(field)) if isinstance(row, dict) and field else set()


@dataclass(frozen=True)
class JsonLines:
    """One JSON value per line; kept lines keep their exact bytes."""

    tree: Tree
    name: str
    kind = "jsonl"

    @property
    def names(self) -> frozenset[str]:
        """The file alone."""
        return frozenset({self.name})

    def _lines(self) -> Iterator[bytes]:
        try:
            with self.tree.open_unpacked(self.name) as file:
                for line in file:
                    if line.strip():
                        yield line if line.endswith(b"\n") else line + b"\n"
        except BAD_GZIP as error:
            raise BadInput(f"incomplete or damaged gzip: {error}") from error

    def labels(self) -> Iterator[set[str]]:
        """What the label field says."""
        field: str | None = None
        for number, line in enumerate(self._lines()):
            row = parsed(line)
            if row is None and line.strip() != b"null":
                raise Uncuttable(f"line {number + 1} is not JSON")
            if number < _LOOKED_AT and field is None and isinstance(row, dict):
                field = label_field(cast("Row", row))
            yield _labels(cast("object", row), field)

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These lines."""
        wanted = set(rows)
        kept = b"".join(line for number, line in enumerate(self._lines()) if number in wanted)
        return {self.name: self.tree.packed_like(self.name, kept)}


@dataclass(frozen=True)
class _Rows:
    """Rows that are in memory."""

    name: str
    kind: str
    marks: list[set[str]]
    written: Callable[[list[int]], bytes]

    @property
    def names(self) -> frozenset[str]:
        """The file alone."""
        return frozenset({self.name})

    def labels(self) -> Iterator[set[str]]:
        """What the label column says."""
        return iter(self.marks)

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These rows."""
        return {self.name: self.written(rows)}


def open_json_lines(tree: Tree, name: str, _left: set[str]) -> JsonLines | None:
    """JSON lines, by the name."""
    lowered = name.lower()
    if lowered.endswith((".jsonl", ".jsonl.gz", ".ndjson", ".json.gz")):
        return JsonLines(tree, name)
    if lowered.endswith((".jsonl.zst", ".jsonl.xz", ".jsonl.bz2")):
        raise Uncuttable("compressed in a form that is not read here")
    # Many collections name their JSON lines `.json`.
    if lowered.endswith(".json") and len(lines := tree.head(name, 1 << 20).splitlines()) > 2:
        heads = [parsed(line) for line in lines[:2]]
        if all(isinstance(row, dict) and _TEXTS & {*cast("Row", row)} for row in heads):
            return JsonLines(tree, name)
    return None


def open_json_list(tree: Tree, name: str, _left: set[str]) -> _Rows | None:
    """A list of objects with texts, at the top or under a usual name."""
    if not name.lower().endswith(".json") or tree.head(name, 1).strip() not in (b"[", b"{", b""):
        return None
    if tree.size(name) > MOST_BYTES_IN_MEMORY:
        raise Uncuttable("too large for one JSON value; as JSON lines it could be reduced")
    top = parsed(tree.read(name))
    if isinstance(top, list):
        return _list_rows(name, cast("list[Any]", top), dumped)
    if isinstance(top, dict):
        document = cast("Row", top)
        for field in LISTS:
            if isinstance(document.get(field), list):
                return _list_rows(
                    name,
                    document[field],
                    lambda rows, field=field: dumped({**document, field: rows}),
                )
    return None


def _list_rows(name: str, rows: list[Any], write: Callable[[list[Any]], bytes]) -> _Rows | None:
    looked = rows[:_LOOKED_AT]
    fields = [field for row in looked if isinstance(row, dict) for field in cast("Row", row)]
    if not looked or not _TEXTS.intersection(field.lower() for field in fields):
        return None
    field = label_field(fields)
    marks = [_labels(row, field) for row in rows]
    return _Rows(name, "json", marks, lambda kept: write([rows[at] for at in kept]))


def open_text_table(tree: Tree, name: str, left: set[str]) -> _Rows | None:
    """CSV whose rows are samples: it has texts or a class, and there are no pictures beside it."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in (".csv", ".tsv") or any(map(is_image, left)):
        return None
    if tree.size(name) > MOST_BYTES_IN_MEMORY:
        raise Uncuttable("too large a CSV")
    text = decoded(tree.read(name))
    if text is None or not text[0].strip():
        return None
    try:
        lines = [line for line in split_rows(text[0], suffix) if line[0]]
    except csv.Error as error:
        raise Uncuttable(f"not a CSV: {error}") from error
    names = [cell.strip().lower() for cell in lines[0][0]] if has_header(lines) else []
    body = lines[1:] if names else lines
    width = max((len(fields) for fields, _ in body), default=0)
    columns = [[row[at] if at < len(row) else "" for row, _ in body] for at in range(width)]
    label = label_column(names, columns, -1)
    if label is None and not _TEXTS.intersection(names):
        return None
    marks = [set[str]() if label is None else {columns[label][at]} for at in range(len(body))]
    head = lines[0][1] if names else ""

    def written(kept: list[int]) -> bytes:
        return (head + "".join(body[at][1] for at in kept)).encode(text[1])

    return _Rows(name, "csv", marks, written)
