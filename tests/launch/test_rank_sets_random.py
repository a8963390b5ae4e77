"""Ranks that save, tear and die at random times while versions are kept: the next start finds one whole save."""

import os
import pickle
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.launch.complete import Place, Versions

_SAVES = 12
_LONGEST_LAG_S = 0.1
"""All ranks save within it; the pauses between saves are from 1 s to 3 s."""


class World:
    """Ranks whose writes happen at times of our own, also while whoever keeps versions reads and copies."""

    def __init__(self, folder: Path, ranks: int, *, renames: bool) -> None:
        self.saved, self.kept, self.ranks, self.renames = (
            folder / "ckpt",
            folder / "kept",
            ranks,
            renames,
        )
        self.saved.mkdir()
        self.now = 1e9
        self.lag_s = _LONGEST_LAG_S
        self.ahead_s = 0.0
        """So far ahead is the clock of whoever writes for the last rank."""
        self.copy_s = 0.0
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self.saved_by = [0] * ranks
        self._open: dict[int, BinaryIO] = {}

    def advance(self, to: float) -> None:
        self._events.sort(key=lambda event: event[:2])
        while self._events and self._events[0][0] <= to:
            at, _, _, act = self._events.pop(0)
            self.now = max(at, self.now)
            act()
        self.now = max(to, self.now)

    def path(self, rank: int) -> Path:
        return self.saved / f"rank{rank}.pkl"

    def will_save(self, rank: int, number: int, at: float, takes_s: float) -> None:
        self._events.append((at, rank, number, lambda: self._begin(rank, number)))
        self._events.append((at + takes_s, rank, number, lambda: self._end(rank, number)))

    def _begin(self, rank: int, number: int) -> None:
        path = self.path(rank)
        path = path.with_name(f".{path.name}") if self.renames else path
        file = self._open[rank] = path.open("wb")
        data = pickle.dumps((number, rank, bytes(99)))
        file.write(data[: len(data) // 2])
        file.flush()
        self._date(path, rank)

    def _end(self, rank: int, number: int) -> None:
        data = pickle.dumps((number, rank, bytes(99)))
        with self._open.pop(rank) as file:
            file.write(data[len(data) // 2 :])
        aside = Path(file.name)
        self._date(aside, rank)
        aside.replace(self.path(rank))
        self.saved_by[rank] = number

    def _date(self, path: Path, rank: int) -> None:
        at = self.now + (self.ahead_s if rank == self.ranks - 1 else 0.0)
        os.utime(path, (at, at))

    def kill(self, *ranks: int) -> None:
        self._events = [event for event in self._events if event[1] not in ranks]
        for rank in ranks:
            if rank in self._open:
                self._open.pop(rank).close()
            # The others wait for it before they save once more.
            last = self.saved_by[rank] + 1
            self._events = [event for event in self._events if event[2] <= last]

    def fsync(self, _: int) -> None:
        self.advance(self.now + self.copy_s)

    def there(self) -> list[int]:
        loaded = [pickle.loads(self.path(rank).read_bytes()) for rank in range(self.ranks)]
        assert [rank for _, rank, _ in loaded] == list(range(self.ranks))
        return [number for number, _, _ in loaded]


def _kept_number(paths: list[str]) -> int:
    numbers = {pickle.loads(Path(path).read_bytes())[0] for path in paths}
    assert len(numbers) == 1, f"a version of saves {numbers}"
    return numbers.pop()


class Segment:
    """From a start to the next."""

    def __init__(self, world: World, chosen: random.Random) -> None:
        self.world, self.chosen = world, chosen
        self.versions = Versions(Place(str(world.saved), str(world.kept)))
        self.best = -1
        self.saves = 0

    def draw(self, least: float, most: float) -> float:
        return self.chosen.uniform(least, most)

    def run(self, first: int) -> None:
        at = self.world.now + self.draw(1, 30)
        self.world.saved_by = [first - 1] * self.world.ranks
        began, starts = at, list[float]()
        lag_s = self.world.lag_s
        for number in range(first, first + _SAVES):
            for rank in range(self.world.ranks):
                self.world.will_save(
                    rank, number, at + self.draw(0, lag_s / 2), self.draw(0.001, 0.05)
                )
            starts.append(at)
            at += self.draw(1, 3)
        end = began + self.draw(0, at - began)
        self.saves = sum(start + 1 <= end for start in starts)
        self.look(end)
        dead = self.chosen.randint(0, self.world.ranks)
        if dead < self.world.ranks:
            self.world.kill(dead)
            # The others save once more at most, then wait for it.
            self.look(end + 3)
            self.world.kill(*range(self.world.ranks))
            self.look(self.world.now + self.draw(0, 30))
        self.world.kill(*range(self.world.ranks))
        if self.chosen.random() < 0.5:
            self.keep(0.0)

    def look(self, until: float) -> None:
        while self.world.now < until:
            self.keep(2.0)
            wait_s = 0.1 if self.versions.is_unsettled else 0.5
            self.world.advance(min(until, self.world.now + wait_s))

    def keep(self, still_s: float) -> None:
        paths = self.versions.keep(still_s)
        # Fewer files are of the time when not all ranks had saved.
        if len(paths) == self.world.ranks:
            self.best = _kept_number(paths)


@given(st.integers(0, 1 << 30), st.integers(2, 3), st.booleans(), st.sampled_from([0.0, 0.2]))
@settings(deadline=None, max_examples=50)
def test_the_next_start_finds_one_whole_save_and_none_older_than_the_last_kept_one(
    seed: int, ranks: int, renames: bool, copy_s: float
) -> None:
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), ranks, renames=renames)
        patch.setattr(time, "monotonic", lambda: world.now)
        patch.setattr(time, "time", lambda: world.now)
        patch.setattr(os, "fsync", world.fsync)
        kept, first = -1, 1
        for _ in range(chosen.randint(1, 3)):
            world.copy_s = copy_s
            segment = Segment(world, chosen)
            segment.run(first)
            kept = max(kept, segment.best)
            if copy_s == 0 and segment.saves > 2:
                assert segment.best >= segment.saves - 2 + first - 1, "hardly anything was kept"
            world.copy_s = 0.0
            Versions(Place(str(world.saved), str(world.kept))).restore()
            if kept < 0:
                return
            numbers = world.there()
            assert len(set(numbers)) == 1, numbers
            assert numbers[0] >= kept
            kept, first = -1, numbers[0] + 1


@given(
    st.integers(0, 1 << 30),
    st.integers(2, 3),
    st.sampled_from([0.1, 0.6]),
    st.sampled_from([0.0, 0.1]),
)
@settings(deadline=None, max_examples=50)
def test_a_whole_save_is_never_replaced_however_its_ranks_lag(
    seed: int, ranks: int, lag_s: float, ahead_s: float
) -> None:
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), ranks, renames=chosen.random() < 0.5)
        world.lag_s, world.ahead_s = lag_s, ahead_s
        patch.setattr(time, "monotonic", lambda: world.now)
        patch.setattr(time, "time", lambda: world.now)
        patch.setattr(os, "fsync", world.fsync)
        first = 1
        for _ in range(chosen.randint(2, 5)):
            world.copy_s = chosen.choice([0.0, 0.2])
            Segment(world, chosen).run(first)
            world.copy_s = 0.0
            try:
                before = world.there()
            except (pickle.UnpicklingError, EOFError, OSError):
                before = []
            put = Versions(Place(str(world.saved), str(world.kept))).restore()
            assert not put or len(set(before)) != 1, (before, world.there())
            try:
                first = max(world.there()) + 1
            except (pickle.UnpicklingError, EOFError, OSError):
                return
