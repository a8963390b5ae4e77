"""What the log of a rank tells of its end: the last lines, when its fault began, and whether it only
says that another rank is gone.

The words by which that is seen are in `faults.tsv`."""

import os
import re
import time
from typing import Dict, List, Optional, Tuple

from jumar.launch.processes.spawn import open_log

_HEADER = "says\twho\twords"
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_MOST_BYTES = 65536
_MOST_LINES = 40
UNKNOWN_PLACE = "an unknown place"
_LINES_OF_A_FAULT = 6
"""What follows is often another matter."""
_ANOTHER_MATTER = re.compile(
    r"\s*$|(\[rank\d+\]:\s*)?\[?[WIEF]\d{4} |terminate called|The above exc|During h"
)


def _table() -> Dict[str, List[str]]:
    """The words by what they say."""
    # As pkgutil would ask for it, in a folder or an archive; that module takes a while to load.
    data: bytes = globals()["__loader__"].get_data(
        os.path.join(os.path.dirname(__file__), "faults.tsv")
    )
    lines = data.decode().splitlines()
    made: Dict[str, List[str]] = {}
    for line in lines[lines.index(_HEADER) + 1 :]:
        says, _, words = line.split("\t")[:3]
        made.setdefault(says, []).append(words)
    return made


_TABLE = _table()


def _words(says: str) -> Tuple[str, ...]:
    return tuple(_TABLE.get(says, ()))


_OPENS = _words("opens")
_LOST_PEER = _words("lost-peer")
_COLLECTIVES = frozenset(_words("collective"))
_FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')
_ABORTED = "Fatal Python error: Aborted"
_ASKED = _words("asked")
_ACCUSES = tuple(map(re.compile, _words("accuses")))
_DISK_FULL = _words("disk-full")
_NO_CUDA = _words("no-cuda")


class LogTail:
    """The end of a log, as far as it was written after this was made, or `from_start`."""

    def __init__(self, path: str, *, from_start: bool = False) -> None:
        self.path = path
        self._start = 0 if from_start else _size(path)
        self._seen = self._start
        self._looked_at = time.monotonic()
        self.fault_at: Optional[float] = None
        """When the last fault in it began, on the monotonic clock, as far as `look` has seen it."""

    def look(self) -> None:
        """Note the time of a fault that was written since the last look."""
        before, self._looked_at = self._looked_at, time.monotonic()
        try:
            with os.fdopen(open_log(self.path, os.O_RDONLY), "rb") as file:
                stat = os.fstat(file.fileno())
                if stat.st_size <= self._seen:
                    return
                file.seek(max(self._seen, stat.st_size - _MOST_BYTES))
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return
        self._seen = stat.st_size
        if any(words in text for words in _OPENS):
            # The clock of a file server may be another one.
            written_at = stat.st_mtime - time.time() + time.monotonic()
            self.fault_at = min(max(before, written_at), self._looked_at)

    def read(self) -> str:
        """The last lines; from the fault that ended it on, if there is one."""
        lines = self._lines()
        start = _last_traceback(lines)
        lines = lines[-20:] if start is None else lines[start:]
        if len(lines) > _MOST_LINES:
            lines = [lines[0], "…", *lines[2 - _MOST_LINES :]]
        return "\n".join(lines)

    def read_all(self) -> List[str]:
        """The last lines, whatever they are."""
        return self._lines()

    def _lines(self) -> List[str]:
        try:
            with os.fdopen(open_log(self.path, os.O_RDONLY), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(self._start, size - _MOST_BYTES))
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return []
        return text.rstrip().splitlines()


def lost_peer_sign(tail: str) -> Optional[str]:
    """The words by which a rank says that another one is gone, if that is what ended it."""
    text = _root_fault(tail.splitlines())
    return next((words for words in _LOST_PEER if words in text), None)


def accused_in(tail: str) -> Optional[int]:
    """The rank that this one finds to differ from itself."""
    text = _root_fault(tail.splitlines())
    found = next(filter(None, (pattern.search(text) for pattern in _ACCUSES)), None)
    return None if found is None else int(found[1])


def is_fault(tail: str) -> bool:
    """Whether it tells of a fault of its own: no lost peer, nor a request to end."""
    text = _root_fault(tail.splitlines())
    return (
        any(words in text for words in _OPENS)
        and lost_peer_sign(tail) is None
        and accused_in(tail) is None
        and not any(words in text for words in _ASKED)
    )


def goes_on(tail: str) -> bool:
    """Whether more was written after the fault."""
    lines = tail.rstrip().splitlines()
    return bool(lines) and lines[-1] not in _root_fault(lines).splitlines()


def is_disk_full(tail: str) -> bool:
    """Whether it tells of a file that found no room."""
    return any(words in tail for words in _DISK_FULL)


def misses_cuda(tail: str) -> bool:
    """Whether it is what torch says to a script for CUDA where there is none."""
    return any(words in tail for words in _NO_CUDA)


def stuck_in(lines: List[str]) -> str:
    """Where a rank was when it was made to write down its stacks: a collective, else its own line.

    Nothing else in its log tells: what it raised or wrote down before, it has gone on from."""
    starts = [index for index, line in enumerate(lines) if _ABORTED in line]
    # `  File "x.py", line 3 in all_reduce`, the innermost first, of one thread after the other.
    found = [_FRAME.search(line) for line in lines[starts[-1] if starts else 0 :]]
    stacks = [(frame[1], frame[2], frame[3]) for frame in found if frame is not None]
    for _, _, name in stacks:
        if is_collective(name):
            return name
    own = [(path, line) for path, line, _ in stacks if not _is_library(path)]
    return f"{own[0][0]}:{own[0][1]}" if own else UNKNOWN_PLACE


def is_collective(name: str) -> bool:
    """Whether it is a function in which a rank waits for the others."""
    return name in _COLLECTIVES


def _is_library(path: str) -> bool:
    return "-packages/" in path or "/lib/python" in path


def own_place(tail: str) -> Optional[str]:
    """The last line of a traceback's stack that is no library's: where the script was."""
    places = [line[line.index('File "') :] for line in tail.splitlines() if 'File "' in line]
    own = [place for place in places if not _is_library(place)]
    return own[-1] if own else None


def add_line(path: str, words: str) -> None:
    """A word of the platform in a rank's log; raises OSError."""
    log = open_log(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, f"jumar: {words}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(log)


def _last_traceback(lines: List[str]) -> Optional[int]:
    """Where the last one begins, with those that led to it."""
    starts = [index for index, line in enumerate(lines) if _TRACEBACK in line]
    while len(starts) > 1 and _is_chained(lines[starts[-2] : starts[-1]]):
        starts.pop()
    return starts[-1] if starts else None


def _is_chained(between: List[str]) -> bool:
    return any(words in line for line in between[-3:] for words in _CHAINED)


def _root_fault(lines: List[str]) -> str:
    """What the first exception of a chain says; else the first lines that tell of a fault, else all.

    What a rank writes after its own fault, while its peers go, is no part of it."""
    start = _last_traceback(lines)
    if start is not None:
        message = _message(lines[start + 1 :], lines[start].find(_TRACEBACK))
        if message:
            return f"{_TRACEBACK}\n{message}"
    for index, line in enumerate(lines):
        if any(words in line for words in (*_OPENS, *_LOST_PEER)):
            return "\n".join(lines[index : index + _LINES_OF_A_FAULT])
    return "\n".join(lines)


def _message(lines: List[str], indent: int) -> str:
    """The exception below the stack, which is indented; some put a prefix before every line."""
    for index, line in enumerate(lines):
        rest = line[indent:]
        if rest[:1].strip() and not rest.startswith("…"):
            return "\n".join(_one_matter(lines[index:]))
    return ""


def _one_matter(lines: List[str]) -> List[str]:
    for index, line in enumerate(lines[1:_LINES_OF_A_FAULT], start=1):
        if _ANOTHER_MATTER.match(line):
            return lines[:index]
    return lines[:_LINES_OF_A_FAULT]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
