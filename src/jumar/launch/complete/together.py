"""Versions of checkpoints in parts, `rank0.pt` and `rank1.pt`, that are overwritten: all of one save, or none."""

import os
import time
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from . import copies, search
from .copies import Dated, State, dated
from .patience import STILL_S, Patience
from .rank_sets import RankSet
from .saves import Saves, States
from .store import SetVersion, Store

_KEPT = 2
_SOON_S = 1.0
"""So long after a save it is looked at often, to learn how long the pauses are."""
_SHORTER = 0.8
"""What is less than so much of what was known is worth being written down."""


class Together:
    """Of the sets in one place."""

    def __init__(
        self,
        source: str,
        store: Store,
        patience: Patience,
        worlds: FrozenSet[int] = frozenset(),
    ) -> None:
        self._source, self._worlds = source, tuple(sorted(worlds))
        self._store, self._patience = store, patience
        self._saves: Dict[Tuple[str, ...], Saves] = {}
        self._kept: Optional[Dict[str, List[SetVersion]]] = None
        self._parts: Dict[str, Tuple[FrozenSet[str], ...]] = {}
        self.is_unsettled = False

    def look(self, one: RankSet, still_s: float) -> List[str]:
        """The paths of a new version, if the set was saved and is not yet kept."""
        states = self._states(one.names)
        if states is None:
            return []
        # Of all, not until one is: each has to be seen to know when it changes.
        if any(list(map(self._patience.is_old, one.names, states))):
            return []
        watched = self._saves_of(one)
        if states != watched.now:
            self._drop_overwritten(one.key)
        watched.look(states, time.monotonic())
        last = self._last(one.key)
        if last is not None and last.names == one.names:
            self._learn(watched, last)
            last = self._last(one.key)
        made = [] if watched.is_judged else self._judged(one, watched, states, last, still_s)
        self.is_unsettled = self.is_unsettled or watched.rest_s < _SOON_S
        return made

    def _judged(
        self,
        one: RankSet,
        watched: Saves,
        states: States,
        last: Optional[SetVersion],
        still_s: float,
    ) -> List[str]:
        """The paths of a new version, if what is there is of one save; more looks may be needed to know."""
        if not watched.has_rested:
            if (watched.is_first or watched.rest_s >= _SOON_S) and self._are_still(
                one, states, STILL_S
            ):
                watched.glimpse()
        elif not self._are_still(one, states, still_s):
            self.is_unsettled = True
        elif self._is_to_be_kept(one, watched, last):
            watched.count()
            if self._patience.is_due(search.family_of(one.key), still_s):
                return self._keep(one, watched, states, last)
            if last is not None and last.names == one.names:
                self._note(last._replace(seen=_seen(states)))
        return []

    def _states(self, names: Sequence[str]) -> Optional[States]:
        found: List[State] = []
        for name in names:
            state = copies.state(os.path.join(self._source, name))
            if state is None:
                return None
            found.append(state)
        return tuple(found)

    def _saves_of(self, one: RankSet) -> Saves:
        if one.names not in self._saves:
            # Those of other epochs are over.
            for names in [names for names in self._saves if _is_of_one(names, one.names)]:
                del self._saves[names]
            last = self._last(one.key)
            is_known = last is not None and last.names == one.names
            self._saves[one.names] = Saves(last.pause_s if last and is_known else None)
        return self._saves[one.names]

    def _last(self, key: str) -> Optional[SetVersion]:
        versions = [version for version in self._versions(key) if version.key == key]
        return versions[-1] if versions else None

    def _versions(self, key: str) -> List[SetVersion]:
        """Those of all epochs."""
        if self._kept is None:
            self._kept = self._store.sets()
        return self._kept.get(search.family_of(key), [])

    def _drop_overwritten(self, key: str) -> None:
        """Versions that were but second names of files into which the script then wrote."""
        for version in [one for one in self._versions(key) if not one.is_as_kept]:
            self._versions(key).remove(version)
            self._store.remove_set(version.folder)

    def _learn(self, watched: Saves, last: SetVersion) -> None:
        """What nobody knew when it was kept: how long the first save lasts, that pauses are shorter by now, or that
        some of its files are saved again and again while others are not."""
        known, pause_s = last.pause_s, watched.pause_s
        is_longer = watched.is_longer and pause_s > 2 * known
        is_shorter = not watched.is_first and pause_s < _SHORTER * known
        if is_longer or is_shorter:
            last = self._note(last._replace(pause_s=pause_s))
        if watched.is_loose:
            self._note(last._replace(is_loose=True))

    def _note(self, last: SetVersion) -> SetVersion:
        """Of the last version, which is a known one."""
        versions = self._versions(last.key)
        for place, known in enumerate(versions):
            if known.folder == last.folder and known != last:
                versions[place] = last
                self._store.note(last)
        return last

    def _are_still(self, one: RankSet, states: States, still_s: float) -> bool:
        return all(
            self._patience.is_still(name, os.path.join(self._source, name), state, still_s)
            for name, state in zip(one.names, states)
        )

    def _is_to_be_kept(self, one: RankSet, watched: Saves, last: Optional[SetVersion]) -> bool:
        """Whether it is of one save, all of it newer than the last version, and of a kind that is overwritten."""
        news = self._news(one.names, last)
        if not any(news):
            watched.judge(is_one=True)
            return False
        is_anew = watched.is_anew and all(news)
        is_overwritten = watched.before is not None or last is not None or one.is_named_so
        if is_anew and is_overwritten and one.is_all and watched.is_close:
            return True
        watched.judge(is_one=is_anew)
        return False

    def _news(self, names: Sequence[str], version: Optional[SetVersion]) -> List[bool]:
        """Of each file, whether it is another one than in the version."""
        return [
            version is None
            or name not in version.names
            or dated(os.path.join(self._source, name)) != dated(os.path.join(version.folder, name))
            for name in names
        ]

    def _keep(
        self, one: RankSet, watched: Saves, states: States, last: Optional[SetVersion]
    ) -> List[str]:
        began = time.monotonic()
        try:
            version = self._taken_over(one, watched, states, last)
        finally:
            self._patience.took(search.family_of(one.key), began)
        watched.judge(is_one=True)
        if version is None:
            return []
        kept = self._kept = self._store.sets()
        for old in kept[version.family][:-_KEPT]:
            self._store.remove_set(old.folder)
            self._parts.pop(old.folder, None)
        kept[version.family] = kept[version.family][-_KEPT:]
        singles = self._store.singles().get(search.family_of(one.names[0]), ())
        for single in [single for single in singles if single.name in one.names]:
            # Of the time when no other rank had saved: it fits no other's file.
            self._store.remove_single(single)
        return [os.path.join(version.folder, name) for name in version.names]

    def _taken_over(
        self, one: RankSet, watched: Saves, states: States, last: Optional[SetVersion]
    ) -> Optional[SetVersion]:
        paths = [os.path.join(self._source, name) for name in one.names]
        parts = _parts(paths)
        if parts is None or self._has_lost_parts(one, parts, last):
            return None
        before: Sequence[Optional[State]] = watched.before or [None] * len(states)
        folder, left = self._store.begin(), sum(state.size for state in states)
        try:
            # The next save may need as much again.
            room = 2 * left
            for name, path, state, was in zip(one.names, paths, states, before):
                makes_new_ones = was is not None and was.inode != state.inode
                to = os.path.join(folder, name)
                if not copies.taken_over(
                    path, self._source, to, state, may_link=makes_new_ones, room=room
                ):
                    return None
                room -= state.size
            made = SetVersion(folder, one.key, one.names, watched.pause_s, worlds=self._worlds)
            version = self._store.commit(folder, made)
            self._parts[version.folder] = parts
            return version
        finally:
            # Nothing is there any more if it has become a version.
            self._store.remove_set(folder)

    def _has_lost_parts(
        self, one: RankSet, parts: Tuple[FrozenSet[str], ...], last: Optional[SetVersion]
    ) -> bool:
        if last is None or last.names != one.names:
            return False
        if last.folder not in self._parts:
            known = _parts([os.path.join(last.folder, name) for name in last.names])
            self._parts[last.folder] = known or (frozenset(),) * len(last.names)
        return any(map(search.has_lost, self._parts[last.folder], parts))

    def begin(self) -> None:
        """Forget what was seen: files are put back."""
        self._saves.clear()
        self._kept = None


def _is_of_one(names: Sequence[str], others: Sequence[str]) -> bool:
    return search.family_of(names[0]) == search.family_of(others[0])


def _seen(states: States) -> Tuple[Dated, ...]:
    return tuple((state.size, state.changed_ns) for state in states)


def _parts(paths: Sequence[str]) -> Optional[Tuple[FrozenSet[str], ...]]:
    """Of each file; None where one is not complete."""
    found: List[FrozenSet[str]] = []
    for path in paths:
        parts = search.parts(path)
        if parts is None:
            return None
        found.append(parts)
    return tuple(found)
