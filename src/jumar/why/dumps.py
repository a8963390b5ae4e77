"""Where a program stands that fails in no way: the stacks that py-spy and faulthandler print of one that hangs."""

import re
import sys
from collections.abc import Sequence

from jumar.why.event import Event, began
from jumar.why.knowledge import STALLED, causes
from jumar.why.particulars import read
from jumar.why.raised import is_library_path
from jumar.why.reading import Line
from jumar.why.symbols import LONGEST_ERROR, cut

# `Thread 812 (idle): "MainThread"`, `Thread 0x00007f (most recent call first):`.
_THREAD = re.compile(r"(?:Current t|T)hread (?:0x)?[0-9a-f]+ \([^)]*\)(?::|$)")
_MAIN = '"MainThread"'
_FRAME = re.compile(
    r'\s+(?:File "(?P<file>[^"]+)", line (?P<at>\d+) in (?P<inside>\S+)'
    r"|(?P<name>\S.*) \((?P<path>[^()\s]+):(?P<line>\d+)\))\s*$"
)
_MOST_FRAMES = 60


def stalled(lines: Sequence[Line]) -> Event | None:
    """The last dump of the main thread; of the last thread where none is called so, as faulthandler has it."""
    threads = [at for at, line in enumerate(lines) if _THREAD.match(line.text)]
    main = [at for at in threads if _MAIN in lines[at].text]
    for start in (main or threads)[-1:]:
        frames = _frames(lines[start + 1 : start + 1 + _MOST_FRAMES])
        if frames:
            return _event(lines[start], frames)
    return None


def _event(line: Line, frames: list[tuple[str, str]]) -> Event:
    own = next((place for _, place in frames if _is_own(place)), frames[0][1])
    said = {"error": cut(frames[0][0], LONGEST_ERROR), "place": own}
    form = read(STALLED, "\n".join(told for told, _ in frames))
    event = Event(causes()[STALLED], line, began([line]), said, is_line=True)
    event.particular = None if form is None else form.name
    return event


def _frames(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Each frame as it is told, and its place; the innermost first."""
    found: list[tuple[str, str]] = []
    for line in lines:
        frame = _FRAME.match(line.text)
        if frame is None:
            break
        place = f"{frame['file'] or frame['path']}:{frame['at'] or frame['line']}"
        found.append((f"{frame['inside'] or frame['name']} ({place})", place))
    return found


def _is_own(place: str) -> bool:
    """py-spy shows files of packages from the package's folder on, those of Python and of the script by name."""
    if "/" in place:
        return place.startswith("/") and not is_library_path(place)
    return place.partition(".")[0] not in sys.stdlib_module_names
