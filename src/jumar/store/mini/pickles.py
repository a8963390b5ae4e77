"""CIFAR as Python pickles, read without running anything that is in them.

A pickle may call any function when it is loaded. Here only the few names that numpy's arrays need
are known, and they stand for records of ours; all else is refused. What is written loads as the
original does: with numpy, under `encoding="latin1"` and `encoding="bytes"`."""

import io
import pickle
import struct
from dataclasses import dataclass
from typing import Any, cast

from jumar.store.mini.choice import Wish, few_by_label

_LABELS = ("fine_labels", "labels")
# What loading something that is not such a pickle may raise.
_NOT_PLAIN_DATA = (
    *(pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError, AttributeError),
    *(ArithmeticError, MemoryError, RecursionError),
)


@dataclass
class _Dtype:
    """A numpy dtype: its code, and the state with the byte order."""

    code: Any
    align: Any
    copy: Any
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array:
    """A numpy array: shape, dtype and bytes."""

    shape: tuple[int, ...]
    dtype: _Dtype
    data: bytes

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if fortran or not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an unsupported kind of array")
        self.shape, self.dtype, self.data = tuple(shape), dtype, data

    def cut(self, indices: list[int]) -> "_Array":
        step = len(self.data) // self.shape[0]
        made = _Array()
        made.shape, made.dtype = (len(indices), *self.shape[1:]), self.dtype
        made.data = b"".join(self.data[i * step : (i + 1) * step] for i in indices)
        return made


def _array(*_: Any) -> _Array:
    return _Array()


def _bytes(text: str, encoding: str) -> bytes:
    # How Python 3 writes bytes in the old protocol.
    return text.encode("latin1" if encoding == "latin1" else "ascii")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _bytes,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _KNOWN[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not data") from None


def read_plain(data: bytes, encoding: str = "latin1") -> object:
    """What a pickle holds if it is plain data; else None. Nothing in it is run."""
    try:
        return _Reader(io.BytesIO(data), encoding=encoding).load()
    except _NOT_PLAIN_DATA:
        return None


def cut_pickle(data: bytes, wish: Wish) -> tuple[bytes, int] | None:
    """A batch with a few images of each label, and the number of labels; None for other files."""
    batch = read_plain(data, "bytes")
    if not isinstance(batch, dict):
        return None
    values = cast("dict[Any, Any]", batch)
    named = {key.decode("latin1") if isinstance(key, bytes) else key: key for key in values}
    label_key = next((named[name] for name in _LABELS if name in named), None)
    pixels = values.get(named.get("data"))
    labels = values.get(label_key)
    if not isinstance(pixels, _Array) or not isinstance(labels, list):
        return None
    marks = [str(mark) for mark in cast("list[Any]", labels)]
    if not marks or pixels.shape[:1] != (len(marks),):
        return None
    kept = few_by_label(marks, wish)
    cut = {key: _cut_value(value, kept, len(marks)) for key, value in values.items()}
    # Before protocol 3 there was one kind of string; the reader decides what it becomes.
    strings_are_old = data[:1] != b"\x80" or data[1] < 3
    return b"\x80\x02" + _written(cut, strings_are_old) + b".", len(set(marks))


def _cut_value(value: Any, kept: list[int], count: int) -> Any:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [items[index] for index in kept] if len(items) == count else items
    if isinstance(value, _Array) and value.shape[:1] == (count,):
        return value.cut(kept)
    return value


def _written(value: Any, old: bool) -> bytes:
    """The opcodes that make the value."""
    if isinstance(value, dict):
        items = [part for pair in cast("dict[Any, Any]", value).items() for part in pair]
        return b"}(" + b"".join(_written(item, old) for item in items) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(_written(item, old) for item in cast("list[Any]", value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(_written(item, old) for item in cast("tuple[Any]", value)) + b"t"
    if isinstance(value, bytes):
        return (b"T" if old else b"B") + struct.pack("<I", len(value)) + value
    if isinstance(value, _Dtype):
        made = b"cnumpy\ndtype\n" + _written((value.code, value.align, value.copy), old) + b"R"
        return made + (b"" if value.state is None else _written(value.state, old) + b"b")
    if isinstance(value, _Array):
        made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        made += _written((0,), old) + _written(b"b", old) + b"tR"
        return made + _written((1, value.shape, value.dtype, False, value.data), old) + b"b"
    # Numbers, text, None, True and False: as pickle itself writes them, without frame and end.
    return pickle.dumps(value, 2)[2:-1]
