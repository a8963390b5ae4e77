"""What the numbers of a message tell that its words do not: who fills a card that has no memory left, on which side of all
versions that there are the one that is asked for is."""

import re
from collections.abc import Mapping

from jumar.why import sizes
from jumar.why.advice import DISTRIBUTIONS

_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?) ?(?P<unit>bytes|[KMGT]i?B)")
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# A context of CUDA and its libraries, and a desktop, take up to about 1.5 GiB that no process is charged with.
_OTHERS, _CONTEXT = 0.25, 3 << 29
_GAPS = 0.15
# Sizes are told with two digits behind the point.
_ROUNDED = 0.99
_SMALL, _SMALL_CARD, _LITTLE = "memory-small", 6.5 * (1 << 30), 0.5
_SINGLE, _HELD, _SCATTERED = "memory-single", "memory-others", "memory-gaps"
_HELD_CACHED = "memory-others-cached"
# In a container a process cannot know which of those that hold the card it is itself.
_LISTED, _SCATTERED_LISTED = "memory-listed", "memory-gaps-listed"
_PROCESS = re.compile(r"Process (?P<pid>\d+) has (?P<held>[\d.]+ ?[KMGT]i?B) memory in use")
_OF_MEMORY = (_SINGLE, _SMALL, _HELD, _HELD_CACHED, _SCATTERED, _LISTED, _SCATTERED_LISTED)
# What is counted, or looked up, for the words of a form.
COUNTED = frozenset(("others", "mine", "whose", "install", "processes", "accumulation"))
# Numbers without a unit: the kernel counts in kB.
_PLAIN_UNITS = {
    **dict.fromkeys(("oom-limit", "oom-cgroup", "oom-node"), "k"),
    **dict.fromkeys(("memory-taken", "memory-xla", "tensor-memory"), "b"),
}
_MORE_CAME = "store-barrier-more"
_OLDER, _NEWER = "pip-older", "pip-newer"
_VIEW = "view-one"
_OF_BATCHES = frozenset(("deepspeed-one", "deepspeed-accumulation"))
_OF_CANN = "tbe-module"
_PARTS = 6
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,9}){0,5}")


def fits(form: str, values: Mapping[str, str]) -> bool:
    """Whether the numbers bear out what a form says; a form that says nothing of numbers always fits."""
    if form in (_OLDER, _NEWER):
        return _is_outside(form, values)
    if form == _MORE_CAME:
        return int(values["count"]) > int(values["world"])
    if form in sizes.CHECKS:
        return sizes.CHECKS[form](values)
    return form not in _OF_MEMORY or _is_of_memory(form, values)


def _is_of_memory(form: str, values: Mapping[str, str]) -> bool:
    """Whether the numbers tell that it is this that fills a card."""
    total, asked = _bytes(values, "total"), _bytes(values, "asked")
    if form == _LISTED:
        return sum(held for _, held in _others(values)) > max(_OTHERS * total, _CONTEXT)
    if form == _SCATTERED_LISTED:
        return _bytes(values, "spare") > max(asked, _GAPS * total)
    if form == _SINGLE:
        return asked > total
    if form == _SMALL:
        unknown = total - _bytes(values, "free") - _bytes(values, "held")
        return total < _SMALL_CARD and unknown < _LITTLE * total
    if form == _SCATTERED:
        spare = _bytes(values, "held") - _bytes(values, "used")
        return spare > max(asked, _GAPS * total)
    others = total - _bytes(values, "free") - _held_by_it(form, values)
    return others > max(_OTHERS * total, _CONTEXT)


def told(form: str, values: Mapping[str, str]) -> dict[str, str]:
    """What follows from the numbers of a message, for the words of its form."""
    unit = _PLAIN_UNITS.get(form)
    if unit is not None:
        names = (name for name in ("held", "limit", "asked", "free", "total") if name in values)
        return {name: _size(float(values[name]) * _UNITS[unit]) for name in names}
    if form == _VIEW:
        return sizes.fitting(values)
    if form in _OF_BATCHES:
        return sizes.batches(values)
    if form == _OF_CANN:
        top = values["module"].partition(".")[0]
        return {"install": DISTRIBUTIONS.get(top, top)}
    if form != _LISTED:
        return {}
    others = _others(values)
    own = _total_held(values) - sum(held for _, held in others)
    return {
        "others": _size(sum(held for _, held in others)),
        "mine": _size(own),
        "whose": ", ".join(f"pid {pid}: {_size(held)}" for pid, held in others),
    }


def _others(values: Mapping[str, str]) -> list[tuple[str, float]]:
    """The processes that are not this one: it is the one that holds the least of those that hold what this one has reserved."""
    found = _processes(values)
    reserved = _bytes(values, "used") + _bytes(values, "spare")
    fits = [one for one in found if one[1] >= reserved * _ROUNDED]
    own = min(fits, key=lambda one: one[1], default=None)
    return [one for one in found if one is not own]


def _processes(values: Mapping[str, str]) -> list[tuple[str, float]]:
    listed = _PROCESS.finditer(values["processes"])
    return [(one["pid"], _bytes({"held": one["held"]}, "held")) for one in listed]


def _total_held(values: Mapping[str, str]) -> float:
    return sum(held for _, held in _processes(values))


def _size(number: float) -> str:
    return f"{number / (1 << 30):.2f} GiB"


def _is_outside(form: str, values: Mapping[str, str]) -> bool:
    """Whether the version that is asked for is before, or behind, all that there are."""
    asked = _versions(values["asked"])
    there = _versions(values["versions"])
    if not asked or not there:
        return False
    return asked[0] < min(there) if form == _OLDER else asked[0] > max(there)


def _versions(text: str) -> list[tuple[int, ...]]:
    # 2.0 is 2.0.0.
    found = [one for part in text.split(",") if (one := _VERSION.match(part.strip()))]
    parts = (tuple(map(int, one[0].split("."))) for one in found)
    return [one + (0,) * (_PARTS - len(one)) for one in parts]


def _held_by_it(form: str, values: Mapping[str, str]) -> float:
    """What the process has; before torch 1.4 a message counts what is cached without what is allocated."""
    if form == _HELD_CACHED:
        return _bytes(values, "used") + _bytes(values, "cached")
    return _bytes(values, "held")


def _bytes(values: Mapping[str, str], name: str) -> float:
    found = _SIZE.fullmatch(values[name])
    return 0.0 if found is None else float(found["number"]) * _UNITS[found["unit"][0].lower()]
