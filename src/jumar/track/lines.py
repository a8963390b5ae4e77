"""Numbers out of one line of a log: how far a training is, and how good.

The rules are for what trainings print: MindSpore's monitors, transformers' dicts, Lightning and tqdm bars,
Keras, Megatron, verl, JSON lines, `epoch 3 step 100 loss 0.12 acc 97.1%`. In prose only known names of
metrics count; in a line that is nothing but names and numbers, all do, if it tells how far the training is."""

import json
import math
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

MOST_LENGTH = 16_384
"""Longer lines are no lines of metrics."""
_NUMBER = r"[-+]?(?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?|[-+]?(?:nan|inf)"
NUMBER = re.compile(
    rf"(?<![\w.@])(?<![A-Za-z]-)(?P<value>{_NUMBER})(?P<percent>\s*%)?(?:\s*/\s*(?P<of>\d{{1,15}}))?(?!\.?\w)",
    re.I,
)
_BREAK = re.compile(r"[|,;:{}\[\]<>=\"'\t]|\s-\s")
# `【loss:】 0.1，acc：0.9`: as Chinese scripts write it.
_WIDE = str.maketrans("【】（）：，；＝", "  ():,;=")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NAME = re.compile(r"[^\W\d][\w/.@-]{0,79}")
# `trainer.py:88` is where a line comes from, `Epoch(train) [1]` a counter, `04/20 10:10:10` a date.
_FILE = re.compile(r"\.(?:py|cc|cpp|cu|c|h|go|rs|java)$")
_PHASE = re.compile(r"\((?:train|val|test)\)$")
_CLOCK = re.compile(r"\s+\d{1,2}:\d\d")
_MOST_PAIRS = 256


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line says."""

    values: dict[str, float]
    step: float | None = None
    epoch: float | None = None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`vocabulary.toml`."""

    steps: frozenset[str]
    epochs: frozenset[str]
    metrics: frozenset[str]
    qualifiers: frozenset[str]
    fillers: frozenset[str]
    settings: frozenset[str]
    higher: frozenset[str]
    lower: frozenset[str]

    def is_metric(self, name: str) -> bool:
        """Whether a name is known to be that of a metric."""
        return _ends_in(name, self.metrics)

    def sign(self, name: str) -> int:
        """1 where more is better, -1 where less is, 0 where nobody knows."""
        return _ends_in(name, self.higher) - _ends_in(name, self.lower)


def _ends_in(name: str, known: frozenset[str]) -> bool:
    """Whether a name is one of those, on its own or with words before it."""
    return bool({name, name.rpartition("/")[2], re.split(r"[/_ .-]", name)[-1]} & known)


def _vocabulary() -> Vocabulary:
    text = files("jumar.track").joinpath("vocabulary.toml").read_text("utf-8")
    rows = cast("dict[str, list[str]]", tomllib.loads(text))
    return Vocabulary(**{name: frozenset(words) for name, words in rows.items()})


WORDS = _vocabulary()
_HINT = re.compile(
    "|".join(map(re.escape, sorted(WORDS.metrics | WORDS.steps | WORDS.epochs))), re.I
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A number with what stands before it."""

    start: int
    end: int
    value: float
    name: str
    """In small letters, with `_` for spaces; empty where no name stands before it."""
    is_named: bool
    """Whether `:` or `=` stands between the name and the number."""
    is_strict: bool
    """Whether the name is also a single word."""
    total: float | None
    """What the number is a part of: 45/60."""


def read_line(line: str) -> Reading | None:
    """What a line says; None where that is nothing."""
    if len(line) > MOST_LENGTH or not _HINT.search(line):
        return None
    line = _ANSI.sub("", line).translate(_WIDE)
    said = _json(line)
    if said is not None:
        return said
    pairs = pairs_of(line)
    roles = roles_of(pairs, line)
    if roles is None:
        return None
    return _told(roles, {role: pairs[index].value for role, index in roles.items()}, pairs)


def pairs_of(line: str) -> list[Pair]:
    """The numbers of a line with the names before them."""
    found: list[Pair] = []
    before = 0
    for match in NUMBER.finditer(line):
        chunk = line[before : match.start()]
        name, is_named, is_strict = _name_in(chunk)
        found.append(
            Pair(
                match.start("value"),
                match.end("value"),
                float(match["value"]),
                name,
                is_named,
                is_strict,
                float(match["of"]) if match["of"] else None,
            )
        )
        before = match.end()
        if len(found) == _MOST_PAIRS:
            break
    return found


def _name_in(chunk: str) -> tuple[str, bool, bool]:
    """The name at the end of a text, whether `:` or `=` follows it, and whether it stands alone."""
    bare = chunk.rstrip(" \t:=\"'[(")
    ending = chunk[len(bare) :]
    bare = _PHASE.sub("", bare)
    pieces = _BREAK.split(bare)
    words = pieces[-1].lower().split()
    while words and words[-1] in WORDS.fillers:
        words.pop()
    if not words or not _NAME.fullmatch(words[-1]) or _FILE.search(words[-1]):
        return "", False, False
    is_named = ":" in ending or "=" in ending
    return _known(words), is_named, is_named and len(words) == 1


def _known(words: list[str]) -> str:
    """The longest end of `words` that can be the name of a metric, else the last word."""
    name = [words[-1]]
    for word in reversed(words[:-1]):
        if word not in WORDS.qualifiers or len(name) == 4:
            break
        name.insert(0, word)
    # `epoch 3 step 100`: a counter has no words before it but this one.
    if name[-1] in WORDS.steps | WORDS.epochs:
        return f"global_{name[-1]}" if words[-2:-1] == ["global"] else name[-1]
    return "_".join(name)


STEP, EPOCH = " step", " epoch"
"""Roles of numbers that are no metric's; no name of a metric begins with a space."""
Roles = dict[str, int]
"""Which of a line's numbers is what: by the name of the metric."""


def roles_of(pairs: list[Pair], line: str) -> Roles | None:
    """What the numbers of a line are; None where none is a metric."""
    roles: Roles = {}
    bar = None
    for index, pair in enumerate(pairs):
        if pair.name in WORDS.steps:
            is_whole = "global" in pair.name and "global" not in pairs[roles.get(STEP, index)].name
            roles[STEP] = index if is_whole else roles.get(STEP, index)
        elif pair.name in WORDS.epochs and (pair.name != "epochs" or pair.total is not None):
            # `epochs=10` is what was asked for.
            roles.setdefault(EPOCH, index)
        elif pair.total is not None and not pair.name and bar is None and not _is_date(pair, line):
            bar = index
    is_list = STEP in roles or (EPOCH in roles and "'epoch'" in line)
    metrics: Roles = {}
    for index, pair in enumerate(pairs):
        is_said = bool(roles) or _says_itself(pair)
        is_listed = is_list and pair.is_strict and _plain(pair, line)
        if (is_said and WORDS.is_metric(pair.name)) or (is_listed and not _counts(pair)):
            metrics.setdefault(pair.name, index)
    if bar is not None:
        roles.setdefault(STEP, bar)
    return {**roles, **metrics} if metrics else None


def _says_itself(pair: Pair) -> bool:
    """Whether a number is a metric's also where nothing counts: in prose, `a loss of 3` tells nothing."""
    return "@" in pair.name or (pair.is_named and pair.name not in WORDS.settings)


def _is_date(pair: Pair, line: str) -> bool:
    after = line.find("/", pair.end)
    return _CLOCK.match(line, after + 1 + len(str(int(pair.total or 0)))) is not None


def _counts(pair: Pair) -> bool:
    return pair.name in WORDS.steps or pair.name in WORDS.epochs


def _told(roles: Roles, numbers: dict[str, float], pairs: list[Pair]) -> Reading:
    """What the numbers in those roles say; `9823/10000` of a metric is a part."""
    values: dict[str, float] = {}
    for name, value in numbers.items():
        if name in (STEP, EPOCH):
            continue
        total = pairs[roles[name]].total
        values[name] = value / total if total else value
    return Reading(values, _finite(numbers.get(STEP)), _finite(numbers.get(EPOCH)))


def _plain(pair: Pair, line: str) -> bool:
    """Whether nothing but a separator comes after the number, as in lists of names and numbers."""
    return line[pair.end : pair.end + 2].strip(" \t")[:1] in ("", ",", "|", "-", "]", "}", "'", ";")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _json(line: str) -> Reading | None:
    start, end = line.find('{"'), line.rfind("}")
    # Some loggers put a date before it.
    if start < 0 or line[end + 1 :].strip() or "}" in line[:start]:
        return None
    try:
        document = json.loads(line[start : end + 1])
    except (ValueError, RecursionError):
        return None
    told = cast("dict[str, object]", document).items()
    numbers = {
        name.lower(): number for name, value in told if (number := _number(value)) is not None
    }
    step = next((numbers.pop(name) for name in sorted(WORDS.steps) if name in numbers), None)
    epoch = next((numbers.pop(name) for name in sorted(WORDS.epochs) if name in numbers), None)
    known = step is not None or epoch is not None or any(map(WORDS.is_metric, numbers))
    values = {name: value for name, value in numbers.items() if _NAME.fullmatch(name)}
    return Reading(values, _finite(step), _finite(epoch)) if values and known else None


def _number(value: object) -> float | None:
    """Also one that is written as a text, as fairseq does."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value) if value[-1:] not in "%/" and "/" not in value else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer may have any length.
    return None if isinstance(value, int) and abs(value) > 1e300 else float(value)
