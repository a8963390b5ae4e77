"""Versions of checkpoints that are written again and again under one name: `N/NAME` in a folder of the
platform's.

A script that overwrites its only file loses both the old and the new one when it is killed meanwhile. So
complete ones are kept: blocks are shared where the file system can, a second name is enough where a script
makes a new file each time, else they are copied. Checkpoints that have numbers in their names are versions
already, and are left alone, but for those that are parts of one (`together.py`)."""

import errno
import os
import time
from functools import partial
from typing import Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from . import beneath, copies, rank_sets, room, search
from .back import Back, SetsBack
from .copies import State
from .patience import STILL_S, Patience
from .store import Single, Store
from .together import Together
from .verdict import COMPLETE

_KEPT = 2
_GONE_S = 60.0
"""What is not there for so long is no file that its script is just replacing."""
_MOST_GONE = 1000


class Place(NamedTuple):
    """A folder that a job saves to, without links in its name, and the one that versions go to."""

    source: str
    store: str
    since: float = 0.0
    """Only what has changed since then: in a folder that others use too, the rest is not the job's."""
    worlds: FrozenSet[int] = frozenset()
    """How many ranks may save there, each a file of its own."""


class Versions:
    """Of the files in one place; safe while ranks write: a file that changes meanwhile is not kept."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._source = place.source
        self._root = place.store
        self._store = Store(place.store)
        self._patience = Patience(self._source, place.since)
        self._together: Optional[Together] = None
        """Made for the first set: most jobs have none."""
        self._is_unsettled = False
        self._looked_at: Dict[str, State] = {}
        self._inodes: Dict[str, int] = {}
        self._gone: Dict[str, float] = {}
        """Since when nothing is there of which versions are kept."""
        self._parts: Dict[str, FrozenSet[str]] = {}
        """What the versions consist of, as far as that was looked at."""
        self.sets_back: List[Back] = []
        """What was put back of files that were kept together."""
        self.aside: Optional[str] = None
        """Where that is which was longer than what took its place."""

    @property
    def is_unsettled(self) -> bool:
        """Whether something is being written that is to be looked at again soon."""
        return self._is_unsettled or (self._together is not None and self._together.is_unsettled)

    @property
    def kept_s(self) -> float:
        """How long reading and copying took in the last look."""
        return self._patience.kept_s

    def keep(self, still_s: float = STILL_S) -> List[str]:
        """Keep what is complete, is no longer written to and is not yet kept; the new versions. `still_s`: for how
        long a file that somebody has open to write must not have changed."""
        self._is_unsettled = False
        if self._together is not None:
            self._together.is_unsettled = False
        self._patience.kept_s = 0.0
        made: List[str] = []
        trouble: Optional[OSError] = None
        for look in self._looks():
            try:
                made += look(still_s)
            except OSError as error:
                # The others may be smaller.
                trouble = error
        if made:
            self._drop_gone()
        if trouble is not None:
            raise trouble
        return made

    def _drop_gone(self) -> None:
        """Versions of what the script has removed for good: nobody would put it back beside what is newer."""
        now = time.monotonic()
        for family, kept in list(self._store.singles().items()):
            if any(os.path.lexists(os.path.join(self._source, one.name)) for one in kept):
                self._gone.pop(family, None)
            elif now - self._gone.setdefault(family, now) >= _GONE_S:
                del self._gone[family]
                for one in kept:
                    self._store.remove_single(one)

    def _forget(self, names: FrozenSet[str]) -> None:
        """Files that are there no more: a script may give each a name of its own."""
        for name in set(self._looked_at) - names:
            del self._looked_at[name]
            self._inodes.pop(name, None)
        self._patience.forget(names)

    def _looks(self) -> List[Callable[[float], List[str]]]:
        """One look for each file that stands alone, and for each set of files."""
        source = self._source
        if os.path.realpath(source) != source:
            # The job has put a link there since: where it leads to may not be the job's.
            return []
        names = [os.path.relpath(path, source) for path in search.files(source)]
        if len(self._looked_at) > 2 * len(names) + _MOST_GONE:
            self._forget(frozenset(names))
        if not names:
            return []
        alone, sets = rank_sets.split(names, self._place.worlds)
        looks = [partial(self._look, name) for name in alone]
        if not sets:
            return looks
        if self._together is None:
            self._together = Together(self._source, self._store, self._patience, self._place.worlds)
        return [*looks, *(partial(self._together.look, one) for one in sets)]

    def _look(self, name: str, still_s: float) -> List[str]:
        path = os.path.join(self._source, name)
        state = copies.state(path)
        if state is None or self._looked_at.get(name) == state:
            return []
        # One for all epochs, as they are versions of each other.
        family = search.family_of(name)
        if self._patience.is_old(name, state) or not self._patience.is_due(family, still_s):
            return []
        if not self._patience.is_still(name, path, state, still_s):
            self._is_unsettled = True
            return []
        began = time.monotonic()
        try:
            kept = self._keep(name, path, state)
            self._looked_at[name] = state
        finally:
            self._patience.took(family, began)
        return [] if kept is None else [kept]

    def restore(self, until: Optional[float] = None) -> List[str]:
        """Put the newest version of each file that is torn, or that is missing while nothing newer is there,
        in its place, and of files that were saved together all; what was put. Only while no rank writes."""
        self._store.remove_leftovers()
        if self._together is not None:
            self._together.begin()
        sets_back = SetsBack(self._source, self._store, self._place.worlds)
        until = search.soon() if until is None else until
        there = [os.path.relpath(path, self._source) for path in self._there()]
        broken, none = sets_back.wanted(there, until)
        torn, missing = self._wanted(there, until)
        # Last, since it may take all the time there is; what is torn needs no look at all the others.
        newest = self._is_newest(until) if none or missing else None
        wanted = broken + [one for one in none if newest and newest(one.paths)]
        self.sets_back = [back for back in map(sets_back.put, wanted) if back is not None]
        put = [os.path.join(self._source, n) for back in self.sets_back for n in back.names]
        for name, version in torn + [one for one in missing if newest and newest([one.path])]:
            try:
                self._put_aside(name, version)
                self._put(name, version)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                # The job has put a link or a file where its folder was: there is nowhere to put it.
                continue
            # Another file, but not one that the script has made.
            self._inodes.pop(name, None)
            put.append(os.path.join(self._source, name))
        return put

    def _put_aside(self, name: str, version: str) -> None:
        """Keep what is longer than its version: a file that is added to holds all but the last of it."""
        there, kept = copies.state(os.path.join(self._source, name)), copies.state(version)
        if there is not None and kept is not None and there.size > kept.size:
            self.aside = self._store.put_aside(self._source, [name]) or self.aside

    def _there(self) -> Iterable[str]:
        # Nothing can be put back without a version: then nobody waits for a look at a large folder.
        return search.files(self._source) if copies.listed(self._root) else ()

    def _put(self, name: str, version: str) -> None:
        os.makedirs(self._source, exist_ok=True)
        folder = beneath.make_folder(self._source, os.path.dirname(name))
        path, last = os.path.join(self._source, name), os.path.basename(name)
        try:
            with copies.taken(version, os.path.realpath(self._root)) as kept:
                room.put(
                    lambda beside: copies.rename(beside(kept.fileno(), folder, last), folder, last),
                    [path] if room.is_to_go(path, version) else [],
                    self._source,
                )
        finally:
            os.close(folder)

    def _wanted(self, there: List[str], until: float) -> Tuple[List[Single], List[Single]]:
        """What to put back: of torn ones, and of missing ones."""
        torn: List[Single] = []
        missing: List[Single] = []
        sets = [one.names for one in rank_sets.split(there, self._place.worlds)[1]]
        sets += [one.names for versions in self._store.sets().values() for one in versions]
        # Kept when no other rank had saved: with those of the others it makes no save.
        parts = {name for names in sets for name in names}
        for versions in self._store.singles().values():
            if time.monotonic() > until:
                break
            alone = [one for one in reversed(versions) if one.name not in parts]
            whole = next((one for one in alone if search.judge(one.path).state == COMPLETE), None)
            if whole is None:
                continue
            path = os.path.join(self._source, whole.name)
            if not os.path.lexists(path):
                missing.append(whole)
            elif search.is_torn(path, whole.path) and not self._is_another_s(path):
                torn.append(whole)
        return torn, missing

    def _is_another_s(self, path: str) -> bool:
        """Whether a job writes there that shares the folder: no rank of this one runs."""
        return search.is_being_written(path, self._source)

    def _is_newest(self, until: float) -> Optional[Callable[[List[str]], bool]]:
        """Whether versions are as new as all that is there; None where there was no time to see."""
        found = search.survey(self._source, until)
        if time.monotonic() > until:
            return None
        order = search.Order(self._source)
        complete = (one.changed_ns for one in found if one.verdict.state == COMPLETE)
        newest = order(max(complete, key=order, default=0))
        return lambda paths: max(order(search.changed_ns(path)) for path in paths) >= newest

    def _keep(self, name: str, path: str, state: State) -> Optional[str]:
        before, self._inodes[name] = self._inodes.get(name), state.inode
        if before == state.inode:
            self._drop_overwritten(name, path)
        versions = self._store.singles().get(search.family_of(name), [])
        last = versions[-1] if versions else None
        if last is not None and last.name == name and copies.dated(last.path) == copies.dated(path):
            return None
        parts = search.parts(path)
        if parts is None or (
            last is not None and search.has_lost(self._parts_of(last.path), parts)
        ):
            return None
        to = os.path.join(self._store.next_folder(), name)
        # One save may be the first into a file that is then written in place; two files are two saves.
        makes_new_ones = before is not None and before != state.inode
        if not self._taken_over(path, to, state, may_link=makes_new_ones):
            copies.remove(to, self._root)
            return None
        self._parts[to] = parts
        self._store.add_single(Single(name, to))
        for old in self._store.singles()[search.family_of(name)][:-_KEPT]:
            self._store.remove_single(old)
            self._parts.pop(old.path, None)
        return to

    def _drop_overwritten(self, name: str, path: str) -> None:
        """Versions that were but second names of a file into which the script then wrote."""
        for one in list(self._store.singles().get(search.family_of(name), ())):
            if copies.is_same(one.path, path):
                self._store.remove_single(one)
                self._parts.pop(one.path, None)

    def _parts_of(self, version: str) -> FrozenSet[str]:
        if version not in self._parts:
            self._parts[version] = search.parts(version) or frozenset()
        return self._parts[version]

    def _taken_over(self, path: str, to: str, state: State, *, may_link: bool) -> bool:
        try:
            return copies.taken_over(
                path, self._source, to, state, may_link=may_link, room=2 * state.size
            )
        except OSError:
            # It is tried again and again: without room, not even an empty folder may be left each time.
            copies.remove(to, self._root)
            raise
