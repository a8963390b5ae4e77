"""Megatron's tokens: `.bin` with the tokens, `.idx` with where sequences and documents begin.

A record is a document: its sequences stay together."""

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from jumar.errors import BadInput
from jumar.store.mini.tree import Tree, Uncuttable

_MAGIC = b"MMIDIDX\x00\x00"
_OLD_MAGIC = b"TNTIDX\x00\x00"
_HEAD = struct.Struct("<9sQBQQ")
_TOKEN_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}


@dataclass(frozen=True)
class _Index:
    """Lengths and places of sequences, and the first sequence of each document and one more."""

    dtype: int
    sizes: "array[int]"
    starts: "array[int]"
    documents: "array[int]"
    modes: bytes
    """One byte per sequence in multimodal data; else nothing."""


@dataclass(frozen=True)
class Tokens:
    """Both files."""

    tree: Tree
    stem: str
    kind = "megatron"

    @property
    def names(self) -> frozenset[str]:
        """Tokens and index."""
        return frozenset({f"{self.stem}.bin", f"{self.stem}.idx"})

    @cached_property
    def _index(self) -> _Index:
        data = self.tree.read(f"{self.stem}.idx")
        if len(data) < _HEAD.size:
            raise BadInput("the index ends inside its header")
        _, version, dtype, sequences, documents = _HEAD.unpack_from(data)
        if version != 1 or dtype not in _TOKEN_BYTES:
            raise Uncuttable(f"an index of version {version} with tokens of type {dtype}")
        at = _HEAD.size
        if len(data) < at + 12 * sequences + 8 * documents:
            raise BadInput("the index is shorter than its header says")
        found: list[array[int]] = []
        kinds: tuple[tuple[Literal["i", "q"], int], ...] = (
            *(("i", sequences), ("q", sequences)),
            ("q", documents),
        )
        for kind, count in kinds:
            numbers: array[int] = array(kind)
            end = at + count * numbers.itemsize
            numbers.frombytes(data[at:end])
            if sys.byteorder == "big":
                numbers.byteswap()
            found.append(numbers)
            at = end
        index = _Index(dtype, *found, modes=data[at : at + sequences])
        self._check(index)
        return index

    def _check(self, index: _Index) -> None:
        size, step = self.tree.size(f"{self.stem}.bin"), _TOKEN_BYTES[index.dtype]
        is_inside = all(
            count >= 0 and 0 <= start <= size - count * step
            for count, start in zip(index.sizes, index.starts, strict=True)
        )
        bounds = list(index.documents)
        is_rising = bounds == sorted(bounds) and all(0 <= b <= len(index.sizes) for b in bounds)
        if not is_inside or not is_rising:
            raise BadInput("the index does not match the tokens")

    def labels(self) -> Iterator[tuple[()]]:
        """Documents have no classes."""
        return iter([()] * max(0, len(self._index.documents) - 1))

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """These documents."""
        index, step = self._index, _TOKEN_BYTES[self._index.dtype]
        tokens, modes = bytearray(), bytearray()
        sizes, starts, documents = array("i"), array("q"), array("q", [0])
        for row in rows:
            for at in range(index.documents[row], index.documents[row + 1]):
                starts.append(len(tokens))
                sizes.append(index.sizes[at])
                tokens += self.tree.read_range(
                    f"{self.stem}.bin", index.starts[at], index.sizes[at] * step
                )
                modes += index.modes[at : at + 1]
            documents.append(len(sizes))
        made = _HEAD.pack(_MAGIC, 1, index.dtype, len(sizes), len(documents))
        for numbers in (sizes, starts, documents):
            if sys.byteorder == "big":
                numbers.byteswap()
            made += numbers.tobytes()
        return {f"{self.stem}.bin": bytes(tokens), f"{self.stem}.idx": made + bytes(modes)}


def open_tokens(tree: Tree, name: str, left: set[str]) -> Tokens | None:
    """A pair of `.bin` and `.idx`."""
    stem, dot, ending = name.rpartition(".")
    index = f"{stem}.idx"
    if not dot or ending != "bin" or index not in left:
        return None
    head = tree.head(index, len(_MAGIC))
    if head.startswith(_OLD_MAGIC):
        raise Uncuttable("tokens in Megatron's form of before 2020")
    return Tokens(tree, stem) if head == _MAGIC else None
