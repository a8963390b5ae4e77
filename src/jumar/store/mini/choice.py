"""Which samples to keep: the same for the same seed, whatever the order of the listing."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
# More values than this, most of them used once, are texts or numbers.
_FEW_CLASSES = 200
_MOST_CLASSES = 100_000


@dataclass(frozen=True, slots=True)
class Wish:
    """How many of each class, and which."""

    per_class: int
    seed: int
    static: tuple[str, ...] = ()
    """Patterns of files that are kept whole, whatever their class."""


def rank(seed: int, name: str) -> bytes:
    """A sort key that depends only on seed and name."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest()


def few_of_each(
    items: Iterable[T],
    wish: Wish,
    *,
    classes_of: Callable[[T], Collection[str]],
    name_of: Callable[[T], str],
) -> list[T]:
    """At least `per_class` of each class, if there are that many, in their original order.

    An item of several classes counts for each of them; rare classes choose first, so that others
    need fewer of their own."""
    listed = list(items)
    members: dict[str, list[int]] = {}
    for index, item in enumerate(listed):
        for label in classes_of(item):
            members.setdefault(label, []).append(index)
    kept: set[int] = set()
    have: Counter[str] = Counter()
    for label in sorted(members, key=lambda label: (len(members[label]), label)):
        line = sorted(members[label], key=lambda index: rank(wish.seed, name_of(listed[index])))
        for index in line:
            if have[label] >= wish.per_class:
                break
            if index not in kept:
                kept.add(index)
                have.update(classes_of(listed[index]))
    return [listed[index] for index in sorted(kept)]


def few_by_label(labels: list[str], wish: Wish) -> list[int]:
    """Indices of a few records of each label."""
    numbered = enumerate(labels)
    kept = few_of_each(
        numbered, wish, classes_of=lambda item: (item[1],), name_of=lambda item: str(item[0])
    )
    return [index for index, _ in kept]


class Few:
    """Chooses among records that pass by once, and holds no more of them than may be kept.

    Where most values occur once, they are texts, not classes: then records are of one class. A few
    are believed all the same, unless what the label is was `guessed`."""

    def __init__(self, wish: Wish, *, guessed: bool = False) -> None:
        self._wish = wish
        self._most_rare = 0 if guessed else _FEW_CLASSES
        self._heaps: dict[str, list[tuple[int, int, frozenset[str]]]] = {}
        self._any: list[tuple[int, int, frozenset[str]]] = []
        self._count = 0
        self._has_classes = True

    def see(self, name: str, labels: Collection[str]) -> None:
        """The next record."""
        order = -int.from_bytes(rank(self._wish.seed, name)[:8], "big")
        item = (order, self._count, frozenset(labels))
        self._count += 1
        self._offer(self._any, item)
        if self._has_classes:
            for label in labels or ("",):
                self._offer(self._heaps.setdefault(label, []), item)
            if len(self._heaps) > _MOST_CLASSES and len(self._heaps) * 2 > self._count:
                self._has_classes = False
                self._heaps.clear()

    def _offer(
        self, heap: list[tuple[int, int, frozenset[str]]], item: tuple[int, int, frozenset[str]]
    ) -> None:
        if len(heap) < self._wish.per_class:
            heapq.heappush(heap, item)
        else:
            heapq.heappushpop(heap, item)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        named = self._heaps.keys() - {""}
        is_told = len(named) <= self._most_rare or len(named) * 2 <= self._count
        return len(named) if is_told else 0

    def chosen(self) -> list[int]:
        """The numbers of the records to keep, in their order."""
        if not self.classes:
            return sorted(number for _, number, _ in self._any)
        items = {item for heap in self._heaps.values() for item in heap}
        kept = few_of_each(
            sorted(items, key=lambda item: item[1]),
            self._wish,
            classes_of=lambda item: item[2] or {""},
            name_of=lambda item: str(-item[0]),
        )
        return [number for _, number, _ in kept]
