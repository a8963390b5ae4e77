"""Data sets as arrays: which of them hold the same samples, and what the classes are.

`x_train` goes with `y_train`, in one file (npz, HDF5, mat) or in files of their own (npy, HDF5). The
formats are in `npy.py`, `hdf5.py` and `matlab.py`."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jumar.store.mini.choice import Few, Wish
from jumar.store.mini.samples import folder_of, split_of
from jumar.store.mini.tree import Chosen, Uncuttable

_LABEL_WORDS = {
    *("y", "label", "labels", "target", "targets", "class", "classes", "category", "categories"),
    *("gt", "mask", "masks", "annotation", "annotations", "ys", "lbl"),
}
_SAMPLE_WORDS = {
    *("x", "image", "images", "img", "imgs", "data", "input", "inputs", "feature", "features"),
    *("sample", "samples", "points", "tokens", "text", "texts", "sequences", "signals", "xs"),
    *("observations", "actions", "rewards", "input_ids", "demo"),
}
_MOST_COLUMNS = 10_000
_WORD = re.compile(r"[a-z]+(?:_ids)?")


@dataclass(frozen=True)
class Member:
    """One array of a file."""

    file: str
    name: str
    shape: tuple[int, ...]
    is_whole_number: bool
    """Whether its values can be classes: whole numbers, texts, true and false."""
    values: Callable[[], Sequence[Any]]
    """All values in C order."""

    @property
    def words(self) -> set[str]:
        """The words of its name; an array without one has the name of its file."""
        own = self.name.rpartition("/")[2] or self.file.rpartition("/")[2]
        return set(_WORD.findall(own.lower()))

    @property
    def is_label(self) -> bool:
        """Whether it says what the others are."""
        return bool(self.words & _LABEL_WORDS)

    @property
    def team(self) -> str:
        """The same for arrays that belong together: all but the words for samples and labels."""
        said = f"{self.file.rpartition('/')[2]} {self.name}".lower()
        left = [w for w in _WORD.findall(said) if w not in _LABEL_WORDS | _SAMPLE_WORDS]
        return " ".join(sorted(set(left)))

    def axis_of(self, count: int) -> int | None:
        """Along which axis there are so many samples: the first, or MATLAB's last."""
        if self.shape[:1] == (count,):
            return 0
        return len(self.shape) - 1 if self.shape[-1:] == (count,) else None

    @property
    def count(self) -> int:
        """How many samples a label array has: `(N,)`, `(N, 1)` and `(1, N)` alike."""
        return max(self.shape) if math.prod(self.shape) == max(self.shape) else self.shape[0]

    def classes(self) -> list[set[str]]:
        """The classes of each sample; none of them if the values are no classes."""
        each = math.prod(self.shape) // self.count if self.count else 0
        if not self.is_whole_number or each > _MOST_COLUMNS or not each:
            return [set() for _ in range(self.count)]
        values = self.values()
        if each == 1:
            return [{str(value)} for value in values]
        rows = [values[at : at + each] for at in range(0, len(values), each)]
        if all(value in (0, 1) for row in rows for value in row):
            return [{str(at) for at, value in enumerate(row) if value} for row in rows]
        return [set() for _ in rows]


class ArrayFile(Protocol):
    """A file of arrays."""

    @property
    def kind(self) -> str:
        """The layout, in a word."""
        ...

    def members(self) -> list[Member]:
        """Its arrays; raises Uncuttable or BadInput if they cannot be read."""
        ...

    def cut(self, rows: dict[str, tuple[int, list[int]]]) -> bytes:
        """The file with these samples, along this axis, of each named array; others stay whole."""
        ...


Cuts = dict[str, dict[str, tuple[int, list[int]]]]
"""For each file and each of its arrays the axis, and the samples to keep."""


def cut_arrays(files: dict[str, ArrayFile], wish: Wish, chosen: Chosen) -> None:
    """Reduce the files: those with labels of their own, then those that have them beside."""
    members: dict[str, list[Member]] = {}
    for name, file in files.items():
        try:
            members[name] = [m for m in file.members() if m.shape and m.count]
        except Uncuttable as error:
            chosen.keep_whole(name, str(error))
    cuts: Cuts = defaultdict(dict)
    classes: dict[str, int] = defaultdict(int)
    teams = _cut_teams(members, wish, chosen, cuts, classes)
    made: dict[str, bytes] = {}
    for name in filter(cuts.get, members):
        try:
            made[name] = files[name].cut(cuts[name])
        except Uncuttable as error:
            chosen.keep_whole(name, str(error))
    _keep_whole_together(teams, chosen)
    for name in members.keys() - chosen.whole.keys():
        if name in made:
            chosen.make(files[name].kind, {name: made[name]}, classes[name])
        else:
            chosen.keep_whole(name, "no arrays of samples and labels were found in it")


def _cut_teams(
    members: dict[str, list[Member]],
    wish: Wish,
    chosen: Chosen,
    cuts: Cuts,
    classes: dict[str, int],
) -> list[set[str]]:
    """Says what to keep of each array; returns which files belong together."""
    teams: list[set[str]] = []
    for team in (*_own_teams(members), *_teams_beside(members), *_unlabelled(members)):
        # What an earlier team took is settled.
        if any(m.name in cuts[m.file] for m in team):
            continue
        try:
            _cut_team(team, wish, cuts, classes)
        except Uncuttable as error:
            chosen.keep_whole(team[0].file, str(error))
        teams.append({m.file for m in team})
    return teams


def _keep_whole_together(teams: list[set[str]], chosen: Chosen) -> None:
    """Labels of a file that stays whole stay whole, too; and so on."""
    is_settled = False
    while not is_settled:
        is_settled = True
        for team in teams:
            spoiled = sorted(team & chosen.whole.keys())
            for name in team - chosen.whole.keys() if spoiled else ():
                chosen.keep_whole(name, f"it belongs to {spoiled[0]}, which cannot be reduced")
                is_settled = False


def _cut_team(
    team: list[Member],
    wish: Wish,
    cuts: Cuts,
    classes: dict[str, int],
) -> None:
    label = next((m for m in team if m.is_label and m.is_whole_number), team[0])
    few = Few(wish)
    told = label.classes() if label.is_label else [set[str]()] * label.count
    for number, found in enumerate(told):
        few.see(str(number), found)
    kept = few.chosen()
    for member in team:
        axis = member.axis_of(label.count)
        if axis is not None:
            cuts[member.file][member.name] = (axis, kept)
            classes[member.file] = max(classes[member.file], few.classes)


def _own_teams(members: dict[str, list[Member]]) -> Iterator[list[Member]]:
    """Labels with the arrays of as many samples in the same file and the same part of it."""
    for own in members.values():
        for label in filter(_may_lead, own):
            team = [m for m in own if _are_together(label, m)]
            if len(team) > 1:
                yield team


def _may_lead(member: Member) -> bool:
    return member.is_label and member.count > 1


def _are_together(label: Member, other: Member) -> bool:
    is_same_part = split_of(_spaced(label.name)) == split_of(_spaced(other.name)) and (
        label.name.rpartition("/")[0] == other.name.rpartition("/")[0]
    )
    return is_same_part and other.axis_of(label.count) is not None


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _teams_beside(members: dict[str, list[Member]]) -> Iterator[list[Member]]:
    """Labels in a file of their own, with the samples in another."""
    everything = [m for own in members.values() for m in own]
    for label in filter(_may_lead, everything):
        beside = [
            m
            for m in everything
            if m.file != label.file
            and (folder_of(m.file), m.team) == (folder_of(label.file), label.team)
            and m.axis_of(label.count) is not None
        ]
        if beside:
            yield [label, *beside]


def _unlabelled(members: dict[str, list[Member]]) -> Iterator[list[Member]]:
    """Samples that nothing is said about."""
    for own in members.values():
        for member in own:
            if member.words & _SAMPLE_WORDS and member.shape[0] > 1:
                yield [m for m in own if m.shape[0] == member.shape[0]]
