"""A checkpoint that is one file: its format is told by its first bytes, not by its name."""

import os
import re
from typing import BinaryIO, List, NamedTuple

from . import archive, mindspore, pickled, safetensors, torch_file
from .verdict import Torn, Unclear, exactly, opened, size_of

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".npz", ".safetensors", ".pkl", ".pickle", ".tar")


_ANYTHING = (".bin", ".tar")
_SAVED = re.compile(r"model|optim|sched|training_args|state|ckpt|checkpoint|weights", re.IGNORECASE)
"""Words in the names of checkpoints. A table of numbers that is kept in a file may begin with zeros, or be empty."""


class Content(NamedTuple):
    """What a complete file is; `names` where only a comparison shows that some are missing."""

    kind: str
    names: List[str]


def check(path: str) -> Content:
    """Torn and Unclear are raised."""
    with opened(path) as file:
        size = size_of(file)
        if size == 0:
            raise Torn("it is empty") if _is_named_so(path) else Unclear("it is empty")
        start = exactly(file, min(size, 64))
        file.seek(0)
        return _checked(file, start, path)


def _is_named_so(path: str) -> bool:
    """As checkpoints are, so that what has no beginning is not just something else."""
    name = os.path.basename(path)
    if name.endswith(_ANYTHING) and not _SAVED.search(name):
        return False
    return os.path.splitext(name)[1].lower() in SUFFIXES


def _checked(file: BinaryIO, start: bytes, path: str) -> Content:
    suffix = os.path.splitext(path)[1].lower()
    if start.startswith(archive.MAGIC):
        archive.members(file)
        return Content("zip", [])
    if torch_file.is_old(start):
        torch_file.check_old(file)
        return Content("torch before 1.6", [])
    if pickled.looks_pickled(start):
        pickled.walk_all(file)
        return Content("pickle", [])
    if suffix == ".safetensors":
        safetensors.check(file)
        return Content("safetensors", [])
    if suffix == ".ckpt" and mindspore.looks_so(file):
        return Content("mindspore", mindspore.names(file))
    if _is_named_so(path) and (_cut_short(start) or not any(start[:8])):
        raise Torn("it has no beginning")
    raise Unclear("its format is not known")


def _cut_short(start: bytes) -> bool:
    """Whether only the first bytes of a known format were written."""
    return any(
        len(start) < len(magic) and magic.startswith(start)
        for magic in (archive.MAGIC, torch_file.OLD_MAGIC)
    )
