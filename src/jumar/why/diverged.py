"""Whether a training had diverged before an exception complained of its numbers.

Where a loss is no number any more, whatever works with it next raises: an assignment, a metric, a sampler, the file of a best model
that never was written. The bars and log lines above tell that, since when, and at which learning rate."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.knowledge import Level, causes
from jumar.why.signs import Sign, text_before
from jumar.why.symbols import cut

_NOT_A_NUMBER = "not-a-number"
_DIVERGED, _FROM_THE_START = "diverged", "diverged-at-once"
# What the log tells of how it began.
_BEGUN_BY = frozenset(("nan-divided", "nan-deviation", "nan-empty"))
# These speak of the training itself.
_SAYS_SO = frozenset(("loss-diverged", "loss-scale", "gradient-nan"))
# What follows from numbers that are none, where the message does not say so itself.
_FOLLOWS = re.compile(
    r"invalid numeric entries|cost matrix is infeasible|float (?:NaN|infinity) to integer|\binfs or NaNs\b|\bnon-finite\b|not JSON compliant"
    r"|(?:SVD|svd|eigh?|Eigenvalues|cholesky)\b.{0,60}\b(?:converge|ill-conditioned|positive)|\bcontains? (?:NaN|nan|infinity)|isnan|isfinite|is_finite"
    r"|boxes\w*\[:, ?2:\] ?>=? ?boxes|elements of (?:input|target) should be between 0 and 1|input_val >= zero|\bprobability tensor\b|satisfy the constraint"
    # Nothing is better than nan, so that no best model was kept.
    r"|(?i:\bbest(?:[-_]?\w{1,30})?\.(?:pth?|ckpt|bin|safetensors|h5|keras)\b|'best_\w+')"
)
_LINE_END = re.compile(r"[\r\n]")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# `loss=nan`, `'grad_norm': nan`, `lm loss: NAN`, `loss nan`.
_VALUE = re.compile(
    r"(?P<name>(?<![A-Za-z0-9_])[\w./]{0,30}?(?:loss|grad_?norm)(?:[_/.]\w{1,20})?)['\"]?(?: ?[:=] {0,3}| )['\"]?(?:tensor\()?"
    r"(?:(?P<none>-?(?:nan|inf(?:inity)?))\b|(?P<number>-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?))",
    re.IGNORECASE,
)
# A line of Ultralytics has the losses below their names: `  3/100   4.1G   nan   nan   nan   57   640: `.
_COLUMNS = re.compile(
    r"\s*\d{1,6}/\d{1,6}\s+\d[\d.]{0,8}G\s+(?:(?P<none>nan|inf)|(?P<number>\d{1,9}(?:\.\d{1,9})?))\s"
)
_RATE = re.compile(
    r"(?<![A-Za-z0-9])(?:base_)?(?:lr|learning[_ ]rate)['\"]?(?: ?[:=] {0,3}| )['\"]?\[?(?P<rate>\d(?:\.\d{1,16})?(?:e[+-]?\d{1,3})?)",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"['\"]loss['\"]: ?['\"]?0(?:\.0+)?\b")
_NAMES = ("loss", "norm", "LOSS", "Loss", "NORM", "Norm", "G ")
_LONGEST, _LONGEST_SHOWN = 2000, 150
_FEW, _RISEN = 3, 1.5


@dataclass(frozen=True, slots=True)
class _Told:
    """What one line says of losses and norms."""

    text: str
    values: Mapping[str, str]
    broken: str | None
    """The first of these that is no number, a loss before a norm."""


def diverged(chosen: Sign) -> list[Detail]:
    """What is said of the training that had diverged before; the event is told as that."""
    event = chosen.event
    if event.cause.level is not Level.FAULT and not event.is_unsure:
        return []
    if event.particular in _BEGUN_BY:
        return []
    said = f"{event.values.get('error', '')}\n{event.values.get('own', '')}\n{event.line.text}"
    if event.cause.name != _NOT_A_NUMBER and not _FOLLOWS.search(said):
        return []
    text, is_whole = text_before(chosen)
    told = list(_told_in(text))
    if event.particular in _SAYS_SO:
        return _last_values(told)
    begins = _begin(told)
    name = None if begins is None else told[begins].broken
    if begins is None or name is None or (begins == 0 and not is_whole):
        return []
    first = told[begins]
    before = next((one.values[name] for one in reversed(told[:begins]) if name in one.values), None)
    event.cause, event.is_literal, event.is_stated = causes()[_NOT_A_NUMBER], False, False
    event.is_general, event.also = False, ()
    event.particular = _FROM_THE_START if before is None else _DIVERGED
    event.values |= {
        "name": name,
        "value": first.values[name],
        "before": before or "",
        "at": cut(" ".join(first.text.split()), _LONGEST_SHOWN),
        "error": cut(event.line.text.strip(), _LONGEST_SHOWN),
    }
    # What is broken from its start is so at any rate.
    rate = [] if before is None else _rate([*told[begins:], *reversed(told[:begins])])
    return [*_hidden(first), *rate]


def _last_values(told: Sequence[_Told]) -> list[Detail]:
    """How the loss was before the line that says that it is no number any more, and the learning rate if it had risen."""
    name = next((name for one in reversed(told) for name in one.values if "loss" in name), None)
    lines = [one for one in told if name in one.values]
    values = [one.values[name] for one in lines[-_FEW:]] if name is not None else []
    if len(values) < _FEW or any(one.broken for one in lines[-_FEW:]):
        return []
    numbers = [float(value) for value in values]
    rate = _rate(lines[-1:]) if numbers[-1] > _RISEN * min(numbers) > 0 else []
    return [Detail(WHAT, "diverged-last", {"name": str(name), "values": ", ".join(values)}), *rate]


def _hidden(first: _Told) -> list[Detail]:
    """The trainer of transformers shows a loss that is no number as 0."""
    return [Detail(WHAT, "diverged-hidden", {})] if _HIDDEN.search(first.text) else []


def _rate(told: Sequence[_Told]) -> list[Detail]:
    rate = next((found["rate"] for one in told if (found := _RATE.search(one.text))), None)
    return [] if rate is None else [Detail(FIRST, "diverged-rate", {"rate": rate})]


def _told_in(text: str) -> Iterator[_Told]:
    """The lines that have such values."""
    for raw in _LINE_END.split(text):
        if not any(name in raw for name in _NAMES):
            continue
        line = _ESCAPE.sub("", raw[:_LONGEST])
        columns = _COLUMNS.match(line)
        found = list(_VALUE.finditer(line)) if columns is None else [columns]
        names = ["loss"] if columns is not None else [one["name"] for one in found]
        values = {
            name: one["none"] or one["number"] for name, one in zip(names, found, strict=True)
        }
        bad = [name for name, one in zip(names, found, strict=True) if one["none"]]
        if values:
            yield _Told(
                line, values, min(bad, key=lambda name: "norm" in name.lower(), default=None)
            )


def _begin(told: Sequence[_Told]) -> int | None:
    """Which was the first of those that have a value that is no number, up to the last one; None if all of that are numbers.

    Lines of another kind, of an evaluation say, may tell of other values between them."""
    begins, name = None, ""
    for at in range(len(told) - 1, -1, -1):
        one = told[at]
        if one.broken is not None:
            begins, name = at, one.broken
        elif begins is None or name in one.values:
            break
    return begins
