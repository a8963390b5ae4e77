"""What an attempt finds of the one before it, and whether it has come further: by the checkpoints."""

import os
import time
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.complete import (
    STILL_S,
    Order,
    Place,
    SetAside,
    Versions,
    changed_ns,
    newest_complete,
    newest_ns,
    search,
    set_aside_torn,
    soon,
)
from jumar.launch.jobdir.files import JobDir, is_below
from jumar.launch.jobdir.safefile import Unusable, read_object

_Written = Tuple[int, str]
"""When something was, and in which folder: file servers have clocks of their own."""
_NEVER: _Written = (0, "")
_LOOK_EVERY_S = 0.5
_LOOK_SOON_S = 0.1
"""While a file is written to: its next save may overwrite what is complete then."""
_MOST_OF_TIME_TO_LOOK = 0.02


class Came(NamedTuple):
    """How far it came: the checkpoint to go on from, and whether anything like one was written, since
    scripts have formats of their own."""

    saved: Optional[str]
    advanced: bool


class Progress:
    """Of one attempt, on one node."""

    def __init__(
        self,
        directory: JobDir,
        given: Optional[Sequence[str]] = None,
        worlds: FrozenSet[int] = frozenset(),
    ) -> None:
        """`given`: all that the job may write, where it has fewer rights than this process. Links that lead
        elsewhere are then the job's attempt to have that read or changed. `worlds`: how many ranks may save."""
        self._directory = directory
        self._given = given
        self._worlds = worlds
        self._sources: List[str] = []
        self._places: List[Place] = []
        self._keeper: Optional[_VersionKeeper] = None
        self._before = _NEVER

    def begin(self, folder: str) -> List[str]:
        """Set aside what an earlier attempt has left half written, and put what it had before in its place;
        in words. From now on versions are kept of what the script overwrites, and where there is nothing to be
        overwritten, from the start of the ranks on. `folder`: where it runs."""
        places = self._all_places(folder)
        told: List[str] = []
        # The first one has left nothing yet: what is there may be another job's, which writes it now.
        if self._directory.number > 1:
            until = soon()
            told = [words for place in places for words in _put_back(place, until)]
            until = soon()
            torn = [one for p in places for one in set_aside_torn(p.source, p.since, until)]
            told += [_words(one) for one in torn]
        self._places = places
        if any(_below(place.source) for place in places):
            self.ranks_run()
        return told

    def ranks_run(self) -> None:
        """Keep versions from now on, if nothing had to be kept before; the ranks need not wait for that. Call
        it again while they run: one that has taken all processes there may be leaves room later, or never."""
        if self._keeper is None and self._places:
            keeper = _VersionKeeper(self._places)
            self._keeper = keeper if keeper.start() else None

    def note(self, folder: str) -> None:
        """What there is before the ranks start."""
        self._sources = [place.source for place in self._all_places(folder)]
        # Of what is saved here no versions are kept: the next attempt finds it empty.
        self._sources.append(self._directory.path("cache", "ckpt"))
        self._before = self._newest()

    def close(self) -> List[str]:
        """No rank writes any more; what went wrong, in words."""
        if self._keeper is None:
            return []
        self._keeper.close()
        trouble = self._keeper.trouble
        return [] if trouble is None else [f"no version of a checkpoint could be kept: {trouble}"]

    def came(self) -> Came:
        """Wherever the script saves: not all know JUMAR_CKPT_DIR."""
        until = soon()
        found = [newest_complete(source, until) for source in self._given_sources()]
        whole = (path for path in found if path is not None)
        saved = max(
            whole, key=lambda path: _order((changed_ns(path), os.path.dirname(path))), default=None
        )
        has_more = _order(self._newest()) > _order(self._before)
        return Came(saved, has_more or self._is_told())

    def _all_places(self, folder: str) -> List[Place]:
        found = _places(self._directory, folder)
        return [one._replace(worlds=self._worlds) for one in found if self._is_given(one.source)]

    def _is_given(self, path: str) -> bool:
        return self._given is None or any(is_below(path, top) for top in self._given)

    def _is_told(self) -> bool:
        """Whether a library that goes on by itself has saved further on, in whatever folder the script gave it."""
        path = self._directory.path("steps", f"attempt-{self._directory.number}.json")
        try:
            told = read_object(path)
            return bool(told["saved"]) and bool(told["step"] > told["resumed"][told["counter"]])
        except (OSError, Unusable, KeyError, TypeError):
            # The script may have written anything there.
            return False

    def _newest(self) -> _Written:
        until = soon()
        times = ((newest_ns(source, until), source) for source in self._given_sources())
        return max(times, key=_order, default=_NEVER)

    def _given_sources(self) -> List[str]:
        """Those that are no links of the job's by now."""
        return [path for path in self._sources if self._is_given(os.path.realpath(path))]


class _VersionKeeper:
    """Keeps versions in a thread: of what is there at first, while ranks run, and once more at the end."""

    def __init__(self, places: Sequence[Place]) -> None:
        # Late: none is made before the ranks of a first attempt have started.
        import threading

        self._places = places
        self._versions: Dict[Place, Versions] = {}
        """Of those places in which there was a file: most jobs save in one at most."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
        self.trouble: Optional[OSError] = None

    def start(self) -> bool:
        """Begin, before anybody overwrites what is there; whether that was possible: a job may have all the
        processes and threads that it is allowed, and then no other can be started."""
        try:
            self._thread.start()
        except RuntimeError:
            return False
        return True

    def close(self, most_s: float = 60.0) -> None:
        """When no rank writes any more; waits for a copy that is being made."""
        self._done.set()
        self._thread.join(most_s)

    def _run(self) -> None:
        pause_s = self._look(0.0)
        while not self._done.wait(pause_s):
            pause_s = self._look(STILL_S)
        self._look(0.0)

    def _look(self, still_s: float) -> float:
        """Look at all; how long to wait until the next time."""
        began = time.monotonic()
        for place in self._places:
            try:
                self._keep(place, still_s)
            except OSError as error:
                # No room for a second one: the job goes on without, and whoever closes may tell.
                self.trouble = error
        looked_s = time.monotonic() - began - sum(one.kept_s for one in self._versions.values())
        is_unsettled = any(one.is_unsettled for one in self._versions.values())
        # In a folder with very many files, a look takes long.
        pause_s = _LOOK_SOON_S if is_unsettled else _LOOK_EVERY_S
        return max(pause_s, looked_s / _MOST_OF_TIME_TO_LOOK)

    def _keep(self, place: Place, still_s: float) -> None:
        if place not in self._versions and any(search.files(place.source)):
            self._versions[place] = Versions(place)
        if place in self._versions:
            self._versions[place].keep(still_s)


def _order(written: _Written) -> int:
    at_ns, folder = written
    return Order(folder)(at_ns)


def _places(directory: JobDir, folder: str) -> List[Place]:
    """The job's own folder for checkpoints first. Versions are not kept in it: it may be sent to a store."""
    others = _below(directory.path("out"))
    others += [os.path.join(folder, name) for name in ("ckpt", "checkpoints", "output")]
    ckpt, *real = dict.fromkeys(map(os.path.realpath, [directory.path("ckpt"), *others]))
    since = _first_began(directory)
    return [Place(ckpt, _store(directory, ckpt))] + [
        Place(path, _store(directory, path), since) for path in real
    ]


def _store(directory: JobDir, path: str) -> str:
    name = os.fsencode(path.strip("/").replace("/", "-"))
    # Limited in bytes, of which a character may take four.
    return directory.path("versions", os.fsdecode(name[-200:]))


def _first_began(directory: JobDir) -> float:
    """When the first attempt did: what is older is not the job's."""
    try:
        return os.stat(directory.path("logs")).st_mtime
    except OSError:
        return time.time()


def _put_back(place: Place, until: float) -> List[str]:
    """In words."""
    versions = Versions(place)
    paths = versions.restore(until)
    told: List[str] = []
    for back in versions.sets_back:
        path = os.path.join(place.source, back.key)
        if back.is_all:
            told.append(
                f"a checkpoint of several files was torn, incomplete or of two saves; all of its last complete save is back: {path}"
            )
        if back.aside is not None:
            told.append(f"what was replaced is kept: {back.aside}")
    together = {
        os.path.join(place.source, name)
        for back in versions.sets_back
        for name in back.names
        if back.is_all
    }
    told += [
        f"a checkpoint was torn or missing; its last complete version is back: {path}"
        for path in paths
        if path not in together
    ]
    if versions.aside is not None:
        told.append(f"what was replaced is kept: {versions.aside}")
    return told


def _words(torn: SetAside) -> str:
    if torn.now is None:
        return f"a torn checkpoint could not be set aside: {torn.path}"
    return f"a torn checkpoint was set aside: {torn.now}"


def _below(folder: str) -> List[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []
