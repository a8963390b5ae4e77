"""MATLAB's mat files, by scipy: arrays of samples, tables that name files, labels by image number."""

import io
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from jumar.store.mini.arrays import ArrayFile, Member
from jumar.store.mini.documents import Document, Keeps, Labels
from jumar.store.mini.hdf5 import Hdf5
from jumar.store.mini.samples import Files, is_image
from jumar.store.mini.tables import LABEL_FIELDS, file_column
from jumar.store.mini.tree import MOST_BYTES_IN_MEMORY, Tree, Uncuttable, library

_HDF5 = b"\x89HDF"
_LABEL_VARIABLES = {*LABEL_FIELDS, "classes"}
_DAMAGED = (
    *(ValueError, TypeError, OSError, LookupError, NotImplementedError, EOFError),
    *(ArithmeticError, MemoryError, AttributeError, zlib.error),
)
_NUMBER = re.compile(r"(\d+)$")


def read_mat(name: str, data: bytes) -> dict[str, Any]:
    """The variables of a file of before 7.3."""
    io_of = library("scipy.io", name)
    try:
        found: dict[str, Any] = io_of.loadmat(io.BytesIO(data))
    except (*_DAMAGED, io_of.matlab.MatReadError) as error:
        raise Uncuttable(f"not a mat file, or damaged: {error}") from error
    return {key: value for key, value in found.items() if not key.startswith("__")}


def write_mat(variables: dict[str, Any]) -> bytes:
    """A mat file with these variables."""
    out = io.BytesIO()
    library("scipy.io", "a mat file").savemat(out, variables, do_compression=True)
    return out.getvalue()


@dataclass(frozen=True)
class Mat:
    """Arrays in a file of before 7.3."""

    tree: Tree
    name: str
    kind = "mat"

    @cached_property
    def _variables(self) -> dict[str, Any]:
        if self.tree.size(self.name) > MOST_BYTES_IN_MEMORY:
            raise Uncuttable("a mat file of this size is read only in the form of MATLAB 7.3")
        return read_mat(self.name, self.tree.read(self.name))

    def members(self) -> list[Member]:
        """Its plain arrays."""
        return [
            Member(
                *(
                    self.name,
                    key,
                    tuple(value.shape),
                    value.dtype.kind in "iub" or _is_whole(value),
                ),
                lambda value=value: value.reshape(-1).tolist(),
            )
            for key, value in self._variables.items()
            if value.dtype.kind in "iubf"
        ]

    def cut(self, rows: dict[str, tuple[int, list[int]]]) -> bytes:
        """The file with these samples."""
        made = {
            key: value.take(rows[key][1], axis=rows[key][0]) if key in rows else value
            for key, value in self._variables.items()
        }
        return write_mat(made)


def _is_whole(value: Any) -> bool:
    """MATLAB's numbers are floating point unless somebody cared."""
    return value.ndim <= 2 and min(value.shape, default=0) == 1 and bool((value % 1 == 0).all())


def open_mat(tree: Tree, name: str) -> ArrayFile:
    """Of either form."""
    # In the form of 7.3 MATLAB's own header comes first, 512 bytes long.
    is_73 = _HDF5 in (tree.head(name, 4), tree.head(name, 516)[512:])
    return Hdf5(tree, name, "mat") if is_73 else Mat(tree, name)


def mat_documents(tree: Tree, names: Sequence[str], left: set[str], files: Files) -> list[Document]:
    """Those of the mat files that say something about files."""
    found: list[Document] = []
    variables: dict[str, dict[str, Any]] = {}
    for name in names:
        if tree.size(name) <= MOST_BYTES_IN_MEMORY and isinstance(open_mat(tree, name), Mat):
            # Told when the arrays in it are looked for.
            with suppress(Uncuttable):
                variables[name] = read_mat(name, tree.read(name))
    for name, own in variables.items():
        table = _table(name, own, files)
        if table is not None:
            found.append(table)
    if not found and variables:
        found = _by_number(variables, left)
    return found


def _table(name: str, variables: dict[str, Any], files: Files) -> Document | None:
    """A struct array with a field of file names, or cells of names beside a vector of labels."""
    for key, value in variables.items():
        if value.dtype.names is not None and value.size > 1:
            fields = list(value.dtype.names)
            columns = [[_text(cell) for cell in value[field].reshape(-1)] for field in fields]
            told = file_column(columns, files.knows)
            if told is not None:
                by_name = {field.lower(): at for at, field in enumerate(fields)}
                label = next((by_name[n] for n in LABEL_FIELDS if n in by_name), None)
                marks = columns[label] if label is not None else None
                return _document(name, variables, {key}, columns[told], marks)
    columns = {
        key: [_text(cell) for cell in value.reshape(-1)]
        for key, value in variables.items()
        if value.dtype.kind in "OUiubf" and value.size > 1 and value.size == max(value.shape)
    }
    told = file_column(list(columns.values()), files.knows)
    if told is None:
        return None
    paths = list(columns.values())[told]
    alike = {key for key, column in columns.items() if len(column) == len(paths)}
    label = next((key for key in alike if key.lower() in _LABEL_VARIABLES), None)
    return _document(name, variables, alike, paths, columns[label] if label else None)


def _document(
    name: str, variables: dict[str, Any], keys: set[str], paths: list[str], marks: list[str] | None
) -> Document:
    labels: Labels = {}
    for at, path in enumerate(paths):
        labels.setdefault(path, set()).update({marks[at]} if marks else set())

    def cut(keeps: Keeps) -> bytes:
        rows = [at for at, path in enumerate(paths) if keeps(path)]
        return write_mat(_with_rows(variables, dict.fromkeys(keys, rows)))

    return Document(name, "mat", labels, cut)


def _with_rows(variables: dict[str, Any], rows: dict[str, list[int]]) -> dict[str, Any]:
    return {
        key: value.take(rows[key], axis=value.shape.index(value.size)) if key in rows else value
        for key, value in variables.items()
    }


def _text(cell: Any) -> str:
    """The text or number in a cell, however deep MATLAB wrapped it."""
    while hasattr(cell, "size") and getattr(cell, "ndim", 0) and cell.size == 1:
        cell = cell.reshape(-1)[0]
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _by_number(variables: dict[str, dict[str, Any]], left: set[str]) -> list[Document]:
    """As Flowers102: one label for each image number from 1 on, and lists of numbers for the splits.

    The labels stay, since an image's number is its place there; the lists are reduced."""
    images: dict[int, str] = {}
    for name in sorted(filter(is_image, left)):
        number = _NUMBER.search(PurePosixPath(name).stem)
        if number is not None:
            images.setdefault(int(number[1]), name)
    count = max(images, default=0)
    vectors = {
        (name, key): [int(n) for n in value.reshape(-1)]
        for name, own in variables.items()
        for key, value in own.items()
        if value.dtype.kind in "iuf"
        and value.size == max(value.shape, default=0)
        and _is_whole(value)
    }
    labels = next((at for at, v in vectors.items() if len(v) == count > 1), None)
    if labels is None:
        return []
    marks = vectors.pop(labels)
    found: list[Document] = []
    for name in variables:
        lists = {
            key: v for (own, key), v in vectors.items() if own == name and images.keys() >= {*v}
        }
        if name == labels[0]:
            told = {path: {str(marks[n - 1])} for n, path in images.items()}
            whole = write_mat(variables[name])
            found.append(Document(name, "mat", told, lambda _, whole=whole: whole))
        elif lists:
            found.append(_lists(name, variables[name], lists, images, marks))
    return found


def _lists(
    name: str,
    own: dict[str, Any],
    lists: dict[str, list[int]],
    images: dict[int, str],
    marks: list[int],
) -> Document:
    """Each list counts as a split of its own; together they are one file."""

    def cut(keeps: Keeps) -> bytes:
        rows = {
            key: [at for at, number in enumerate(numbers) if keeps(images[number])]
            for key, numbers in lists.items()
        }
        return write_mat(_with_rows(own, rows))

    splits = {images[number]: key for key, numbers in lists.items() for number in numbers}
    told = {images[number]: {str(marks[number - 1])} for n in lists.values() for number in n}
    return Document(name, "mat", told, cut, splits=splits)
