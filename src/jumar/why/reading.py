"""Lines of a log as their writers meant them: without colours and prefixes, with rank and time."""

import calendar
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from jumar.spec.text import storable

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_END = re.compile(r"[\r\n]")
# The end of a value that was read from a file with Windows line ends, as Python shows it.
_QUOTED_END = re.compile(rb"(?<=\w)\r(?=['\"])")
# A traceback that somebody has pasted as one line.
_PASTED = re.compile(rb'Traceback \(most recent call last\): +File "')
# A record of a logger, or of what a container wrote.
_RECORD = re.compile(rb'\{"\w{1,20}": ?"')
_RECORD_SAYS = (
    *(
        "log",
        "message",
        "msg",
        "event",
        "error",
        "exception",
        "exc_info",
        "traceback",
        "stack_trace",
    ),
    *("stacktrace", "stack"),
)
_RECORD_LEVELS = ("level", "levelname", "severity")
_GRAVE = frozenset(("error", "critical", "fatal"))
_PASTED_PARTS = re.compile(r"(?= File \")|(?: )(?=[A-Z][A-Za-z]{2,40}(?:Error|Exception): )")
# `[rank1]: `, `1: `, `[3]:`, `(Actor pid=7, ip=…) `, `[default0]:`, `[1,0]<stderr>:`, `10.0.0.7: `, `worker-3: `,
# `(raylet) `; `W0000` is none.
_PREFIX = re.compile(
    r"(?:\[\d+\] )?(?:\[(?:rank|default)?(?P<a>\d+)\]: ?|\[\d+,(?P<b>\d+)\]<std\w+>: ?"
    r"|\((?:[\w.:-]+ ){0,3}pid=\w+[^)]{0,80}\) ?|\(raylet[^)]{0,80}\) ?|rank(?P<d>\d+): "
    # Docker Compose: `worker-1     | `.
    r"|[a-z][\w.-]{0,60}[-_]\d{1,4} +\| ?"
    r"|(?P<c>\d{1,5}): (?=\S| )|(?:\d{1,3}(?:\.\d{1,3}){3}|[a-z][\w-]{0,60}\d): (?=\S| ))"
)
# What a logger puts before each line of a traceback: `ERROR 01-16 11:51:23 [engine.py:671] `, `[INFO:swift] `,
# the time of `kubectl logs --timestamps`.
_LOGGED = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) ?"
    r"|(?:ERROR|CRITICAL|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+\.py:\d+\] ?"
    r"|\[(?:ERROR|WARNING|INFO):\w+\] "
    # A step of an image's build and its seconds: `#14 2.120 `.
    r"|#\d{1,3} \d{1,5}\.\d{1,3} "
    # The time alone, before a traceback.
    r"|\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\]? (?=  File \"| {4}\S|(?:Original )?Traceback \(most|[A-Za-z_][\w.]{2,60}(?:Error|Exception): )"
    # The number of the line.
    r"|\[\d{4,9}\] (?=\s|Traceback \(most|[A-Za-z_.]{3,60}(?:Error|Exception)\b)"
    # What a child wrote and its parent logs, as information too.
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [-|])? ?(?:\S{1,40} [-|] )?\[?(?:ERROR|WARNING|INFO)\]?(?: [-|])? (?:\[\w+\] )?"
    r"(?=\[rank\d+\]|Traceback \(most|\s*File \"|[A-Za-z_.]{3,60}(?:Error|Exception)\b)"
)
_MOST_PREFIXES = 4
# A bar has no line end, so that what comes next stands behind it.
_BEHIND_A_BAR = re.compile(r"\[rank\d+\]: ?Traceback \(most recent")
_RANK = re.compile(r"\[Rank (\d+)\]|\bRank (\d+)\]|RankID:(\d+)|\[rank(\d+)\]")
_FULL = re.compile(
    r"(?P<Y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)[-T ](?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,6}))?"
)
_GLOG = re.compile(
    r"\b[WEF](?P<m>\d{1,2}?)(?P<d>\d\d) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)\.(?P<f>\d{1,6})"
)
_WAITED = re.compile(r"ran for (\d{1,12}) milliseconds|Timed out after (\d{1,9}) seconds")
# What HCCL waits by default before it complains, in seconds.
_WAITS = (("EI0006", 120.0), ("EI0002", 1800.0))
_LONGEST = 2000
_FEWEST_CITED = 3
_RECORD_LINES = 400
_BEGINS, _FRAME_BELOW = "Traceback (most recent call last)", re.compile(r'\s*File "')
_ALIKE = {ord(digit): "0" for digit in "123456789"}
# What an editor or a forum makes of straight quotes.
_STRAIGHT = {ord(curved): "'" for curved in "\u2018\u2019"}
_CURVED_NAME = re.compile(r"\u2018(?=[\w.]+\u2019)")
# `10:21:37 ERROR    No images were found in the   loading.py:12`, and below it, as far right, how that goes on.
_LEVEL_COLUMN = re.compile(
    r".{0,40}?\b(?:ERROR {4}|CRITICAL |WARNING {2}|INFO {5}|DEBUG {4})(?=\S)"
)
_FILE_COLUMN = re.compile(r" [\w.-]{1,60}\.py:\d{1,6} *$")
_FILE_WIDTH = 120
# A log that was pasted as a quotation.
_CITED = re.compile(r"> ?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: where it begins in the file, what it says, who says it and when."""

    offset: int
    text: str
    rank: int | None
    at: float | None
    writer: str = ""
    """Who wrote it, where many write into one log: the prefix of the line."""


def lines_of(start: int, text: bytes, year: int) -> list[Line]:
    """The lines of a part of a log; `year` is for times that have none."""
    found: list[Line] = []
    offset = start
    for raw in text.split(b"\n"):
        if b"\r" in raw:
            raw = _QUOTED_END.sub(rb"\\r", raw)
        # A bar that is drawn again and again, and what was written over it.
        for piece in _pieces(raw):
            if piece.strip():
                found.append(_line(offset, _ESCAPE.sub("", piece[:_LONGEST]), year))
        offset += len(raw) + 1
    return found


def _pieces(raw: bytes) -> list[str]:
    """What one line of a file holds: what a bar drew one over the other, a pasted traceback, or what a record says."""
    if _RECORD.match(raw) and len(raw) <= 20 * _LONGEST:
        with suppress(ValueError, RecursionError):
            said = storable("\n".join(_said_in(json.loads(raw))))
            return said.split("\n")[-_RECORD_LINES:] if said else [raw.decode("utf-8", "replace")]
    ends = _PASTED_PARTS if _PASTED.search(raw) else _LINE_END
    return ends.split(raw[-20 * _LONGEST :].decode("utf-8", "replace"))[-40:]


def _said_in(record: Any) -> Iterator[str]:
    """What a record tells people."""
    told = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
    levels = (str(told[key]).lower() for key in _RECORD_LEVELS if key in told)
    mark = "ERROR: " if any(level in _GRAVE for level in levels) else ""
    for key in _RECORD_SAYS:
        said = told.get(key)
        if isinstance(said, str) and said.strip():
            yield mark + said.rstrip("\n")
            mark = ""


def without_marks(lines: Sequence[Line]) -> list[Line]:
    """The same lines without what stands before each line of a traceback, whatever it is: a service's name, `> `.

    The traceback's own first line shows it: the next one has it too, before its frame."""
    found = _not_cited(lines)
    mark = ""
    for index, line in enumerate(found):
        begins = line.text.find(_BEGINS)
        if begins > 0 and index + 1 < len(found):
            mark = _shape(line.text[:begins])
            below = found[index + 1].text
            is_mark = mark.strip() and _FRAME_BELOW.match(below[begins:])
            mark = mark if is_mark and _shape(below[:begins]) == mark else ""
        if mark and _shape(line.text[: len(mark)]) == mark:
            found[index] = replace(line, text=line.text[len(mark) :])
        else:
            mark = ""
    return found


def unwrapped(lines: Sequence[Line]) -> list[Line]:
    """The same lines; of a table of messages, as rich prints one, each message in a line, without its column of files."""
    found: list[Line] = []
    column = None
    for line in lines:
        begins, ends = _columns_of(line.text)
        if ends is not None:
            column = begins
            found.append(replace(line, text=line.text[:ends].rstrip()))
        elif column is not None and line.text[:column].isspace():
            found[-1] = replace(found[-1], text=f"{found[-1].text} {line.text.strip()}"[:_LONGEST])
        else:
            column = None
            found.append(line)
    return found


def _columns_of(text: str) -> tuple[int, int | None]:
    """Where a message that stands in a column begins, and where that of the files does; None where there is none."""
    start = max(len(text) - _FILE_WIDTH, 0)
    file = _FILE_COLUMN.search(text, start)
    level = None if file is None else _LEVEL_COLUMN.match(text)
    if file is None or level is None or level.end() > file.start():
        return 0, None
    return level.end(), file.start()


def _not_cited(lines: Sequence[Line]) -> list[Line]:
    """The same lines; of a log whose every line is marked as a quotation, without that mark."""
    marks = [_CITED.match(line.text) for line in lines]
    if len(lines) < _FEWEST_CITED or not all(marks):
        return list(lines)
    return [
        replace(line, text=line.text[mark.end() :])
        for line, mark in zip(lines, marks, strict=True)
        if mark is not None
    ]


def _shape(text: str) -> str:
    """A text with all digits alike."""
    return text.translate(_ALIKE)


def _line(offset: int, text: str, year: int) -> Line:
    at = time_of(text, year)
    rank, writer = None, ""
    if not text.isascii() and _CURVED_NAME.search(text):
        text = text.translate(_STRAIGHT)
    bar = _BEHIND_A_BAR.search(text)
    text = text if bar is None else text[bar.start() :]
    for _ in range(_MOST_PREFIXES):
        prefix = _PREFIX.match(text)
        if prefix is not None:
            writer += prefix[0]
            # `[default0]:` counts on its machine only.
            if rank is None or prefix[0].startswith("[rank"):
                rank = next(
                    (int(number) for number in prefix.group("a", "b", "c", "d") if number), None
                )
        elif (prefix := _LOGGED.match(text)) is None:
            break
        text = text[prefix.end() :]
    said = _RANK.search(text) if rank is None else None
    if said is not None:
        rank = next(int(number) for number in said.groups() if number)
    return Line(offset, text, rank, at, writer)


def time_of(text: str, year: int) -> float | None:
    """The time in a line."""
    found = _FULL.search(text[:400]) or _GLOG.search(text[:200])
    if found is None:
        return None
    parts = found.groupdict()
    numbers = tuple(int(parts[name]) for name in "mdHMS")
    try:
        whole = calendar.timegm((int(parts.get("Y") or year), *numbers, 0, 0, 0))
    except (ValueError, OverflowError):
        return None
    return whole + float(f"0.{parts['f'] or 0}")


def waited(text: str) -> float:
    """How long whoever wrote this had waited before, in seconds: the fault is older by that."""
    found = _WAITED.search(text)
    if found is not None:
        return int(found[1]) / 1000 if found[1] else float(found[2])
    return next((seconds for word, seconds in _WAITS if word in text), 0.0)
