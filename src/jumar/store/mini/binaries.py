"""Data sets in single files: MNIST idx and CIFAR binary. Records are kept whole."""

import gzip
import io
import re
import struct

from jumar.errors import BadInput
from jumar.store.mini.choice import Wish, few_by_label

_CIFAR_PIXELS = 3072
_IDX_TYPES = {0x08: 1, 0x09: 1, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8}


def idx_partner(name: str) -> str | None:
    """The label file that belongs to a file of images, by the usual names."""
    partner = re.sub(r"images([.-])idx3", r"labels\1idx1", name)
    return partner if partner != name else None


def cut_idx_pair(images: bytes, labels: bytes, wish: Wish) -> tuple[bytes, bytes, int]:
    """Both files with a few images of each label, and how many labels there are."""
    (count, *_), _, _ = _read_idx(images)
    (marked, *_), item, body = _read_idx(labels)
    if count != marked:
        raise BadInput(f"{count} images have {marked} labels")
    marks = [body[at : at + item].hex() for at in range(0, len(body), item)]
    kept = few_by_label(marks, wish)
    return _cut_idx(images, kept), _cut_idx(labels, kept), len(set(marks))


def _read_idx(data: bytes) -> tuple[tuple[int, ...], int, bytes]:
    """Shape, bytes of one item and the items of an idx file."""
    if len(data) < 8 or data[0] or data[1] or data[2] not in _IDX_TYPES or not data[3]:
        raise BadInput("not an idx file")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise BadInput("not an idx file")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    item = _IDX_TYPES[data[2]]
    for length in shape[1:]:
        item *= length
    if len(data) - start != item * shape[0]:
        raise BadInput("the size of the idx file does not match its header")
    return shape, item, data[start:]


def _cut_idx(data: bytes, indices: list[int]) -> bytes:
    """An idx file with these items only."""
    shape, item, body = _read_idx(data)
    header = data[:4] + struct.pack(f">{len(shape)}I", len(indices), *shape[1:])
    return header + b"".join(body[i * item : (i + 1) * item] for i in indices)


def unpacked(name: str, data: bytes, limit: int) -> bytes:
    """The content of a file that may be gzip; refuses more than `limit` bytes."""
    if not name.endswith(".gz"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            opened = file.read(limit + 1)
    except (OSError, EOFError) as error:
        raise BadInput(f"incomplete or damaged gzip: {error}") from error
    if len(opened) > limit:
        raise BadInput(f"it unpacks to more than {limit} bytes")
    return opened


def repacked(name: str, data: bytes) -> bytes:
    """The reverse, without a timestamp, so that the same input gives the same file."""
    return gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def may_be_cifar(name: str, size: int) -> bool:
    """Whether name and size fit CIFAR binary: 3072 pixels and one or two labels per record."""
    steps = (_CIFAR_PIXELS + 1, _CIFAR_PIXELS + 2)
    return name.lower().endswith(".bin") and size > 0 and any(size % step == 0 for step in steps)


def cut_cifar(data: bytes, wish: Wish) -> tuple[bytes, int] | None:
    """A few records of each (fine) label, and the number of labels; None for other files."""
    # One label byte in CIFAR-10; a coarse and a fine one in CIFAR-100.
    for most in ((10,), (20, 100)):
        step = _CIFAR_PIXELS + len(most)
        columns = [data[place::step] for place in range(len(most))]
        fits = len(data) % step == 0
        if fits and all(max(column) < limit for column, limit in zip(columns, most, strict=True)):
            kept = few_by_label([str(mark) for mark in columns[-1]], wish)
            cut = b"".join(data[index * step : (index + 1) * step] for index in kept)
            return cut, len(set(columns[-1]))
    return None
