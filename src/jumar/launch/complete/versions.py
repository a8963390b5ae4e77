"""Versions of checkpoints that are written again and again under one name: `N/NAME` in a folder of the
platform's.

A script that overwrites its only file loses both the old and the new one when it is killed meanwhile. So
complete ones are kept: blocks are shared where the file system can, a second name is enough where a script
makes a new file each time, else they are copied. Checkpoints that have numbers in their names are versions
already, and are left alone."""

import errno
import os
import time
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from . import beneath, copies, search
from .copies import State
from .verdict import COMPLETE, is_number

_KEPT = 2
_STILL_S = 2.0
"""What has not changed for so long is kept even if its writer still has it open."""
_QUIET_S = 0.3
"""The same where nobody can tell whether somebody has it open to write."""
_TICK_S = 0.02
"""Clocks of file systems go in steps: of what is younger a second change may leave no trace."""
_LOOK_EVERY_S = 0.5
_LOOK_SOON_S = 0.1
"""While a file is written to: its next save may overwrite what is complete then."""
_MOST_OF_TIME_TO_LOOK = 0.02
_MOST_OF_TIME_TO_KEEP = 0.05
"""Of one file: also one that is large, and written all the time, leaves the disk to the job."""


class Place(NamedTuple):
    """A folder that a job saves to, and the one that versions go to."""

    source: str
    store: str
    since: float = 0.0
    """Only what has changed since then: in a folder that others use too, the rest is not the job's."""


class Versions:
    """Of the files in one place; safe while ranks write: a file that changes meanwhile is not kept."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._source = os.path.realpath(place.source)
        self._root = place.store
        self._looked_at: Dict[str, State] = {}
        self._seen: Dict[str, Tuple[State, float]] = {}
        self._inodes: Dict[str, int] = {}
        self._parts: Dict[str, FrozenSet[str]] = {}
        """What the versions consist of, as far as that was looked at."""
        self._due: Dict[str, float] = {}
        self.is_unsettled = False
        """Whether something is being written that is to be looked at again soon."""
        self.kept_s = 0.0
        """How long reading and copying took in the last look."""

    def keep(self, still_s: float = _STILL_S) -> List[str]:
        """Keep what is complete, is no longer written to and is not yet kept; the new versions. `still_s`: for how
        long a file that somebody has open to write must not have changed."""
        self.is_unsettled, self.kept_s = False, 0.0
        made: List[str] = []
        trouble: Optional[OSError] = None
        for name, path in self._alone():
            state = copies.state(path)
            if state is None or self._looked_at.get(name) == state:
                continue
            if state.changed_ns / 1e9 < self._place.since or not self._is_due(name, still_s):
                continue
            if not self._is_still(name, path, state, still_s):
                self.is_unsettled = True
                continue
            began = time.monotonic()
            try:
                kept = self._keep(name, path, state)
                self._looked_at[name] = state
                made += [] if kept is None else [kept]
            except OSError as error:
                # The others may be smaller.
                trouble = error
            took_s = time.monotonic() - began
            self._due[name] = began + took_s / _MOST_OF_TIME_TO_KEEP
            self.kept_s += took_s
        if trouble is not None:
            raise trouble
        return made

    def _is_due(self, name: str, still_s: float) -> bool:
        return still_s <= 0 or time.monotonic() >= self._due.get(name, 0.0)

    def _is_still(self, name: str, path: str, state: State, still_s: float) -> bool:
        """Whether its writer is done with it, as far as can be told."""
        before, seen_at = self._seen.get(name, (None, 0.0))
        if before != state:
            seen_at = time.monotonic()
            self._seen[name] = (state, seen_at)
        quiet_s = time.time() - state.changed_ns / 1e9
        if quiet_s >= still_s:
            return True
        if quiet_s < 0:
            # By a time that is yet to come, since the clock was set back, nothing can be told: by two looks then.
            if before != state:
                return False
            quiet_s = max(_TICK_S, time.monotonic() - seen_at)
        if quiet_s < _TICK_S:
            return False
        is_open = copies.is_being_written(path, self._source)
        return quiet_s >= min(_QUIET_S, still_s) if is_open is None else not is_open

    def restore(self, until: Optional[float] = None) -> List[str]:
        """Put the newest version of each file that is torn, or that is missing while nothing newer is there,
        in its place; what was put. Only while no rank writes."""
        self._remove_leftovers()
        put: List[str] = []
        for name, version in self._wanted(search.soon() if until is None else until):
            try:
                self._put(name, version)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                # The job has put a link or a file where its folder was: there is nowhere to put it.
                continue
            # Another file, but not one that the script has made.
            self._inodes.pop(name, None)
            put.append(os.path.join(self._place.source, name))
        return put

    def _put(self, name: str, version: str) -> None:
        os.makedirs(self._source, exist_ok=True)
        folder = beneath.make_folder(self._source, os.path.dirname(name))
        try:
            with copies.taken(version, os.path.realpath(self._root)) as kept:
                copies.copy(kept.fileno(), folder, os.path.basename(name))
        finally:
            os.close(folder)

    def _wanted(self, until: float) -> List[Tuple[str, str]]:
        """Names, and the versions to put there."""
        torn: List[Tuple[str, str]] = []
        missing: List[Tuple[str, str]] = []
        for name, versions in self._kept().items():
            if time.monotonic() > until:
                return torn
            whole = [one for one in versions if search.judge(one).state == COMPLETE]
            path = os.path.join(self._place.source, name)
            if whole and not os.path.lexists(path):
                missing.append((name, whole[-1]))
            elif whole and search.is_torn(path, whole[-1]):
                torn.append((name, whole[-1]))
        # Last, since it may take all the time there is; what is torn needs no look at all the others.
        newest_ns = self._newest_ns(until) if missing else 0
        if time.monotonic() > until:
            return torn
        order = search.Order(self._place.source)
        newest = order(newest_ns)
        return torn + [one for one in missing if order(search.changed_ns(one[1])) >= newest]

    def _newest_ns(self, until: float) -> int:
        found = search.survey(self._place.source, until)
        complete = (one.changed_ns for one in found if one.verdict.state == COMPLETE)
        return max(complete, key=search.Order(self._place.source), default=0)

    def _alone(self) -> List[Tuple[str, str]]:
        """Files that no others are versions of, by their names within the place."""
        families: Dict[str, List[Tuple[str, str]]] = {}
        for path in search.files(self._place.source):
            name = os.path.relpath(path, self._place.source)
            families.setdefault(search.family_of(name), []).append((name, path))
        return [members[0] for members in families.values() if len(members) == 1]

    def _keep(self, name: str, path: str, state: State) -> Optional[str]:
        versions = self._kept().get(name, [])
        before, self._inodes[name] = self._inodes.get(name), state.inode
        last = copies.state(versions[-1]) if versions else None
        if last is not None and (last.size, last.changed_ns) == (state.size, state.changed_ns):
            return None
        parts = search.parts(path)
        if parts is None or (last is not None and self._parts_of(versions[-1]) - parts):
            return None
        to = os.path.join(self._root, str(self._next_number()), name)
        # One save may be the first into a file that is then written in place; two files are two saves.
        makes_new_ones = before is not None and before != state.inode
        if not self._taken_over(path, to, state, may_link=makes_new_ones):
            copies.remove(to, self._root)
            return None
        self._parts[to] = parts
        for old in versions[: 1 - _KEPT]:
            copies.remove(old, self._root)
            self._parts.pop(old, None)
        return to

    def _parts_of(self, version: str) -> FrozenSet[str]:
        if version not in self._parts:
            self._parts[version] = search.parts(version) or frozenset()
        return self._parts[version]

    def _taken_over(self, path: str, to: str, state: State, *, may_link: bool) -> bool:
        """Whether the version is there: not if the file is no longer, or never was, the one that was looked at."""
        try:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with copies.taken(path, self._source) as source:
                if copies.state_of(os.fstat(source.fileno())) != state:
                    return False
                if may_link and copies.linked(source.fileno(), to):
                    return True
                return copies.copied(source.fileno(), to, state)
        except OSError as error:
            # Replaced or removed by the job meanwhile.
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
                return False
            # It is tried again and again: without room, not even an empty folder may be left each time.
            copies.remove(to, self._root)
            raise

    def _next_number(self) -> int:
        return max(self._numbers(), default=0) + 1

    def _numbers(self) -> List[int]:
        return sorted(int(name) for name in copies.listed(self._root) if is_number(name))

    def _kept(self) -> Dict[str, List[str]]:
        """By name, the oldest first."""
        kept: Dict[str, List[str]] = {}
        for number in self._numbers():
            top = os.path.join(self._root, str(number))
            for path in copies.files(top):
                if not os.path.basename(path).startswith("."):
                    kept.setdefault(os.path.relpath(path, top), []).append(path)
        return kept

    def _remove_leftovers(self) -> None:
        """Of copies that were being made when the one who made them was killed."""
        for path in list(copies.files(self._root)):
            if os.path.basename(path).startswith("."):
                copies.remove(path, self._root)
        for folder, _, _ in os.walk(self._root, topdown=False):
            if folder != self._root:
                copies.remove_empty(folder)


class VersionKeeper:
    """Keeps versions in a thread: of what is there at first, while ranks run, and once more at the end."""

    def __init__(self, places: Sequence[Place]) -> None:
        # Late: none is made before the ranks of a first attempt have started.
        import threading

        self._versions = [Versions(place) for place in places]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
        self.trouble: Optional[OSError] = None

    def start(self) -> "VersionKeeper":
        """Begin, before anybody overwrites what is there."""
        self._thread.start()
        return self

    def close(self, most_s: float = 60.0) -> None:
        """When no rank writes any more; waits for a copy that is being made."""
        self._done.set()
        self._thread.join(most_s)

    def _run(self) -> None:
        pause_s = self._look(0.0)
        while not self._done.wait(pause_s):
            pause_s = self._look(_STILL_S)
        self._look(0.0)

    def _look(self, still_s: float) -> float:
        """Look at all; how long to wait until the next time."""
        began = time.monotonic()
        for versions in self._versions:
            try:
                versions.keep(still_s)
            except OSError as error:
                # No room for a second one: the job goes on without, and whoever closes may tell.
                self.trouble = error
        looked_s = time.monotonic() - began - sum(one.kept_s for one in self._versions)
        is_unsettled = any(one.is_unsettled for one in self._versions)
        # In a folder with very many files, a look takes long.
        pause_s = _LOOK_SOON_S if is_unsettled else _LOOK_EVERY_S
        return max(pause_s, looked_s / _MOST_OF_TIME_TO_LOOK)
