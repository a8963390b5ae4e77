"""What stands above a fault and decides: how far the progress bar was, and the option that chose the class that fails."""

import re
from collections.abc import Iterator, Mapping

from jumar.why.details import FIRST, REMEDY, WHAT, Detail
from jumar.why.event import Event

# tqdm counts what is done: what fails is the next.
_PROGRESS = re.compile(r"(?<![\d/.])(?P<at>\d{1,9})/(?P<of>\d{1,9}) \[\d+:\d\d(?::\d\d)?<")
# A step that ends one of several epochs by chance is rare from here on.
_FEWEST, _MOST_EPOCHS = 10, 1000
_FIRST_CARD = re.compile(r"\b[GN]PU 0\b")
# What is told of a card that others hold in part.
_SHARED = frozenset(("memory-others", "memory-others-cached"))
_OF_SIZES = frozenset(
    ("shape", "checked", "refused", "configuration", "single-value", "python-error")
)
_SIZES = re.compile(
    r"(?i)\b(?:batch|sizes?|shapes?|lengths?|dim(?:ension)?s?|more than 1 value|even)\b"
)
# `data_impl ........ cached`, `--data-impl cached`, `"impl": "cached"`.
_OPTION = re.compile(
    r"(?m)(?:^[ \t]*|[\s{(,])(?P<option>(?:--)?['\"]?[A-Za-z][\w-]{2,40})['\"]?(?: \.{3,} |[ \t]*[:=][ \t]*| )['\"]?(?P<value>[A-Za-z]{4,20})['\"]?(?=[\s,})]|$)"
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]+|[a-z]{4,}")
# What any class may be called.
_PLAIN = frozenset(
    (
        *("data", "dataset", "model", "module", "config", "trainer", "loader", "base", "class"),
        *("none", "true", "false", "auto", "train", "training", "torch", "indexed", "layer"),
    )
)
_OPTIONLIKE = re.compile(r"--|_|\.{3}")
# Whoever chose a model wants that model.
_MEANT = re.compile(r"(?i)model|arch|backbone|net|tok|process|name|path|dir|task|file")


def beside(event: Event, text: str) -> Iterator[Detail]:
    """What the lines above a fault add to it."""
    above = text.partition(event.line.text)[0]
    yield from _last_batch(event, above)
    yield from _chosen_class(event.values, event.cause.name, above)
    yield from _wrong_card(event)


def _last_batch(event: Event, above: str) -> Iterator[Detail]:
    """That it failed with the last batch of an epoch, which is mostly smaller than the others."""
    error = event.values.get("error", "")
    bars = (
        _PROGRESS.findall(above) if event.cause.name in _OF_SIZES and _SIZES.search(error) else []
    )
    if not bars:
        return
    at, of = map(int, bars[-1])
    is_end = at + 1 == of and at > 0
    is_turn = at >= _FEWEST and of % (at + 1) == 0 and of // (at + 1) <= _MOST_EPOCHS
    if is_end or is_turn:
        # Where it ends one of several epochs, only the numbers say so.
        yield Detail(
            WHAT, "last-batch" if is_end else "last-turn", {"at": str(at + 1), "of": str(of)}
        )
        yield Detail(REMEDY, "last-dropped", {})


def _wrong_card(event: Event) -> Iterator[Detail]:
    """That another rank than the first fills the first card, where others do too."""
    found = _FIRST_CARD.search(event.line.text) if event.particular in _SHARED else None
    if found is not None and event.line.rank:
        yield Detail(FIRST, "wrong-card", {"rank": str(event.line.rank), "card": "0"})


def _chosen_class(values: Mapping[str, str], cause: str, above: str) -> Iterator[Detail]:
    """The option by whose value the class was chosen that lacks what is asked of it."""
    name = values.get("class", "")
    if cause != "attribute-missing" or not name:
        return
    parts = {part.lower() for part in _WORD.findall(name)} - _PLAIN
    for found in _OPTION.finditer(above):
        is_option = _OPTIONLIKE.search(found[0]) and not _MEANT.search(found["option"])
        if is_option and found["value"].lower() in parts:
            chosen = {"option": found["option"].strip("'\""), "value": found["value"]}
            yield Detail(WHAT, "option-chose", {**chosen, "class": name})
            return
