"""NumPy's files, npy and npz, read and written without NumPy. Objects in them are never unpickled."""

import ast
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from jumar.store.mini.arrays import Member
from jumar.store.mini.tree import Tree, Uncuttable

_MAGIC = b"\x93NUMPY"
_CODES = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
_MOST_HEAD = 1 << 20
_MOST_LABEL_BYTES = 1 << 28
_STEP = 1 << 22


@dataclass(frozen=True)
class Header:
    """Shape, type and order of an array."""

    descr: str
    fortran: bool
    shape: tuple[int, ...]

    @property
    def item(self) -> int:
        """Bytes of one value."""
        width = int("".join(filter(str.isdigit, self.descr)) or 0)
        return width * 4 if self.descr[1:2] == "U" else width

    @property
    def is_whole_number(self) -> bool:
        """Whether the values can be classes."""
        return self.descr[1:2] in "iubUS"

    def with_count(self, axis: int, count: int) -> "Header":
        """The same with another number of samples."""
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        return Header(self.descr, self.fortran, shape)

    def written(self) -> bytes:
        """As it is at the beginning of a file."""
        text = f"{{'descr': {self.descr!r}, 'fortran_order': {self.fortran}, 'shape': {self.shape!r}, }}"
        data = text.encode("latin1")
        fill = -(len(_MAGIC) + 4 + len(data) + 1) % 64
        data += b" " * fill + b"\n"
        return _MAGIC + b"\x01\x00" + struct.pack("<H", len(data)) + data


def read_header(file: IO[bytes]) -> Header:
    """The header of an npy file; what follows are the values."""
    start = file.read(8)
    if len(start) < 8 or start[:6] != _MAGIC:
        raise Uncuttable("not an npy file")
    form = "<H" if start[6] == 1 else "<I"
    (length,) = struct.unpack(
        form, file.read(struct.calcsize(form)).ljust(4, b"\0")[: struct.calcsize(form)]
    )
    if length > _MOST_HEAD:
        raise Uncuttable("not an npy file: its header is too long")
    try:
        told: Any = ast.literal_eval(
            file.read(length).decode("utf-8" if start[6] > 2 else "latin1")
        )
        descr, fortran, shape = told["descr"], told["fortran_order"], told["shape"]
        is_sane = all(isinstance(n, int) and n >= 0 for n in shape)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise Uncuttable("not an npy file: its header cannot be read") from error
    if not isinstance(descr, str) or "O" in descr or not is_sane:
        raise Uncuttable("arrays of objects or records")
    return Header(descr, bool(fortran), tuple(shape))


def read_values(file: IO[bytes], header: Header) -> list[Any]:
    """All values, of a type that can be a class, in C order."""
    size = header.item * math.prod(header.shape)
    if size > _MOST_LABEL_BYTES:
        raise Uncuttable("its labels are too many")
    data = file.read(size)
    if len(data) < size:
        raise Uncuttable("the array is shorter than its header says")
    order, kind, item = (
        header.descr[0].replace("|", "<").replace("=", "<"),
        header.descr[1],
        header.item,
    )
    if kind in "US":
        encoding = {"<U": "utf-32-le", ">U": "utf-32-be"}.get(order + kind, "latin1")
        cells = (data[at : at + item] for at in range(0, size, max(1, item)))
        return [cell.decode(encoding, "replace").rstrip("\0") for cell in cells]
    code = "?" if kind == "b" else _CODES[header.descr[1:]]
    return list(struct.unpack(f"{order}{math.prod(header.shape)}{code}", data))


def cut_array(file: IO[bytes], header: Header, axis: int, rows: list[int]) -> Iterator[bytes]:
    """The array with only these samples, piece by piece; the file is read once, forwards."""
    yield header.with_count(axis, len(rows)).written()
    shape = header.shape[::-1] if header.fortran else header.shape
    axis = len(shape) - 1 - axis if header.fortran else axis
    block = header.item * math.prod(shape[axis + 1 :])
    for _ in range(math.prod(shape[:axis])):
        at = 0
        for row in rows:
            _skip(file, (row - at) * block)
            piece = file.read(block)
            if len(piece) < block:
                raise Uncuttable("the array is shorter than its header says")
            yield piece
            at = row + 1
        _skip(file, (shape[axis] - at) * block)


def _skip(file: IO[bytes], count: int) -> None:
    while count > 0:
        got = len(file.read(min(count, _STEP)))
        if not got:
            raise Uncuttable("the array is shorter than its header says")
        count -= got


@dataclass(frozen=True)
class Npy:
    """One array."""

    tree: Tree
    name: str
    kind = "npy"

    def members(self) -> list[Member]:
        """The array."""
        with self.tree.open(self.name) as file:
            header = read_header(file)
        can_be = header.is_whole_number and not (header.fortran and len(header.shape) > 1)
        return [Member(self.name, "", header.shape, can_be, self._values)]

    def _values(self) -> list[Any]:
        with self.tree.open(self.name) as file:
            return read_values(file, read_header(file))

    def cut(self, rows: dict[str, tuple[int, list[int]]]) -> bytes:
        """The array with these samples."""
        with self.tree.open(self.name) as file:
            return b"".join(cut_array(file, read_header(file), *rows[""]))


@dataclass(frozen=True)
class Npz:
    """Arrays in a zip file."""

    tree: Tree
    name: str
    kind = "npz"

    @contextmanager
    def _open(self) -> Generator[zipfile.ZipFile]:
        try:
            with self.tree.open(self.name) as file, zipfile.ZipFile(file) as archive:
                yield archive
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise Uncuttable(f"not an npz file, or damaged: {error}") from error

    def members(self) -> list[Member]:
        """The arrays."""
        found: list[Member] = []
        with self._open() as archive:
            for info in archive.infolist():
                with archive.open(info) as file:
                    header = read_header(file)
                can_be = header.is_whole_number and not (header.fortran and len(header.shape) > 1)
                member = info.filename
                found.append(
                    Member(
                        *(self.name, member.removesuffix(".npy"), header.shape, can_be),
                        lambda member=member: self._values(member),
                    )
                )
        return found

    def _values(self, member: str) -> list[Any]:
        with self._open() as archive, archive.open(member) as file:
            return read_values(file, read_header(file))

    def cut(self, rows: dict[str, tuple[int, list[int]]]) -> bytes:
        """The arrays with these samples; each is compressed if it was."""
        out = io.BytesIO()
        with self._open() as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
            for info in archive.infolist():
                new = zipfile.ZipInfo(info.filename)
                new.compress_type = info.compress_type
                wanted = rows.get(info.filename.removesuffix(".npy"))
                with archive.open(info) as file, made.open(new, "w", force_zip64=True) as written:
                    if wanted is None:
                        while data := file.read(_STEP):
                            written.write(data)
                    else:
                        for piece in cut_array(file, read_header(file), *wanted):
                            written.write(piece)
        return out.getvalue()
