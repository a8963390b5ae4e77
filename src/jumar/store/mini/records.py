"""Files that are sequences of records, alone or in shards: a few records of each class are kept.

A format says what the classes of its records are and what a file with only some of them is; what is
chosen is chosen over all shards, in one pass, and written in a second one."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from jumar.errors import BadInput
from jumar.store.mini.choice import Few, Wish
from jumar.store.mini.tree import Chosen, Tree, Uncuttable

_NUMBER = re.compile(r"\d{2,}|(?<=[-_.])\d+(?=[-_.])")


class RecordFile(Protocol):
    """A file of records. Both calls may raise Uncuttable, and BadInput if it is damaged."""

    @property
    def kind(self) -> str:
        """The layout, in a word."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The file, and those that belong to it: an index."""
        ...

    def labels(self) -> Iterator[Collection[str]]:
        """The classes of each record."""
        ...

    def cut(self, rows: list[int]) -> dict[str, bytes]:
        """The files with only these records."""
        ...


Opener = Callable[[Tree, str, set[str]], RecordFile | None]
"""Opens a file of a tree, given all names that are left; None if it is of another format."""


def shard_group(name: str) -> str:
    """The name that the shards of one data set share."""
    return _NUMBER.sub("#", name)


def cut_records(
    tree: Tree, left: set[str], wish: Wish, chosen: Chosen, openers: tuple[Opener, ...]
) -> set[str]:
    """Reduce all files that one of the openers knows; returns what was dealt with."""
    groups: dict[tuple[str, str], dict[str, RecordFile]] = defaultdict(dict)
    done: set[str] = set()
    for name in sorted(left):
        if name in done:
            continue
        for opener in openers:
            file = _opened(tree, name, left - done, chosen, opener)
            if file is not None:
                groups[file.kind, shard_group(name)][name] = file
                done |= file.names
                break
    for (kind, _), shards in groups.items():
        _cut_group(kind, shards, wish, chosen)
    return done | chosen.whole.keys() & left


def _opened(
    tree: Tree, name: str, left: set[str], chosen: Chosen, opener: Opener
) -> RecordFile | None:
    try:
        return opener(tree, name, left)
    except Uncuttable as error:
        chosen.keep_whole(name, str(error))
        return None


def _cut_group(kind: str, shards: dict[str, RecordFile], wish: Wish, chosen: Chosen) -> None:
    few = Few(wish)
    starts: dict[str, int] = {}
    seen, name = 0, ""
    try:
        for name, shard in shards.items():
            starts[name] = seen
            for number, labels in enumerate(shard.labels()):
                few.see(f"{name}#{number}", labels)
                seen += 1
        wanted = few.chosen()
        made: dict[str, bytes] = {}
        for name, shard in shards.items():
            end = min((start for start in starts.values() if start > starts[name]), default=seen)
            rows = [row - starts[name] for row in wanted if starts[name] <= row < end]
            # A file without records stays one, if it is all there is.
            if rows or not wanted:
                made |= shard.cut(rows)
    except Uncuttable as error:
        for shard in shards.values():
            for name in shard.names:
                chosen.keep_whole(name, str(error))
        return
    except BadInput as error:
        raise BadInput(f"{name}: {error}", hint=error.hint) from error
    chosen.make(kind, made, few.classes)
