"""Versions of checkpoints in parts, `rank0.pt` and `rank1.pt`, that are overwritten: all of one save, or none."""

import contextlib
import errno
import os
import time
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from . import beneath, copies, rank_sets, saves, search
from .copies import State
from .patience import STILL_S, Patience
from .rank_sets import RankSet
from .saves import Saves, States
from .store import SetVersion, Store
from .verdict import COMPLETE

_KEPT = 2
_SOON_S = 1.0
"""So long after a save it is looked at often, to learn how long the pauses are."""
_SHORTER = 0.8
"""What is less than so much of what was known is worth being written down."""
_FAR = 10
"""Of files that are all newer than a version by so many pauses the times tell nothing: had their ranks saved at once,
there would be a newer version."""
_NO_WAY = (errno.ELOOP, errno.ENOTDIR)


class Back(NamedTuple):
    """What was put back: files of one save."""

    key: str
    names: Tuple[str, ...]


class Together:
    """Of the sets in one place."""

    def __init__(self, source: str, since: float, store: Store, patience: Patience) -> None:
        self._source, self._since = source, since
        self._store, self._patience = store, patience
        self._saves: Dict[Tuple[str, ...], Saves] = {}
        self._kept: Optional[Dict[str, List[SetVersion]]] = None
        self._parts: Dict[str, Tuple[FrozenSet[str], ...]] = {}
        self.is_unsettled = False

    def look(self, one: RankSet, still_s: float) -> List[str]:
        """The paths of a new version, if the set was saved and is not yet kept."""
        states = self._states(one.names)
        if states is None or any(state.changed_ns / 1e9 < self._since for state in states):
            return []
        watched = self._saves_of(one)
        watched.look(states, time.monotonic())
        last = self._last(one.key)
        if last is not None and last.names == one.names:
            self._learn(watched, last)
        if watched.is_judged:
            pass
        elif not watched.has_rested:
            if watched.is_first and self._are_still(one, states, STILL_S):
                watched.glimpse()
        elif not self._are_still(one, states, still_s):
            self.is_unsettled = True
        elif self._is_to_be_kept(one, watched, last):
            watched.count()
            if self._patience.is_due(one.key, still_s):
                return self._keep(one, watched, states, last)
        self.is_unsettled = self.is_unsettled or watched.rest_s < _SOON_S
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
            last = self._last(one.key)
            is_known = last is not None and last.names == one.names
            self._saves[one.names] = Saves(last.pause_s if last and is_known else None)
        return self._saves[one.names]

    def _last(self, key: str) -> Optional[SetVersion]:
        if self._kept is None:
            self._kept = self._store.sets()
        versions = self._kept.get(key)
        return versions[-1] if versions else None

    def _learn(self, watched: Saves, last: SetVersion) -> None:
        """What nobody knew when it was kept: how long the first save lasts, or that pauses are shorter by now."""
        known, pause_s = last.pause_s, watched.pause_s
        is_longer = watched.is_first and watched.is_judged and pause_s > 2 * known
        is_shorter = not watched.is_first and pause_s < _SHORTER * known
        if self._kept is not None and (is_longer or is_shorter):
            self._kept[last.key][-1] = self._store.learn(last, pause_s)

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
            or _dated(os.path.join(self._source, name))
            != _dated(os.path.join(version.folder, name))
            for name in names
        ]

    def _keep(
        self, one: RankSet, watched: Saves, states: States, last: Optional[SetVersion]
    ) -> List[str]:
        began = time.monotonic()
        try:
            version = self._taken_over(one, watched, states, last)
        finally:
            self._patience.took(one.key, began)
        watched.judge(is_one=True)
        if version is None:
            return []
        kept = self._kept = self._store.sets()
        for old in kept[one.key][:-_KEPT]:
            self._store.remove_set(old.folder)
            self._parts.pop(old.folder, None)
        kept[one.key] = kept[one.key][-_KEPT:]
        singles = self._store.singles()
        for path in (path for name in one.names for path in singles.get(name, ())):
            # Of the time when no other rank had saved: it fits no other's file.
            copies.remove(path, self._store.root)
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
            version = self._store.commit(folder, one.key, one.names, watched.pause_s)
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
        return any(was - now for was, now in zip(self._parts[last.folder], parts))

    def begin(self) -> None:
        """Forget what was seen: files are put back."""
        self._saves.clear()
        self._kept = None

    def wanted(
        self, there: Sequence[str], until: float
    ) -> Tuple[List[SetVersion], List[SetVersion]]:
        """The versions to put back where files are torn, missing or of two saves, and where all are missing.
        `there`: the names of all files in the place."""
        broken: List[SetVersion] = []
        missing: List[SetVersion] = []
        for key, versions in self._store.sets().items():
            names = [name for name in there if rank_sets.is_of(name, key)]
            version = next((v for v in reversed(versions) if _is_whole(v, names)), None)
            if time.monotonic() > until:
                break
            if version is None:
                continue
            if not any(os.path.lexists(os.path.join(self._source, n)) for n in version.names):
                missing.append(version)
            elif self._is_broken(version):
                broken.append(version)
        return broken, missing

    def _is_broken(self, version: SetVersion) -> bool:
        states, news = self._states(version.names), self._news(version.names, version)
        if states is None or (any(news) and not all(news)):
            return True
        if any(
            search.is_torn(os.path.join(self._source, name), os.path.join(version.folder, name))
            for name in version.names
        ):
            return True
        if not all(news) or saves.are_close(states, version.pause_s):
            return False
        # A rank that died lacks a whole pause; less may be how its ranks always save.
        return saves.spread_s(states) >= version.pause_s or not self._is_far(version, states)

    def _is_far(self, version: SetVersion, states: States) -> bool:
        kept = (copies.state(os.path.join(version.folder, name)) for name in version.names)
        kept_ns = max((state.changed_ns for state in kept if state is not None), default=0)
        last_ns = max(state.changed_ns for state in states)
        return last_ns - kept_ns > _FAR * version.pause_s * 1e9

    def put(self, version: SetVersion) -> Optional[Back]:
        """All its files in their places; None where something of the job's is in the way. Whoever is killed
        meanwhile leaves some of them new and some old, which the next one mends."""
        os.makedirs(self._source, exist_ok=True)
        try:
            with contextlib.ExitStack() as stack:
                self._put_beside(version, stack)
        except OSError as error:
            if error.errno not in _NO_WAY:
                raise
            return None
        return Back(version.key, version.names)

    def _put_beside(self, version: SetVersion, stack: contextlib.ExitStack) -> None:
        """Copies of all first, as there may not be enough room; then their names."""
        root = os.path.realpath(self._store.root)
        folders: Dict[str, int] = {}
        beside: List[Tuple[int, str, str]] = []
        for name in version.names:
            above, last = os.path.split(name)
            if above not in folders:
                folders[above] = beneath.make_folder(self._source, above)
                stack.callback(os.close, folders[above])
            with copies.taken(os.path.join(version.folder, name), root) as kept:
                aside = copies.beside(kept.fileno(), folders[above], last)
            stack.callback(copies.unlink, aside, folders[above])
            beside.append((folders[above], aside, last))
        for folder, aside, name in beside:
            os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _dated(path: str) -> Optional[Tuple[int, int]]:
    state = copies.state(path)
    return None if state is None else (state.size, state.changed_ns)


def _parts(paths: Sequence[str]) -> Optional[Tuple[FrozenSet[str], ...]]:
    """Of each file; None where one is not complete."""
    found: List[FrozenSet[str]] = []
    for path in paths:
        parts = search.parts(path)
        if parts is None:
            return None
        found.append(parts)
    return tuple(found)


def _is_whole(version: SetVersion, names: Sequence[str]) -> bool:
    """Whether it can be put back, and has a file for each that is there: more ranks are another training's."""
    paths = (os.path.join(version.folder, name) for name in version.names)
    return set(names) <= set(version.names) and all(
        search.judge(path).state == COMPLETE for path in paths
    )
