"""How things look in the terminal: errors, notes, tables, times. Plain where stdout is no terminal.

All of it may quote other people's text, which is shown, never obeyed. A terminal treats some characters
as commands: move, clear, set the title, write to the clipboard, reply as if the user had typed. Names,
reasons and last lines of logs show them as escapes. Logs keep what training programs draw with
(colours, and lines that rewrite themselves) and nothing else.

Written without rich, which takes 70 ms to import; commands that draw use rich themselves."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeVar
from unicodedata import east_asian_width

from jumar.spec.duration import format_duration
from jumar.spec.states import JobState
from jumar.spec.wire import encode

T = TypeVar("T")
# C0 but tab and newline, DEL, C1; marks that turn the direction of text around, so that it reads as
# something else; line ends that only some programs know; halves of characters, which cannot be sent.
_ODD = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSEEN = re.compile(f"[{_ODD}]")
_UNSEEN_IN_LINE = re.compile(f"[\t\n{_ODD}]")
_SEQUENCE = (
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements, questions
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|(?=[\x1b\n]))"  # OSC, DCS and such: text up to its end
    r"|[ -/]*[0-OQ-WYZ\\`-~]"  # two characters: reset and the like, also the end of a text
    r")"
)
_IN_LOG = re.compile(f"{_SEQUENCE}|[{_ODD}]")
_WHOLE = re.compile(_SEQUENCE)
# Colours; erasing in a line; up, down, forward and back; to a column.
_DRAWING = re.compile(r"\x1b\[[0-9;:]*[mKABCDG]|[\r\b]")
_LONGEST_SEQUENCE = 4096


def language() -> str:
    """What the terminal's user reads, as the environment says it."""
    chosen = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    return "zh" if chosen.lower().startswith("zh") else "en"


def readable(text: str) -> str:
    """`text` of one or several lines, with what a terminal would obey as escapes."""
    return _UNSEEN.sub(_escaped, text.replace("\r\n", "\n"))


def readable_line(text: str) -> str:
    """`text` as one line."""
    return _UNSEEN_IN_LINE.sub(_escaped, text)


def json_escaped(text: str) -> str:
    """JSON that means the same, with nothing in it that a terminal would obey."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class LogFilter:
    """A log for a terminal, piece by piece; a sequence may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What of it can be shown now."""
        text = self._held + text
        last = text.rfind("\x1b")
        is_cut = last >= 0 and not _WHOLE.match(text, last)
        if not is_cut or len(text) - last > _LONGEST_SEQUENCE or "\n" in text[last:]:
            self._held = ""
            return _IN_LOG.sub(_drawn, text)
        self._held = text[last:]
        # With its first character, which may be what ends the sequence before it.
        return _IN_LOG.sub(_drawn, text[: last + 1]).removesuffix(r"\x1b")


def _drawn(found: "re.Match[str]") -> str:
    if _DRAWING.fullmatch(found[0]):
        return found[0]
    # A whole command is left out; a lone character may be content, so it is shown.
    return "" if len(found[0]) > 1 else _escaped(found)


def _escaped(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")


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
    head = _paint(local("error: "), _RED, sys.stderr)
    print(f"{head}{readable(translated(message))}", file=sys.stderr)
    if hint:
        head = _paint(local("hint: "), _BOLD, sys.stderr)
        print(f"{head}{readable(translated(hint))}", file=sys.stderr)


def note(message: str) -> None:
    """A word to the user, on stderr."""
    # In the order it happened, also where both go to one file.
    sys.stdout.flush()
    print(readable(translated(message)), file=sys.stderr, flush=True)


def say(message: str) -> None:
    """What was asked for, on stdout, as it is."""
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


def local(text: str, /, **values: object) -> str:
    """A label, a heading or a short text of the command line in the language of the terminal, with
    `values` put in; its English is the key."""
    if language() != "en":
        from jumar.words.reasons import catalogue

        text = str(catalogue(language())["terminal"].get(text, text))
    return text.format(**values) if values else text


def count_text(count: int, one: str, many: str) -> str:
    """`1 file` or `5,000 files` in the language of the terminal."""
    return local(one) if count == 1 else local(many, count=f"{count:,}")


def file_count(count: int) -> str:
    """`5,000 files` in the language of the terminal."""
    return count_text(count, "1 file", "{count} files")


def labelled(label: str, text: str) -> str:
    """`note: …`, with the colon of the language."""
    return local("{label}: {text}", label=local(label), text=text)


def translated(text: str) -> str:
    """Lines of ours, with whatever values, in the language of the terminal; English where it has none."""
    if language() == "en":
        return text
    from jumar.words.sentences import spoken

    return spoken(text, language())


def print_records(
    header: Sequence[str], records: Sequence[T], row: Callable[[T], Sequence[str]], *, as_json: bool
) -> None:
    """A table with a row for each, or all of them as JSON."""
    if as_json:
        print_json(records)
    elif not records:
        note("there are none")
    else:
        print_table(header, [row(record) for record in records])


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None
) -> None:
    """Columns as wide as they need; cells may be painted. `width` cuts the last column."""
    header = [local(heading) for heading in header]
    rows = [
        [cell if isinstance(cell, Painted) else readable_line(cell) for cell in row] for row in rows
    ]
    widths = [max(map(columns_of, column)) for column in zip(header, *rows, strict=True)]
    if width is not None:
        room = max(columns_of(header[-1]), width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1))
        rows = [[*row[:-1], clip(row[-1], room)] for row in rows]
        widths[-1] = min(widths[-1], room)
    print(_paint(_line(header, widths), _DIM, sys.stdout))
    for row in rows:
        print(_line(row, widths))


def clip(text: str, width: int) -> str:
    """`text` in one line, at most `width` columns."""
    text = " ".join(text.split())
    if columns_of(text) <= width:
        return text
    while columns_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def visible(name: str) -> str:
    """A stranger's name as one line: what a terminal would obey, or cannot show, as escapes."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in name
    )


def card_name(kind: str, name: str) -> str:
    """What makes a card is its own name; what we make is called so in the language of the terminal."""
    return local(name) if kind in ("sim", "cpu") else name or "-"


def ago(then: float | None, now: float | None = None) -> str:
    """`5m ago`."""
    if then is None:
        return "-"
    return local("{span} ago").format(span=rough_span((now or time.time()) - then))


def until(then: float, now: float | None = None) -> str:
    """`in 5m`."""
    return local("in {span}").format(span=rough_span(then - (now or time.time())))


def clock(at: float) -> str:
    """`14:20`, with the date unless it is today."""
    then = time.localtime(at)
    is_today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", then)


def span(start: float | None, end: float | None) -> str:
    """How long it took, or has taken so far."""
    if start is None:
        return "-"
    return rough_span((end or time.time()) - start)


def rough_span(seconds: float) -> str:
    """The two largest units are enough to read."""
    whole = max(0, round(seconds))
    for unit_s, keep_s in ((86400, 3600), (3600, 60)):
        if whole >= unit_s:
            whole -= whole % keep_s
            break
    return span_text(whole)


def span_text(whole_s: int) -> str:
    """`1h30m` in the language of the terminal."""
    text = format_duration(whole_s)
    if language() == "en":
        return text
    return " ".join(f"{count} {local(unit)}" for count, unit in re.findall(r"(\d+)([dhms])", text))


def padded(text: str, width: int) -> str:
    """`text` and blanks: at least `width` columns."""
    return text + " " * (width - columns_of(text))


def padded_left(text: str, width: int) -> str:
    """Blanks and `text`: at least `width` columns."""
    return " " * (width - columns_of(text)) + text


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(map(padded, cells, widths)).rstrip()


def columns_of(text: str) -> int:
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
