"""How much of a training fits into one segment: counted in what its log says, and when it says it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import median

_OF = r"(?:\s*(?:/|of)\s*(\d{1,12}))?"
_UNITS = {
    "epochs": re.compile(rf"\bepoch(?:s|\s*#)?\s*[:=\[( ]\s*(\d{{1,12}}){_OF}", re.I),
    "steps": re.compile(rf"\b(?:step|iter|iteration)s?\s*[:=\[( ]\s*(\d{{1,12}}){_OF}", re.I),
}
_WHOLE = {
    "epochs": re.compile(r"--?(?:num_train_|num[-_]|max[-_])?epochs?[= ](\d{1,12})\b"),
    "steps": re.compile(r"--?(?:num_train_|num[-_]|max[-_])?(?:steps|iters)[= ](\d{1,12})\b"),
}
# A progress bar: `45%|####      | 45/100 [00:12<00:15, 3.7it/s]`, also without its percentage.
_BAR = re.compile(r"\|\s*(\d{1,12})/(\d{1,12})\s*\[\d\d:")
_FEW = 10
"""Fewer units than this in a segment: one more or less is more than a tenth."""
_UNSURE = 0.1
"""How much earlier or later, in units, the next segments may begin and end."""
# Another number on a line that counts epochs: a loss, a time. It is written at the end of one.
_RESULT = re.compile(r"\d\.\d|[:=]\s*-?\d")


@dataclass(frozen=True, slots=True)
class Pace:
    """What one segment did of a training."""

    unit: str
    """`epochs`, or `steps` where the log counts no two epochs."""
    done: int
    """What was whole when it was asked to end."""
    total: int | None
    """None: neither the log nor the command says it."""
    per_segment: float
    """What the next ones will do, on average."""

    @property
    def segments(self) -> int | None:
        """How many segments all of it takes."""
        if self.total is None:
            return None
        return 1 + max(0, ceil((self.total - self.done) / self.per_segment - 1e-9))


@dataclass(frozen=True, slots=True)
class _Count:
    number: int
    total: str | None
    at: float
    line: int
    is_result: bool


def pace_of(
    lines: Sequence[tuple[float, str]],
    command: str,
    *,
    asked_at: float | None,
    reported: int = 0,
) -> Pace | None:
    """The pace of a training that began at its beginning, by its lines and when each came; None where its log counts
    nothing. `asked_at`: when it was asked to end; None if it came to its end. `reported`: how many steps it told the platform,
    which counts where its log does not."""
    found = [pace for unit in _UNITS if (pace := _counted(unit, lines, command, asked_at))]
    if all(pace.done <= 1 for pace in found):
        found += [pace for pace in (_by_bar(lines, asked_at),) if pace]
    if not found and reported:
        whole = [int(match[1]) for match in _WHOLE["steps"].finditer(command)]
        found = [Pace("steps", reported, whole[-1] if whole else None, float(reported))]
    # One epoch alone was most likely cut: steps tell more.
    return next((pace for pace in found if pace.done > 1), found[-1] if found else None)


def _counted(
    unit: str, lines: Sequence[tuple[float, str]], command: str, asked_at: float | None
) -> Pace | None:
    seen = [
        _Count(int(match[1]), match[2], at, index, _is_result(text, match))
        for index, (at, text) in enumerate(lines)
        for match in _UNITS[unit].finditer(text)
    ]
    if not seen:
        return None
    # In the order of when each was first told: some are spoken of again, as the best one.
    by_number: dict[int, _Count] = {}
    for one in seen:
        by_number.setdefault(one.number, one)
    firsts = list(by_number.values())
    told = [int(one.total) for one in seen if one.total] or [
        int(match[1]) for match in _WHOLE[unit].finditer(command)
    ]
    total = told[-1] if told else None
    if unit == "epochs":
        done, average = _epochs(firsts, len(lines), asked_at)
    else:
        done = _steps(firsts, asked_at)
        average = float(done)
    return Pace(unit, max(1, done), total, max(0.5, average))


def _by_bar(lines: Sequence[tuple[float, str]], asked_at: float | None) -> Pace | None:
    """By the bar that goes once over the whole training, as transformers' Trainer shows one. Those that begin anew
    go over an epoch or an evaluation; which of several would be the right one cannot be told."""
    bars: dict[str, list[_Count]] = {}
    for index, (at, text) in enumerate(lines):
        for match in _BAR.finditer(text):
            shown = bars.setdefault(match[2], [])
            # One that stands still is drawn again.
            if not shown or shown[-1].number != int(match[1]):
                shown.append(_Count(int(match[1]), match[2], at, index, False))
    once = [one for one in bars.values() if _rises(one)]
    if len(once) != 1 or once[0][-1].number < 1:
        return None
    done = _steps(once[0], asked_at)
    total = int(once[0][0].total or 0)
    return Pace("steps", max(1, min(done, total)), total, max(0.5, float(done)))


def _rises(shown: Sequence[_Count]) -> bool:
    return len(shown) > 1 and all(one.number < later.number for one, later in pairwise(shown))


def _is_result(text: str, match: re.Match[str]) -> bool:
    return _RESULT.search(text[: match.start()] + " " + text[match.end() :]) is not None


def _epochs(firsts: Sequence[_Count], lines: int, asked_at: float | None) -> tuple[int, float]:
    """How many were whole, since the next segment does a part of one again; and the average of such segments."""
    begun = len(firsts)
    if asked_at is None:
        return begun, float(begun)
    bodies = [after.line - before.line - 1 for before, after in pairwise(firsts)]
    bodies.append(lines - firsts[-1].line - 1)
    # A line without results over other lines is the head of an epoch, of which the last was cut.
    is_head = not any(one.is_result for one in firsts) and min(bodies[:-1] or bodies) > 0
    done = begun - 1 if is_head else begun
    if done >= _FEW or begun < 2:
        return done, float(done)
    # Where the next one was all but done, or the last one only just, the next segments will differ.
    interval = median(after.at - before.at for before, after in pairwise(firsts))
    part = (asked_at - firsts[-1].at) / interval if interval > 0 else 0.5
    if part < -_UNSURE:
        # Asked in the middle of an epoch, it did all of that one, as the next segments will.
        return done, float(done)
    late, early = max(0.0, min(part, 1.0) - (1 - _UNSURE)), max(0.0, _UNSURE - max(part, 0.0))
    return done, done + (late - early) / (2 * _UNSURE)


def _steps(firsts: Sequence[_Count], asked_at: float | None) -> int:
    """How many were done: the last that was told, and as many as fit between that and the end at this pace."""
    # They count from 0 or 1, and may be told every hundredth only.
    last = firsts[-1]
    if asked_at is None or len(firsts) < 2:
        return max(one.number for one in firsts)
    # The first ones wait for compilers and caches.
    later = firsts[len(firsts) // 4 :] if len(firsts) > 3 else firsts
    took, steps = last.at - later[0].at, last.number - later[0].number
    apart = median(after.number - before.number for before, after in pairwise(firsts))
    if took <= 0 or steps <= 0:
        return last.number
    more = (asked_at - last.at) * steps / took
    return last.number + int(min(max(more, 0.0), apart))
