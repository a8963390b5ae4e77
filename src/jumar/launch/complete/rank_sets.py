"""Which files of a folder are one checkpoint in parts, one of each rank: `rank0.pt` and `rank1.pt`, told by
their names alone. `epoch_1.pt` and `epoch_2.pt` are two checkpoints."""

import re
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from . import search

_RANK = re.compile(r"rank[-_=.]?$", re.IGNORECASE)
_OF = re.compile(r"[-_]of[-_](\d+)", re.IGNORECASE)
_SERIES = re.compile(
    r"(?:epoch|step|iter|iteration|checkpoint|ckpt|(?:^|[^a-z])(?:ep|it))s?[-_=./ ]*$",
    re.IGNORECASE,
)


class RankSet(NamedTuple):
    """Files that are saved together; `key`: their names, with `*` where their numbers are."""

    key: str
    names: Tuple[str, ...]
    is_all: bool
    """Not where a name says that there are more."""
    is_named_so: bool
    """After ranks. Of others, overwriting alone tells them from a series."""


def split(
    names: Iterable[str], worlds: FrozenSet[int] = frozenset()
) -> Tuple[List[str], List[RankSet]]:
    """Those that no others are versions of, and those that are parts of one; the rest are versions of each other.
    `worlds`: how many ranks the job may have."""
    families: Dict[str, List[str]] = {}
    for name in names:
        families.setdefault(search.family_of(name), []).append(name)
    alone = [members[0] for members in families.values() if len(members) == 1]
    found = (_set_of(members, worlds) for members in families.values() if len(members) > 1)
    return alone, [one for one in found if one is not None]


def is_of(name: str, key: str) -> bool:
    """Whether a file is, or would be, a part of the set of that key."""
    before, _, after = key.partition("*")
    return _between(name, before, after) is not None


def _set_of(names: List[str], worlds: FrozenSet[int]) -> Optional[RankSet]:
    cut = _differing(names[0], names[1])
    if cut is None:
        return None
    before, after = cut
    rank, of = _RANK.search(before), _OF.match(after)
    # First what takes no look at all of them: there may be thousands.
    if _SERIES.search(before) or not (rank or of or len(names) in worlds):
        return None
    by_number: Dict[int, str] = {}
    for name in names:
        number = _between(name, before, after)
        if number is None or number in by_number:
            return None
        by_number[number] = name
    numbers = sorted(by_number)
    count = int(of[1][:9]) if of else len(numbers)
    if not (rank and not of) and not _runs_over(numbers, count):
        return None
    members = tuple(by_number[number] for number in numbers)
    # A star of the job's own would be taken for the number's place.
    if "*" in before or "*" in after:
        return None
    return RankSet(f"{before}*{after}", members, len(members) == count, rank is not None)


def _runs_over(numbers: List[int], count: int) -> bool:
    """Whether they are of `count` ranks, all or some."""
    first = numbers[0]
    return numbers[-1] < count or (first > 0 and numbers[-1] == count)


def _differing(one: str, other: str) -> Optional[Tuple[str, str]]:
    """What stands before and after the only number in which two names of a family differ."""
    ours, theirs = re.split(r"(\d+)", one), re.split(r"(\d+)", other)
    places = [place for place in range(1, len(ours), 2) if ours[place] != theirs[place]]
    if len(places) != 1:
        return None
    return "".join(ours[: places[0]]), "".join(ours[places[0] + 1 :])


def _between(name: str, before: str, after: str) -> Optional[int]:
    if not name.startswith(before) or not name.endswith(after):
        return None
    number = name[len(before) : len(name) - len(after)]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
