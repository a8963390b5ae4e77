"""Which samples to keep: the same for the same seed, whatever the order of the listing."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


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
