"""What the numbers of a message tell that its words do not: who fills a card that has no memory left, on which side of all
versions that there are the one that is asked for is, whether two sizes are those of pictures cut into patches."""

import math
import re
from collections.abc import Mapping

_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?) ?(?P<unit>bytes|[KMGT]i?B)")
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# A context of CUDA and its libraries takes up to about a GiB that no process is charged with.
_OTHERS, _CONTEXT = 0.25, 1 << 30
_GAPS = 0.15
_SINGLE, _HELD, _SCATTERED = "memory-single", "memory-others", "memory-gaps"
_HELD_CACHED = "memory-others-cached"

_OLDER, _NEWER = "pip-older", "pip-newer"
# Patches of a picture lie in a square; a class token comes with them.
_TOKEN, _GRID = "einops-token", "position-grid"
_VIEW = "view-one"
_PARTS = 6
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,9}){0,5}")


def fits(form: str, values: Mapping[str, str]) -> bool:
    """Whether the numbers bear out what a form says; a form that says nothing of numbers always fits."""
    if form in (_OLDER, _NEWER):
        return _is_outside(form, values)
    if form == _TOKEN:
        left, right = int(values["left"]), int(values["right"])
        return left == right + 1 and _is_square(right)
    if form == _VIEW:
        return _other_size(values) is not None
    if form == _GRID:
        sizes = int(values["one"]), int(values["other"])
        return any(all(_is_square(size - extra) for size in sizes) for extra in (0, 1))
    if form not in (_SINGLE, _HELD, _HELD_CACHED, _SCATTERED):
        return True
    total, asked = _bytes(values, "total"), _bytes(values, "asked")
    if form == _SINGLE:
        return asked > total
    if form == _SCATTERED:
        spare = _bytes(values, "held") - _bytes(values, "used")
        return spare > max(asked, _GAPS * total)
    others = total - _bytes(values, "free") - _held_by_it(form, values)
    return others > max(_OTHERS * total, _CONTEXT)


def found(form: str, values: Mapping[str, str]) -> Mapping[str, str]:
    """What the numbers of a message give besides."""
    one = _other_size(values) if form == _VIEW else None
    if one is None:
        return {}
    at, now, fitting = one
    named = _parts(values["sizes"])
    shape = values["wanted"].strip("[]").split(",")
    part = named[at] if len(named) == len(shape) else f"[{at}]"
    return {"part": part, "now": str(now), "fitting": str(fitting)}


def _other_size(values: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Of a shape that a tensor cannot take the only size with which it could, were that another: which, how much, and how much then."""
    sizes = [int(size) for size in values["wanted"].strip("[]").split(",") if size.strip()]
    given = int(values["given"])
    if min(sizes, default=0) < 1:
        return None
    whole = math.prod(sizes)
    could = [
        (at, size, given * size // whole)
        for at, size in enumerate(sizes)
        if given and given * size % whole == 0
    ]
    return could[0] if len(could) == 1 else None


def _parts(text: str) -> list[str]:
    """The arguments of a call."""
    parts, depth = [""], 0
    for letter in text.strip():
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _is_square(number: int) -> bool:
    return number > 0 and math.isqrt(number) ** 2 == number


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
