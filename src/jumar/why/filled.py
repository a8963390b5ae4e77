"""How memory filled up before there was none left: by what the lines above say of sizes and of steps.

At once, in a step like many before, or a little more in each: each has a remedy of its own, and only the log knows which."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jumar.why.event import Event
from jumar.why.particulars import read
from jumar.why.reading import Line
from jumar.why.signs import Sign

# What a process itself fills; who else holds the card, or where it was asked for more, is told by the message.
_CARD_FORMS = frozenset((None, "memory-own", "memory-own-listed", "memory-cached"))
_HOST_FORMS = frozenset((None, "worker-killed", "oom-step", "killed-plain"))
_FILLED_BY_OTHERS = frozenset(("memory-others", "memory-listed"))
_CARD = re.compile(r"[GN]PU (\d+)(?: has a total|; )")
_MOST_RANKS = 16
_OF_CARD, _OF_HOST = frozenset(("device-memory",)), frozenset(("host-memory", "killed"))
_UNIT = r"(?P<size>\d{1,6}(?:\.\d{1,4})?) ?(?P<unit>[KMGT]i?B?)?\b"
_CARD_SIZE = re.compile(
    rf"(?i)\b(?:gpu|cuda|npu|vram)?[ _-]?(?:max[ _-])?(?:mem(?:ory)?|alloc(?:ated)?|vram|reserved)(?:[ _-](?:allocated|alloc|used|usage|reserved|gb))?\b[^\w\n]{{1,4}}{_UNIT}"
)
_HOST_SIZE = re.compile(
    rf"(?i)\b(?:max[ _-]?)?(?:rss|host[ _-]?mem(?:ory)?|cpu[ _-]?mem(?:ory)?|ram|virtual_memory)(?:[ _-](?:used|usage|gb))?\b[^\w\n]{{1,4}}{_UNIT}"
)
_FEWEST_SIZES, _GROWN, _RISES = 4, 1.2, 0.7
_BAR = re.compile(
    r"(?<![\d/.])(?P<at>\d{1,9})/(?P<of>\d{1,9}) \[\d+:\d\d(?::\d\d)?<[^\]]{0,60}(?:it/s|s/it)"
)
_NO_TRAINING = re.compile(
    r"(?i)\b(?:load|map|filter|token|generat|download|fetch|shard|extract|cach|process|read|prepar|convert|warm|captur)\w*"
)
_STEP = re.compile(r"(?i)(?:\b|_)(?:step|iter|iteration|update)s?\b\W{0,4}(?P<at>\d{1,9})\b")
_LOSS = re.compile(r"(?i)loss")
_FEWEST_STEPS, _MANY_STEPS = 3, 50
"""So many show that a batch fits; so many more, that what is too much now has grown."""
_LOADS = re.compile(
    r"(?i)(?:Loading (?:checkpoint|pipeline|safetensors)[\w -]{0,30}|load(?:ing)? (?:the )?(?:model|weights|checkpoint|state)\b[^\n|]{0,40}):? +(?P<share>\d{1,3})%"
)
_ALL = "100"
_PREPARES = re.compile(
    r"(?i)\b(?P<name>(?:Map|Filter|Tokeniz\w+|Running tokenizer on \w+|Generating \w+ split|Grouping texts|Preprocessing|Extracting features)\b[^:|\n]{0,30}): +(?P<share>\d{1,3})%"
)
_RESUMED = re.compile(
    r"(?i)\b(?:resum(?:e|ed|ing) (?:training |run |model )?from\b|(?:continuing|restarting|restoring) (?:training )?from (?:the )?(?:checkpoint|saved|step|epoch)"
    r"|resume(?:_from_checkpoint|d from checkpoint)[=: ]+(?!none|false|null|''|\"\")\S)"
)
_MOST_RESUMED = 2


@dataclass(frozen=True, slots=True)
class _Kind:
    forms: frozenset[str | None]
    size: re.Pattern[str]
    cause: str


_KINDS = (
    (_OF_CARD, _Kind(_CARD_FORMS, _CARD_SIZE, "device-memory")),
    (_OF_HOST, _Kind(_HOST_FORMS, _HOST_SIZE, "host-memory")),
)


def name_how_it_filled(event: Event, lines: Callable[[], Sequence[Line]]) -> None:
    """Of memory that ran out, how it came to that, if the lines above tell."""
    kind = next((kind for names, kind in _KINDS if event.cause.name in names), None)
    if kind is None or event.particular not in kind.forms:
        return
    above = [line for line in lines() if line.offset <= event.line.offset]
    said = next(_told(kind, above, event), None)
    form = (
        None if said is None else read(event.cause.name if "killed" in said else kind.cause, said)
    )
    if form is not None:
        # That it was memory is certain only where something grew.
        event.cause, event.particular = form.cause, form.name
        event.values = {**event.values, **form.values}


def name_who_shares_the_card(chosen: Sign, others: Sequence[Sign]) -> None:
    """Of a card that others fill, whether these are ranks of the same job: each of them says so of the same card."""
    event = chosen.event
    if event.particular not in _FILLED_BY_OTHERS:
        return
    cards = {
        sign.rank: card[1]
        for sign in (chosen, *others)
        if sign.rank is not None
        and sign.event.particular in _FILLED_BY_OTHERS
        and (card := _CARD.search(sign.event.line.text)) is not None
    }
    if len(cards) > 1 and len(set(cards.values())) == 1:
        ranks = ", ".join(str(rank) for rank in sorted(cards)[:_MOST_RANKS])
        form = read("device-memory", f"device-memory of ranks {ranks} on card {cards.popitem()[1]}")
        if form is not None:
            event.particular = form.name
            event.values = {**event.values, **form.values}


def _told(kind: _Kind, above: Sequence[Line], event: Event) -> Iterator[str]:
    """What the lines tell, as the table's forms read it; a bar may end in the last one."""
    grown = _grown(kind.size, [line for line in above if line.offset < event.line.offset])
    if grown is not None:
        yield f"{kind.cause} grew from {grown[0]} to {grown[1]}"
    at = _steps(above)
    if kind.cause == "host-memory":
        share = _loading(above)
        if share:
            yield f"{kind.cause} while weights were loaded: {share}%"
        prepared = _preparing(above)
        if prepared:
            yield f"{kind.cause} while data was prepared: {prepared}"
        if at >= _MANY_STEPS and event.particular is None:
            yield f"killed after {at} steps"
        return
    if _is_resumed(above):
        yield f"{kind.cause} resumed"
    if at >= _FEWEST_STEPS:
        yield f"{kind.cause} after {at} steps"


def _grown(size: re.Pattern[str], lines: Sequence[Line]) -> tuple[str, str] | None:
    """The first and the last of sizes that grow from line to line."""
    found = [one for line in lines if (one := size.search(line.text)) is not None]
    units = {one["unit"] for one in found[-1:]}
    found = [one for one in found if one["unit"] in units]
    if len(found) < _FEWEST_SIZES:
        return None
    sizes = [float(one["size"]) for one in found]
    rises = sum(after > before for before, after in pairwise(sizes))
    if sizes[-1] < _GROWN * sizes[0] or rises < _RISES * (len(sizes) - 1):
        return None
    unit = found[-1]["unit"] or ""
    return f"{found[0]['size']} {unit}".strip(), f"{found[-1]['size']} {unit}".strip()


def _steps(lines: Sequence[Line]) -> int:
    """How many steps of training are counted right above."""
    for line in reversed(lines):
        bars = [] if _NO_TRAINING.search(line.text) else [*_BAR.finditer(line.text)]
        step = bars[-1] if bars else _STEP.search(line.text) if _LOSS.search(line.text) else None
        if step is not None:
            return int(step["at"])
    return 0


def _preparing(lines: Sequence[Line]) -> str:
    """What is done to data in the last line."""
    found = _PREPARES.search(lines[-1].text) if lines else None
    above = _PREPARES.match(lines[-2].text) if found is None and len(lines) > 1 else None
    last = found or above
    return "" if last is None or last["share"] == _ALL else last["name"].strip()


def _is_resumed(lines: Sequence[Line]) -> bool:
    """Whether training went on from a checkpoint, and no further than a step or two."""
    starts = [at for at, line in enumerate(lines) if _RESUMED.search(line.text)]
    if not starts:
        return False
    steps = {step for line in lines[starts[-1] + 1 :] if (step := _steps([line]))}
    return len(steps) <= _MOST_RESUMED


def _loading(lines: Sequence[Line]) -> str:
    """How much of the weights was loaded, if nothing was done behind that."""
    for line in reversed(lines):
        found = _LOADS.search(line.text)
        if found is not None:
            return "" if found["share"] == _ALL else found["share"]
        if _BAR.search(line.text) or _LOSS.search(line.text):
            return ""
    return ""
