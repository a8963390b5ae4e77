"""MindSpore's ckpt: records of protocol buffers, one per parameter or part of one, without any end mark.
Cut on the border of two records it is loaded without a word, with half of its parameters: whoever calls
compares the names with those of an older checkpoint."""

from itertools import islice
from typing import BinaryIO, Dict, Iterator, List, NamedTuple

from .verdict import Torn, Unclear, exactly, size_of

_VALUE = 0x0A
_CRC = b"crc_num"
_CRC_BYTES = len(_CRC) + 10
_LONGEST_NAME = 1 << 16
_MOST_RECORDS = 1_000_000
_MOST_DIMS = 64
_MOST_FIELDS = 1000
_ITEM_BYTES = {
    "Int8": 1, "UInt8": 1, "Bool": 1, "Int16": 2, "UInt16": 2, "Float16": 2, "BFloat16": 2,
    "Int32": 4, "UInt32": 4, "Float32": 4, "Int64": 8, "UInt64": 8, "Float64": 8,
}  # fmt: skip


class _Tensor:
    def __init__(self) -> None:
        self.dims: List[int] = []
        self.kind = ""
        self.bytes = 0


def looks_so(file: BinaryIO) -> bool:
    """A record whose first field is a name."""
    try:
        if exactly(file, 1)[0] != _VALUE:
            return False
        _varint(file)
        return exactly(file, 1)[0] == 0x0A and 0 < _varint(file) < _LONGEST_NAME
    except Torn:
        return False
    finally:
        file.seek(0)


def names(file: BinaryIO) -> List[str]:
    """Of all parameters of a file that ends where a record does, each with all of its bytes."""
    size = size_of(file)
    tensors: Dict[str, _Tensor] = {}
    for _ in range(_MOST_RECORDS):
        if file.tell() >= size:
            break
        tag = exactly(file, 1)[0]
        if tag != _VALUE:
            _check_sum_mark(file, size)
            break
        length = _varint(file)
        if file.tell() + length > size:
            raise Torn("it ends inside of a parameter")
        _record(file, file.tell() + length, tensors)
    else:
        raise Unclear("it has too many parameters to look at")
    for name, tensor in tensors.items():
        wanted = _ITEM_BYTES.get(tensor.kind, 0)
        for dim in tensor.dims:
            wanted *= dim
        # An empty list of dimensions is a scalar.
        if tensor.kind in _ITEM_BYTES and tensor.bytes != wanted:
            raise Torn(f"parameter {name[:200]} has {tensor.bytes} bytes instead of {wanted}")
    return list(tensors)


def _check_sum_mark(file: BinaryIO, size: int) -> None:
    file.seek(-1, 1)
    if size - file.tell() != _CRC_BYTES or exactly(file, len(_CRC)) != _CRC:
        raise Torn(f"byte {file.tell()} does not begin a parameter")


def _record(file: BinaryIO, end: int, tensors: Dict[str, _Tensor]) -> None:
    name = ""
    for field in _fields(file, end):
        if field.number == 1:
            name = _text(file, field)
        elif field.number == 2:
            _tensor(file, field, tensors.setdefault(name, _Tensor()))
        file.seek(field.end)
    if not name:
        raise Torn("a parameter has no name")


def _tensor(file: BinaryIO, field: "_Field", tensor: _Tensor) -> None:
    dims: List[int] = []
    for part in _fields(file, field.end):
        if part.number == 1:
            dims.extend(islice(_dims(file, part), _MOST_DIMS))
            if len(dims) >= _MOST_DIMS:
                raise Unclear("a parameter has too many dimensions")
        elif part.number == 2:
            tensor.kind = _text(file, part)
        elif part.number == 3:
            tensor.bytes += part.end - part.at
        file.seek(part.end)
    tensor.dims = dims


class _Field(NamedTuple):
    number: int
    value: int
    at: int
    end: int
    is_packed: bool


def _fields(file: BinaryIO, end: int) -> Iterator[_Field]:
    for _ in range(_MOST_FIELDS):
        if file.tell() >= end:
            return
        key = _varint(file)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value = _varint(file)
            yield _Field(number, value, file.tell(), file.tell(), False)
            continue
        length = {1: 8, 5: 4}.get(kind) or (_varint(file) if kind == 2 else -1)
        at = file.tell()
        if length < 0 or at + length > end:
            raise Torn("a parameter is not whole")
        yield _Field(number, 0, at, at + length, kind == 2)
    raise Unclear("a parameter has too many fields")


def _dims(file: BinaryIO, field: _Field) -> Iterator[int]:
    if not field.is_packed:
        yield field.value
        return
    file.seek(field.at)
    while file.tell() < field.end:
        yield _varint(file)


def _text(file: BinaryIO, field: _Field) -> str:
    if field.end - field.at > _LONGEST_NAME:
        raise Unclear("a name is too long")
    file.seek(field.at)
    return exactly(file, field.end - field.at).decode("utf-8", "replace")


def _varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = exactly(file, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise Torn("a number is not whole")
