"""HDF5, by h5py: arrays with the same number of samples, or a group for each sample."""

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jumar.store.mini.arrays import Member
from jumar.store.mini.tree import Tree, Uncuttable, library

_BLOCK_ROWS = 1024
_FEW_GROUPS = 8
"""Fewer groups are parts of a data set, more are its samples."""


@dataclass(frozen=True)
class Hdf5:
    """One file; one of MATLAB 7.3 is of this kind too."""

    tree: Tree
    name: str
    kind: str = "hdf5"

    @contextmanager
    def _open(self) -> Generator[Any]:
        h5py = library("h5py", self.name)
        try:
            with self.tree.open(self.name) as file, h5py.File(file, "r") as opened:
                yield opened
        except (OSError, RuntimeError, LookupError, ValueError, TypeError, MemoryError) as error:
            raise Uncuttable(f"not an HDF5 file, or damaged: {error}") from error

    def members(self) -> list[Member]:
        """All arrays, and groups whose children are the samples."""
        with self._open() as opened:
            found = list(self._below(opened, "", library("h5py", self.name)))
        return found

    def _below(self, group: Any, path: str, h5py: Any) -> Iterator[Member]:
        samples = _sample_groups(group, h5py)
        if samples:
            yield Member(self.name, f"{path}/sample groups", (len(samples),), False, list)
            return
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise Uncuttable("parts of it are in other files")
            item = group[name]
            here = f"{path}/{name}".lstrip("/")
            if isinstance(item, h5py.Group):
                yield from self._below(item, here, h5py)
                continue
            if item.dtype.hasobject and h5py.check_string_dtype(item.dtype) is None:
                raise Uncuttable("it has references or arrays of varying length")
            can_be = item.dtype.kind in "iubSO"
            yield Member(
                *(self.name, here, tuple(item.shape), can_be), lambda here=here: self._values(here)
            )

    def _values(self, path: str) -> list[Any]:
        with self._open() as opened:
            values = opened[path][()].reshape(-1).tolist()
        return [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]

    def cut(self, rows: dict[str, tuple[int, list[int]]]) -> bytes:
        """The file with these samples; attributes and what is no sample stay."""
        h5py, out = library("h5py", self.name), io.BytesIO()
        with self._open() as opened, h5py.File(out, "w") as made:
            _copy_below(opened, made, "", rows, h5py)
        return out.getvalue()


def _sample_groups(group: Any, h5py: Any) -> list[str]:
    names = list(group)
    is_samples = len(names) >= _FEW_GROUPS and all(
        isinstance(group.get(name, getclass=True), type)
        and group.get(name, getclass=True) is h5py.Group
        for name in names
    )
    return names if is_samples else []


def _copy_below(
    group: Any, made: Any, path: str, rows: dict[str, tuple[int, list[int]]], h5py: Any
) -> None:
    made.attrs.update(group.attrs)
    wanted = rows.get(f"{path}/sample groups")
    if wanted is not None:
        names = list(group)
        for at in wanted[1]:
            group.copy(names[at], made)
        return
    for name in group:
        here = f"{path}/{name}".lstrip("/")
        item = group[name]
        if isinstance(item, h5py.Group):
            _copy_below(item, made.create_group(name), here, rows, h5py)
        elif here in rows:
            _copy_rows(item, made, name, *rows[here])
        else:
            group.copy(name, made)


def _copy_rows(item: Any, made: Any, name: str, axis: int, rows: list[int]) -> None:
    shape = (*item.shape[:axis], len(rows), *item.shape[axis + 1 :])
    is_chunked = item.chunks is not None and len(rows) > 0
    new = made.create_dataset(
        name,
        shape,
        item.dtype,
        chunks=True if is_chunked else None,
        compression=item.compression if is_chunked else None,
        compression_opts=item.compression_opts if is_chunked else None,
    )
    new.attrs.update(item.attrs)
    before = (slice(None),) * axis
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        new[(*before, slice(start, start + len(block)))] = item[(*before, block)]
