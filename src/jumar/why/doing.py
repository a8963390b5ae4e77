"""What a rank was doing that others waited for, by its last lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jumar.why.knowledge import rows
from jumar.why.reading import Line
from jumar.why.symbols import cut

_LONGEST = 160
_LATEST = 3
"""So many of the last lines may tell it: what stands further above is over."""
# `42%|████      | 774000/1843921 [29:58<41:23, …]`, `61%|██████| 2.98G/4.90G [09:47<06:20, …]`.
_BAR = re.compile(
    r"(?P<at>\d[\d.]{0,15})(?P<unit>[kKMGT]?)/(?P<of>\d[\d.]{0,15}[kKMGT]?) \[(?P<spent>\d[\d:]{1,12})<(?P<left>[\d:?]{1,12})"
)
_DRAWN = re.compile(r"(\d%)\|[^|\w]{1,200}\|")
# What others write meanwhile: warnings, NCCL's own lines, frames of C++, what watchdogs and launchers say.
_ASIDE = re.compile(
    r"^\W{0,3}(?:[WIEF]\d{3,4} |frame #\d|Exception raised from )|\bNCCL (?:INFO|WARN)\b|Warning\b|^\s*warnings\.warn|ProcessGroupNCCL|TCPStore|\[c10d\]"
    r"|torch[./]distributed|torch_dtype|OMP_NUM_THREADS|^\W*$"
)
_MINUTE = 60
_DOWNLOAD, _SAVE = "download", "save"
_AT_END = frozenset(("done", _SAVE))


@dataclass(frozen=True, slots=True)
class Doing:
    """What a rank did last."""

    name: str
    """What kind of thing it was; empty where its words do not tell."""
    said: str
    is_over: bool = False
    """Its bar is full."""
    spent_s: int = 0
    """How long it had been at it, and how long it would have taken in all; 0 where no bar says so."""
    whole_s: int = 0


def doing(lines: Sequence[Line]) -> Doing | None:
    """What the last of these lines show; None if there is none that tells of anything."""
    found = [_read(line.text.strip()) for line in _told(lines)]
    # What stands above a bar of the training itself is over.
    bar = next((at for at, one in enumerate(found) if one.whole_s and not one.name), len(found))
    named = (at for at, one in enumerate(found[:bar]) if one.name and not one.is_over)
    at = next(named, 0)
    if not found:
        return None
    is_after = any(one.name in _AT_END for one in found[at + 1 :])
    is_sent = found[at].name == _DOWNLOAD and is_after
    # A file that is carried at the end is not fetched.
    return replace(found[at], name=_SAVE) if is_sent else found[at]


def _told(lines: Sequence[Line]) -> Iterator[Line]:
    """The last lines that the program itself wrote, the last first."""
    count, drawn = 0, -1
    for line in reversed(lines):
        # Of a bar that is drawn again and again, as it stood last.
        if line.offset != drawn and not _ASIDE.search(line.text):
            count, drawn = count + 1, line.offset
            yield line
        if count == _LATEST:
            return


def _read(text: str) -> Doing:
    bar = _BAR.search(text)
    is_over = bar is not None and (
        bar["left"] == "00:00" or f"{bar['at']}{bar['unit']}" == bar["of"]
    )
    spent = 0 if bar is None else _seconds(bar["spent"])
    left = 0 if bar is None else _seconds(bar["left"])
    name = _name(text, is_bar=bar is not None)
    said = cut(_DRAWN.sub(r"\1", text), _LONGEST)
    return Doing(name, said, is_over, spent, spent + left)


def _name(text: str, *, is_bar: bool) -> str:
    found = (
        name for name, needs_bar, one in _doings() if (is_bar or not needs_bar) and one.search(text)
    )
    return next(found, "")


def _seconds(text: str) -> int:
    """Of `29:58` or `1:12:33`; 0 of `?`."""
    total = 0
    for part in text.split(":"):
        total = total * _MINUTE + (int(part) if part.isdigit() else 0)
    return total


@cache
def _doings() -> Sequence[tuple[str, bool, re.Pattern[str]]]:
    return tuple(
        (name, bar == "yes", re.compile(pattern))
        for name, bar, pattern in rows("jumar.why", "doings.tsv")
    )


def patterns() -> Mapping[str, re.Pattern[str]]:
    """All patterns of the table, by name."""
    return {f"{name} {number}": one for number, (name, _, one) in enumerate(_doings())}
