"""The checkpoints in a folder, newest first. Links are not followed: what they lead to is found itself, or
is not the job's."""

import os
import re
import stat
import struct
import time
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Set, Tuple

from . import copies
from .verdict import COMPLETE, TORN, UNKNOWN, Torn, Unclear, Verdict

_DEEPEST = 6
_MOST_ENTRIES = 100_000
_MOST_S = 8.0
"""So long all checkpoints of a folder may be looked into: cards are held meanwhile, and the server kills who is late. Some pickles take seconds each."""
_AHEAD_NS = 600 * 10**9
"""So far ahead a time is not yet taken for one of before the clock was set back."""
_NO_RANK = re.compile(r"(?<!\d)(?<!rank)(?<!rank[-_=.])\d+(?!\d|[-_]of[-_]\d)", re.IGNORECASE)
_LOGS = (".log", ".out", ".err", ".csv", ".tsv", ".jsonl", ".html", ".png", ".svg")


class Found(NamedTuple):
    """A checkpoint; `names` where only a comparison with others shows that something is missing."""

    path: str
    verdict: Verdict
    changed_ns: int
    names: FrozenSet[str]


_NO_NAMES: FrozenSet[str] = frozenset()
_SENSELESS = (
    Unclear,
    RecursionError,
    MemoryError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    struct.error,
)
"""What a reader may meet in a file that a job has made up."""
_NOT_LOOKED_INTO = Verdict(UNKNOWN, why="there was no time to look into it")


def judge(path: str) -> Verdict:
    """Complete, torn or unknown, by what is in the file or folder alone."""
    return _judged(path)[0]


def parts(path: str) -> Optional[FrozenSet[str]]:
    """Those of a complete one that others can be compared by, which may be none; None where it is not complete."""
    verdict, names = _judged(path)
    return names if verdict.state == COMPLETE else None


def is_torn(path: str, whole: str) -> bool:
    """Whether it is, also by what a complete one of the same name has."""
    verdict, names = _judged(path)
    if verdict.state != COMPLETE:
        return verdict.state == TORN
    return has_lost(_judged(whole)[1], names)


def has_lost(before: FrozenSet[str], names: FrozenSet[str]) -> bool:
    """Whether nothing but a part of what was there before is left: with others, it is another thing."""
    return names < before


def files(folder: str) -> Iterator[str]:
    """Those below `folder` that are checkpoints by themselves, or may be."""
    return (path for path in _candidates(folder) if not os.path.isdir(path))


def soon() -> float:
    """Until when checkpoints may be looked into that somebody waits for, by the monotonic clock."""
    return time.monotonic() + _MOST_S


def survey(folder: str, until: Optional[float] = None) -> List[Found]:
    """All checkpoints below `folder`, newest first. Of those that nobody has looked into `until` then, the oldest, nothing is known."""
    until = soon() if until is None else until
    order = Order(folder)
    dated = [(changed_ns(path), path) for path in _candidates(folder)]
    dated.sort(key=lambda one: (order(one[0]), one[1]), reverse=True)
    found: List[Found] = []
    for at, path in dated:
        is_late = time.monotonic() > until
        verdict, names = (_NOT_LOOKED_INTO, _NO_NAMES) if is_late else _judged(path)
        found.append(Found(path, verdict, at, names))
    found.reverse()
    # One called best may lack what a training needs to go on.
    found.sort(key=lambda one: (not _is_best(one.path), order(one.changed_ns)))
    return _compared(folder, found)[::-1]


def newest_complete(folder: str, until: Optional[float] = None) -> Optional[str]:
    """The checkpoint in `folder` to resume from, if there is one: the newest complete one. Where none has a
    format that is known, the newest file that is not empty: scripts have formats of their own."""
    found = [one for one in survey(folder, until) if one.verdict.state != TORN]
    complete = (one.path for one in found if one.verdict.state == COMPLETE)
    others = (one.path for one in found if os.path.isdir(one.path) or _size(one.path))
    return next(complete, None) or next(others, None)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        # Gone meanwhile: what a job has left running may still move files.
        return 0


def newest_ns(folder: str, until: Optional[float] = None) -> int:
    """When something that may be a checkpoint was last written there, in a format that is known or not; 0 if
    never."""
    found = (one for one in survey(folder, until) if one.verdict.state != TORN)
    times = (one.changed_ns for one in found if not _is_a_log(one.path))
    return max(times, key=Order(folder), default=0)


class Order:
    """Makes numbers of times by which older and newer files of a folder are told apart. A time that is yet to come is
    of before the clock was set back: all that came after has earlier ones."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._now_ns: Optional[int] = None

    def __call__(self, at_ns: int) -> int:
        is_to_come = at_ns > time.time_ns() + _AHEAD_NS and at_ns > self._now() + _AHEAD_NS
        return at_ns - (1 << 63) if is_to_come else at_ns

    def _now(self) -> int:
        """By the clock of whoever serves the files, which may be ahead of this machine's by any time."""
        if self._now_ns is None:
            probe = os.path.join(self._folder, f".clock-{os.getpid()}-{time.monotonic_ns()}")
            try:
                os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                self._now_ns = os.lstat(probe).st_mtime_ns
                os.unlink(probe)
            except OSError:
                # Nothing can be written there, so nothing is going to be newer.
                self._now_ns = self._now_ns or 0
        return self._now_ns


def _is_a_log(path: str) -> bool:
    """What grows in every training, whether it saves or not."""
    name = os.path.basename(path)
    return name.endswith(_LOGS) or "tfevents" in name


def _is_best(path: str) -> bool:
    return "best" in os.path.basename(path).lower()


def _judged(path: str) -> Tuple[Verdict, FrozenSet[str]]:
    try:
        return Verdict(COMPLETE), frozenset(_checked(path))
    except Torn as error:
        return Verdict(TORN, str(error)), frozenset()
    except _SENSELESS as error:
        return Verdict(UNKNOWN, str(error)), frozenset()
    except OSError as error:
        # No permission, a file server that does not answer: nothing is known of the file itself.
        return Verdict(UNKNOWN, error.strerror or str(error)), frozenset()


def _checked(path: str) -> List[str]:
    # Late, here and below: a folder that is empty, as the first attempt's is, needs no reader of any format.
    from . import one_file, sharded

    if not os.path.isdir(path):
        return one_file.check(path).names
    names = set(os.listdir(path))
    kind = sharded.kind_of(path, names)
    if kind is not None:
        kind.check(path, names)
        return []
    files = sorted(name for name in names if name.endswith(one_file.SUFFIXES))
    if not files:
        raise Unclear("its format is not known")
    sharded.check_files(path, files)
    return files


def _candidates(folder: str) -> Iterator[str]:
    return _below(folder, _DEEPEST, [_MOST_ENTRIES])


def _below(folder: str, depth: int, budget: List[int]) -> Iterator[str]:
    for entry in _entries(folder, budget):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if _is_one(entry.path, budget):
                yield entry.path
            elif depth > 0:
                yield from _below(entry.path, depth - 1, budget)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _is_one(folder: str, budget: List[int]) -> bool:
    """Whether the folder as a whole is a checkpoint."""
    from . import one_file, sharded

    names: Set[str] = {entry.name for entry in _entries(folder, budget)}
    if sharded.kind_of(folder, names) is not None:
        return True
    has_files = any(name.endswith(one_file.SUFFIXES) for name in names)
    return has_files and sharded.is_numbered(os.path.basename(folder))


def _entries(folder: str, budget: List[int]) -> List[Any]:
    found: List[Any] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if budget[0] <= 0:
                    break
                budget[0] -= 1
                found.append(entry)
    except OSError:
        # Gone meanwhile, or not to be read: no place for a checkpoint.
        return []
    return sorted(found, key=lambda entry: entry.name)


def is_being_written(path: str, folder: str) -> bool:
    """Whether somebody is known to have a checkpoint below the folder open to write, or a file of it."""
    top = os.path.realpath(folder)
    files = _files(path) if os.path.isdir(path) else [path]
    plain = (one for one in files if copies.state(one) is not None)
    return any(copies.is_being_written(one, top) for one in plain)


def changed_ns(path: str) -> int:
    """When a checkpoint was last written to."""
    times = [0]
    for one in [path] if not os.path.isdir(path) else _files(path):
        try:
            status = os.lstat(one)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            times.append(status.st_mtime_ns)
    return max(times)


def _files(folder: str) -> Iterator[str]:
    """All below it, however deep: a job may have made more folders in each other than calls may be."""
    budget, waiting = [_MOST_ENTRIES], [folder]
    while waiting:
        for entry in _entries(waiting.pop(), budget):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry.path


def _compared(folder: str, found: List[Found]) -> List[Found]:
    """`found`, oldest first; what has lost names that all before it in its family had is torn, unless it has some
    that none of them had."""
    common: Dict[str, FrozenSet[str]] = {}
    all_names: Dict[str, FrozenSet[str]] = {}
    told: List[Found] = []
    for one in found:
        family = _series_of(os.path.relpath(one.path, folder))
        known = common.get(family, one.names)
        missing = known - one.names
        if one.verdict.state == COMPLETE and missing and one.names <= all_names[family]:
            why = f"{len(missing)} of {len(known)} parts of the one before are missing"
            told.append(one._replace(verdict=Verdict(TORN, why)))
            continue
        if one.verdict.state == COMPLETE:
            common[family] = known & one.names
            all_names[family] = all_names.get(family, _NO_NAMES) | one.names
        told.append(one)
    return told


def family_of(path: str) -> str:
    """What checkpoints of one series have in common, by their paths within the folder."""
    return re.sub(r"\d+", "#", path)


def _series_of(path: str) -> str:
    """The same of one rank alone: those of others hold other parts."""
    return re.sub(_NO_RANK, "#", path)
