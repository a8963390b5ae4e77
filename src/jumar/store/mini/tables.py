"""Annotation files beside flat images: CSV, JSON, COCO, VOC. Rows are kept for images that are kept."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, cast
from xml.etree import ElementTree

_FILE_FIELDS = ("file_name", "filename", "file", "image", "image_path", "path", "img", "name")
_LABEL_FIELDS = ("label", "class", "category", "target", "class_name", "category_id", "y")
Row = dict[str, Any]


def file_field(fields: list[str]) -> str | None:
    """The column that names the file."""
    return next((f for want in _FILE_FIELDS for f in fields if f.strip().lower() == want), None)


def label_field(fields: list[str]) -> str | None:
    """The column that names the class."""
    return next((f for want in _LABEL_FIELDS for f in fields if f.strip().lower() == want), None)


def is_coco(data: object) -> bool:
    """Whether a JSON document has the form of COCO."""
    if not isinstance(data, dict):
        return False
    document = cast("Row", data)
    return isinstance(document.get("images"), list) and "annotations" in document


def coco_labels(data: Row) -> dict[str, str]:
    """Image to one of its classes; pictures without any are a class of their own."""
    names = {image["id"]: str(image["file_name"]) for image in data["images"]}
    found = dict.fromkeys(names.values(), "")
    for mark in data["annotations"]:
        name = names.get(mark.get("image_id"))
        if name is not None and not found[name]:
            found[name] = str(mark.get("category_id", ""))
    return found


def cut_coco(data: Row, keeps: Callable[[str], bool]) -> Row:
    """The document with only the images that are kept; categories stay, so ids keep their meaning."""
    images = [image for image in data["images"] if keeps(str(image["file_name"]))]
    ids = {image["id"] for image in images}
    marks = [mark for mark in data["annotations"] if mark.get("image_id") in ids]
    return {**data, "images": images, "annotations": marks}


def json_rows(data: object) -> list[Row] | None:
    """The rows of a JSON list of objects that name files."""
    if not isinstance(data, list) or not data:
        return None
    rows = cast("list[Any]", data)
    if not all(isinstance(row, dict) for row in rows):
        return None
    return rows if file_field(list(rows[0])) is not None else None


def row_labels(rows: list[Row]) -> dict[str, str]:
    """File to class."""
    fields = list(rows[0]) if rows else []
    name, label = file_field(fields), label_field(fields)
    if name is None:
        return {}
    return {str(row[name]): "" if label is None else str(row.get(label)) for row in rows}


def cut_rows(rows: list[Row], keeps: Callable[[str], bool]) -> list[Row]:
    """The rows of files that are kept."""
    name = file_field(list(rows[0])) if rows else None
    return rows if name is None else [row for row in rows if keeps(str(row[name]))]


def read_csv(text: str) -> list[Row] | None:
    """The rows of a CSV with a header that names files; None when it is another table."""
    if not text.strip():
        return None
    delimiter = "\t" if "\t" in text.split("\n", 1)[0] else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    if not reader.fieldnames or file_field(list(reader.fieldnames)) is None:
        return None
    return [dict(row) for row in reader]


def write_csv(rows: list[Row], fields: list[str], delimiter: str = ",") -> str:
    """Rows as CSV."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, fields, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def csv_form(text: str) -> tuple[list[str], str]:
    """The header and the delimiter."""
    first = text.split("\n", 1)[0].rstrip("\r")
    delimiter = "\t" if "\t" in first else ","
    return next(csv.reader([first], delimiter=delimiter)), delimiter


def voc_label(text: bytes) -> tuple[str, str] | None:
    """The image and the first class of a VOC annotation; None when it is another XML."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
    if root.tag != "annotation":
        return None
    return root.findtext("filename") or "", root.findtext("object/name") or ""


def parse_json(data: bytes) -> object:
    """A JSON document; None when it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return None
