"""Which few to keep: the same ones for the same seed, whatever the order of the listing."""

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def rank(seed: int, name: str) -> bytes:
    """A place in line that depends on seed and name only."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest()


def few_of_each(
    items: Iterable[T],
    *,
    per_class: int,
    seed: int,
    class_of: Callable[[T], str],
    name_of: Callable[[T], str],
) -> list[T]:
    """At most `per_class` of each class, in the order in which they came."""
    listed = list(items)
    classes: dict[str, list[int]] = {}
    for index, item in enumerate(listed):
        classes.setdefault(class_of(item), []).append(index)
    kept: set[int] = set()
    for members in classes.values():
        members.sort(key=lambda index: rank(seed, name_of(listed[index])))
        kept.update(members[:per_class])
    return [listed[index] for index in sorted(kept)]
