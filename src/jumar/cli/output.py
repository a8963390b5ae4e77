"""How things look in the terminal: errors, notes, tables, times. Plain where stdout is no terminal.

All of it may quote other people's text, which is shown and never obeyed (`terminal`).

Written without rich, which takes 70 ms to import; commands that draw use rich themselves."""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO
from unicodedata import east_asian_width

from jumar.cli.terminal import json_escaped, readable, readable_line
from jumar.spec.duration import format_duration
from jumar.spec.states import JobState
from jumar.spec.wire import encode
from jumar.words import language

_GAP = "  "
_RESET = "\033[0m"
_BOLD, _DIM, _RED, _GREEN, _YELLOW, _BLUE = (f"\033[{n}m" for n in (1, 2, 31, 32, 33, 34))
_STATE_COLOURS = {
    JobState.QUEUED: _YELLOW,
    JobState.STARTING: _BLUE,
    JobState.RUNNING: _BLUE,
    JobState.STOPPING: _BLUE,
    JobState.SUCCEEDED: _GREEN,
}


def wants_colour(stream: TextIO) -> bool:
    """Colours go to terminals only, and not where NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def complain(message: str, *, hint: str | None = None) -> None:
    """An error in one form, on stderr."""
    print(f"{_paint('error:', _RED, sys.stderr)} {readable(message)}", file=sys.stderr)
    if hint:
        print(f"{_paint('hint:', _BOLD, sys.stderr)} {readable(hint)}", file=sys.stderr)


def note(message: str) -> None:
    """A word to the user, on stderr."""
    # In the order it happened, also where both go to one file.
    sys.stdout.flush()
    print(readable(message), file=sys.stderr, flush=True)


def say(message: str) -> None:
    """What was asked for, on stdout."""
    print(readable(message))


def print_json(record: Any) -> None:
    """A record, or several, as JSON on stdout."""
    print(json_text(encode(record), indent=2))


def json_text(values: Any, *, indent: int | None = None) -> str:
    """JSON values as text that is safe to show."""
    return json_escaped(json.dumps(values, indent=indent, ensure_ascii=False))


class Painted(str):
    """Text of our own: the escapes in it are meant."""

    __slots__ = ()


def state_text(state: JobState) -> Painted:
    """The state in its colour."""
    # Late: the words of causes and reasons take 34 ms to import, and most commands show no state.
    from jumar.words.reasons import state_name

    return _paint(state_name(state, language()), _STATE_COLOURS.get(state, _RED), sys.stdout)


def local(text: str) -> str:
    """A label, a heading or a short text of the command line in the language of the terminal; its
    English is the key."""
    if language() == "en":
        return text
    from jumar.words.catalogue import catalogue

    return str(catalogue(language())["terminal"][text])


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None
) -> None:
    """Columns as wide as they need; cells may be painted. `width` cuts the last column."""
    header = [local(heading) for heading in header]
    rows = [
        [cell if isinstance(cell, Painted) else readable_line(cell) for cell in row] for row in rows
    ]
    widths = [max(map(_width, column)) for column in zip(header, *rows, strict=True)]
    if width is not None:
        room = max(_width(header[-1]), width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1))
        rows = [[*row[:-1], clip(row[-1], room)] for row in rows]
        widths[-1] = min(widths[-1], room)
    print(_paint(_line(header, widths), _DIM, sys.stdout))
    for row in rows:
        print(_line(row, widths))


def clip(text: str, width: int) -> str:
    """`text` in one line, at most `width` columns."""
    text = " ".join(text.split())
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + "…"


def visible(name: str) -> str:
    """A stranger's name as one line: what a terminal would obey, or cannot show, as escapes."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in name
    )


def ago(then: float | None, now: float | None = None) -> str:
    """`5m ago`."""
    if then is None:
        return "-"
    return local("{span} ago").format(span=_rough((now or time.time()) - then))


def until(then: float, now: float | None = None) -> str:
    """`in 5m`."""
    return local("in {span}").format(span=_rough(then - (now or time.time())))


def clock(at: float) -> str:
    """`14:20`, with the date unless it is today."""
    then = time.localtime(at)
    is_today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", then)


def span(start: float | None, end: float | None) -> str:
    """How long it took, or has taken so far."""
    if start is None:
        return "-"
    return _rough((end or time.time()) - start)


def _rough(seconds: float) -> str:
    """The two largest units are enough to read."""
    whole = max(0, round(seconds))
    for unit_s, keep_s in ((86400, 3600), (3600, 60)):
        if whole >= unit_s:
            whole -= whole % keep_s
            break
    return format_duration(whole)


def padded(text: str, width: int) -> str:
    """`text` and blanks: at least `width` columns."""
    return text + " " * (width - _width(text))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(map(padded, cells, widths)).rstrip()


def _width(text: str) -> int:
    """Columns on the screen: colours take none, Chinese characters two."""
    columns, in_escape = 0, False
    for character in text:
        if character == "\033":
            in_escape = True
        elif in_escape:
            in_escape = character != "m"
        else:
            columns += 2 if east_asian_width(character) in "WF" else 1
    return columns


def _paint(text: str, colour: str, stream: TextIO) -> Painted:
    return Painted(f"{colour}{text}{_RESET}" if wants_colour(stream) else text)
