"""Data sets in one file each: MNIST idx, CIFAR binary, TFRecord. Records are kept whole."""

import gzip
import re
import struct
from collections.abc import Iterator

from jumar.errors import BadInput
from jumar.store.mini.choice import few_of_each

CIFAR_PIXELS = 3072
_IDX_TYPES = {0x08: 1, 0x09: 1, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8}


def read_idx(data: bytes) -> tuple[tuple[int, ...], int, bytes]:
    """Shape, bytes of one item and the items of an idx file."""
    if len(data) < 4 or data[0] or data[1] or data[2] not in _IDX_TYPES:
        raise BadInput("not an idx file")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    item = _IDX_TYPES[data[2]]
    for length in shape[1:]:
        item *= length
    if len(data) - start != item * shape[0]:
        raise BadInput("the idx file has not the size that its header tells")
    return shape, item, data[start:]


def cut_idx(data: bytes, indices: list[int]) -> bytes:
    """An idx file with these items only."""
    shape, item, body = read_idx(data)
    header = data[:4] + struct.pack(f">{len(shape)}I", len(indices), *shape[1:])
    return header + b"".join(body[i * item : (i + 1) * item] for i in indices)


def idx_partner(name: str) -> str | None:
    """The labels that belong to a file of images, by the names everybody uses."""
    partner = re.sub(r"images([.-])idx3", r"labels\1idx1", name)
    return partner if partner != name else None


def choose_labels(labels: list[str], per_class: int, seed: int) -> list[int]:
    """Indices of a few items of each label."""
    numbered = list(enumerate(labels))
    kept = few_of_each(
        numbered,
        per_class=per_class,
        seed=seed,
        class_of=lambda item: item[1],
        name_of=lambda item: str(item[0]),
    )
    return [index for index, _ in kept]


def unpacked(name: str, data: bytes, limit: int) -> bytes:
    """The content of a file that may be gzip; refuses one that grows past `limit`."""
    if not name.endswith(".gz"):
        return data
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        opened = file.read(limit + 1)
    if len(opened) > limit:
        raise BadInput(f"{name} unpacks to more than {limit} bytes")
    return opened


def repacked(name: str, data: bytes) -> bytes:
    """The reverse; without the time, so that the same cut gives the same file."""
    return gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def cifar_label_bytes(size: int, name: str) -> int | None:
    """How many label bytes a record has; None when the size is not of CIFAR binary."""
    if not name.endswith(".bin") or not size:
        return None
    # CIFAR-100 has a coarse and a fine label.
    for count in (1, 2):
        if size % (CIFAR_PIXELS + count) == 0:
            return count
    return None


def cut_cifar(data: bytes, label_bytes: int, per_class: int, seed: int) -> bytes:
    """A few records of each (fine) label."""
    step = CIFAR_PIXELS + label_bytes
    records = [data[start : start + step] for start in range(0, len(data), step)]
    kept = choose_labels([str(record[label_bytes - 1]) for record in records], per_class, seed)
    return b"".join(records[index] for index in kept)


def tfrecords(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each record: all its bytes, and its payload."""
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise BadInput("the TFRecord file ends inside a record")
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + 12 + length + 4
        if end > len(data):
            raise BadInput("the TFRecord file ends inside a record")
        yield data[at:end], data[at + 12 : at + 12 + length]
        at = end


def cut_tfrecord(data: bytes, per_class: int, seed: int) -> bytes:
    """A few records of each label; where no label can be read, a few records."""
    records = list(tfrecords(data))
    kept = choose_labels([_label(payload) for _, payload in records], per_class, seed)
    return b"".join(records[index][0] for index in kept)


def _label(payload: bytes) -> str:
    """The value of the feature called label (or class), in an Example; empty when there is none."""
    for name in (b"image/class/label", b"label", b"class", b"image/class/text"):
        mark = b"\x0a" + bytes([len(name)]) + name + b"\x12"
        at = payload.find(mark)
        if at >= 0:
            start = at + len(mark)
            # A feature is short when it is a label: its length is one byte.
            return payload[start + 1 : start + 1 + payload[start]].hex()
    return ""
