"""What torch.save writes: a zip archive, before 1.6 five pickles and then the bytes of the storages."""

import io
import re
from typing import Any, BinaryIO, Dict, List, Tuple, cast

from . import archive, pickled
from .verdict import Torn, Unclear, size_of

OLD_MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")
_MOST_OF_PICKLE = 256 << 20
_ITEM_BYTES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1,
    "Byte": 1, "Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8, "Untyped": 1,
}  # fmt: skip
_KIND = re.compile(r"(?:^|\.)(\w+?)Storage$")


def is_old(start: bytes) -> bool:
    """Whether a file that begins so is of the older form."""
    return start.startswith(OLD_MAGIC)


def check_old(file: BinaryIO) -> None:
    """The storages end exactly where the file does."""
    sizes: Dict[str, int] = {}

    def note(found: pickled.Persistent) -> None:
        if not isinstance(found.values, tuple):
            return
        values = cast("Tuple[Any, ...]", found.values)
        if len(values) < 5 or values[0] != "storage":
            return
        kind = _KIND.search(values[1]) if isinstance(values[1], str) else None
        if kind is None or kind[1] not in _ITEM_BYTES or not isinstance(values[4], int):
            raise Unclear("it holds storages of a kind that is not known")
        if isinstance(values[2], str):
            sizes[values[2]] = values[4] * _ITEM_BYTES[kind[1]]

    for _ in range(4):
        pickled.evaluate(file, note)
    keys = pickled.evaluate(file)
    if not isinstance(keys, list):
        raise Torn("the list of its storages is not one")
    end = file.tell() + sum(
        8 + sizes.get(key, 0) for key in cast("List[Any]", keys) if isinstance(key, str)
    )
    if end != size_of(file):
        raise Torn(f"it has {size_of(file)} bytes instead of {end}")


def value(file: BinaryIO) -> Any:
    """What a complete archive of torch.save holds, without its tensors."""
    found = archive.members(file)
    for name, member in found.items():
        if name == "data.pkl" or name.endswith("/data.pkl"):
            return pickled.evaluate(io.BytesIO(archive.content(file, member, _MOST_OF_PICKLE)))
    raise Unclear("it was not written by torch.save")
