"""Documents that label files: JSON of several forms, COCO, VOC, LabelMe, YOLO, and tables.

A document names files with their labels, and can be reduced to the files that are kept."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast
from xml.etree import ElementTree

from jumar.store.mini.samples import Files
from jumar.store.mini.tables import LABEL_FIELDS, file_column, label_column, read_table

Row = dict[str, Any]
Labels = dict[str, set[str]]
Keeps = Callable[[str], bool]
_YOLO_LINE = re.compile(r"(\d+)(?:\s+-?[\d.]+(?:[eE][+-]?\d+)?){4,}\s*")
LISTS = ("annotations", "images", "data", "samples", "items", "files")


@dataclass(frozen=True, slots=True)
class Document:
    """A file about other files. `cut` returns what remains of it; None if nothing does."""

    name: str
    kind: str
    labels: Labels
    """Each file, as the document names it, with its classes; none if the document only lists files."""
    cut: Callable[[Keeps], bytes | None]
    parts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Files that go with another wherever they are: a mask, further pictures of a conversation."""
    splits: dict[str, str] = field(default_factory=dict[str, str])
    """Which split a file is in, if the document has several."""


def read_document(name: str, data: bytes, files: Files) -> Document | None:
    """What the file says; None if it is not about these files."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".xml":
        return _voc(name, data, files)
    if suffix == ".json":
        return _json(name, parsed(data), files)
    if suffix == ".jsonl":
        return _json_lines(name, data, files)
    if suffix == ".cls":
        label = data.decode("utf-8", "replace").strip()
        return _of_one(name, "webdataset", data, PurePosixPath(name).stem, {label})
    if suffix == ".txt" and files.knows(PurePosixPath(name).stem):
        yolo = _yolo(name, data)
        if yolo is not None:
            return yolo
    return _table(name, suffix, data, files)


def _of_one(name: str, kind: str, data: bytes, image: str, labels: set[str]) -> Document:
    """A document about a single file: it stays or goes with it."""
    return Document(name, kind, {image: labels}, lambda keeps: data if keeps(image) else None)


def _voc(name: str, data: bytes, files: Files) -> Document | None:
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return None
    if root.tag != "annotation":
        return None
    labels = {element.text or "" for element in root.iterfind("object/name")}
    # Loaders use the name of the annotation file; the image name inside is often outdated.
    stem = PurePosixPath(name).stem
    image = stem if files.knows(stem) else root.findtext("filename") or stem
    return _of_one(name, "voc", data, image, labels)


def _yolo(name: str, data: bytes) -> Document | None:
    lines = data.decode("utf-8", "replace").split("\n")
    matches = [_YOLO_LINE.fullmatch(line) for line in lines if line.strip()]
    if not all(matches):
        return None
    # A picture without objects has an empty file.
    labels = {match[1] for match in matches if match is not None}
    return _of_one(name, "yolo", data, PurePosixPath(name).stem, labels)


def parsed(data: bytes) -> object:
    """The JSON value; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def dumped(value: object) -> bytes:
    """The value as JSON."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _json(name: str, parsed: object, files: Files) -> Document | None:
    if isinstance(parsed, list):
        rows = cast("list[Any]", parsed)
        return _rows(name, "json", rows, files, dumped)
    if not isinstance(parsed, dict):
        return None
    document = cast("Row", parsed)
    if _is_coco(document):
        return _coco(name, document)
    if "imagePath" in document and isinstance(document.get("shapes"), list):
        shapes = [cast("Row", shape) for shape in document["shapes"] if isinstance(shape, dict)]
        labels = {str(shape.get("label", "")) for shape in shapes}
        data = dumped(document)
        return _of_one(name, "labelme", data, PurePosixPath(name).stem, labels)
    for key in LISTS:
        if isinstance(document.get(key), list):
            found = _rows(
                *(name, "json", cast("list[Any]", document[key]), files),
                lambda rows, key=key: dumped({**document, key: rows}),
            )
            if found is not None:
                return found
    return _mapping(name, document, files)


def _mapping(name: str, document: Row, files: Files) -> Document | None:
    """`{"a.jpg": "cat"}`."""
    if not _mostly(files.knows(key) for key in document):
        return None
    labels = {key: plain_labels(value) for key, value in document.items()}
    return Document(
        *(name, "json", labels),
        lambda keeps: dumped({key: value for key, value in document.items() if keeps(key)}),
    )


def plain_labels(value: object) -> set[str]:
    """The classes in a value: one, several, or those of its own label field."""
    if isinstance(value, str | int):
        return {str(value)}
    if isinstance(value, list):
        return {str(item) for item in cast("list[Any]", value) if isinstance(item, str | int)}
    if isinstance(value, dict):
        row = cast("Row", value)
        label = next((key for key in row if key.lower() in LABEL_FIELDS), None)
        return plain_labels(row[label]) if label is not None else set()
    return set()


def _mostly(scores: Iterable[float]) -> bool:
    listed = list(scores)
    return bool(listed) and sum(score > 0 for score in listed) * 2 >= len(listed)


def _rows(
    name: str, kind: str, rows: list[Any], files: Files, dump: Callable[[list[Row]], bytes]
) -> Document | None:
    """A list of objects, one field of which names a file."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    typed = cast("list[Row]", rows)
    fields = list(dict.fromkeys(key for row in typed[:100] for key in row))
    columns = [[_first(row.get(key, "")) for row in typed] for key in fields]
    told = file_column(columns, files.knows)
    if told is None:
        return None
    label = label_column([key.lower() for key in fields], columns, told)
    labels: Labels = {}
    parts: dict[str, set[str]] = {}
    for number, row in enumerate(typed):
        marks = set[str]() if label is None else plain_labels(row.get(fields[label]))
        labels.setdefault(columns[told][number], set()).update(marks)
        parts.setdefault(columns[told][number], set()).update(_others(row.get(fields[told])))
    path = fields[told]
    return Document(
        *(name, kind, labels),
        lambda keeps: dump([row for row in typed if keeps(_first(row.get(path, "")))]),
        parts=parts,
    )


def _first(value: object) -> str:
    """The file that a value names; of a list the first."""
    names = cast("list[Any]", value) if isinstance(value, list) else [value]
    return str(names[0]) if names else ""


def _others(value: object) -> set[str]:
    return {str(one) for one in cast("list[Any]", value)[1:]} if isinstance(value, list) else set()


def _json_lines(name: str, data: bytes, files: Files) -> Document | None:
    rows = [parsed(line) for line in data.split(b"\n") if line.strip()]
    return _rows(
        *(name, "jsonl", rows, files),
        lambda kept: b"".join(dumped(row) + b"\n" for row in kept),
    )


def _is_coco(document: Row) -> bool:
    images, marks = document.get("images"), document.get("annotations")
    if not isinstance(images, list) or not isinstance(marks, list):
        return False
    rows = cast("list[Any]", [*images, *marks])
    return all(isinstance(row, dict) for row in rows) and all(
        "id" in image and "file_name" in image for image in cast("list[Row]", images)
    )


def _coco(name: str, document: Row) -> Document:
    images, marks = (
        cast("list[Row]", document["images"]),
        cast("list[Row]", document["annotations"]),
    )
    names = {str(image["id"]): str(image["file_name"]) for image in images}
    labels: Labels = {told: set() for told in names.values()}
    parts: dict[str, set[str]] = {}
    for mark in marks:
        told = names.get(str(mark.get("image_id")))
        if told is None:
            continue
        # In panoptic annotations each image has one mark: a mask, and the classes in it.
        for part in (mark, *cast("list[Row]", mark.get("segments_info") or [])):
            if "category_id" in part:
                labels[told].add(str(part["category_id"]))
        if "file_name" in mark:
            parts.setdefault(told, set()).add(str(mark["file_name"]))

    def cut(keeps: Keeps) -> bytes:
        # Categories stay, so that their ids keep their meaning.
        kept = [image for image in images if keeps(str(image["file_name"]))]
        ids = {str(image["id"]) for image in kept}
        left = [mark for mark in marks if str(mark.get("image_id")) in ids]
        return dumped({**document, "images": kept, "annotations": left})

    return Document(name, "coco", labels, cut, parts=parts)


def _table(name: str, suffix: str, data: bytes, files: Files) -> Document | None:
    table = read_table(data, suffix, files.knows)
    if table is None:
        return None
    labels: Labels = {}
    for row in table.rows:
        labels.setdefault(row.told, set()).update(row.labels)
    kind = "list" if suffix in (".txt", ".lst") else "csv"
    return Document(
        *(name, kind, labels),
        lambda keeps: table.written([row for row in table.rows if keeps(row.told)]),
    )
