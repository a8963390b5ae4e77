"""What the sizes in a message tell that its words do not: which of them would fit, whether they are those of pictures cut into
patches, or of tensors cut into parts."""

import math
from collections.abc import Callable, Mapping

_MOST_SPLIT = 64
_MUCH = 100.0
_MOST_PROCESSES = 4096


def is_split(values: Mapping[str, str]) -> bool:
    """Whether one length is the other, cut into 2, 4, 8 … parts."""
    least, most = sorted((int(values["file"]), int(values["model"])))
    parts = most // max(least, 1)
    return least * parts == most and 1 < parts <= _MOST_SPLIT and parts & (parts - 1) == 0


def is_with_token(values: Mapping[str, str]) -> bool:
    """Whether patches of a picture, which lie in a square, come with a class token."""
    left, right = int(values["left"]), int(values["right"])
    return left == right + 1 and _is_square(right)


def are_grids(values: Mapping[str, str]) -> bool:
    """Whether both are numbers of patches of a picture, with a class token or without."""
    sizes = int(values["one"]), int(values["other"])
    return any(all(_is_square(size - extra) for size in sizes) for extra in (0, 1))


def has_fitting(values: Mapping[str, str]) -> bool:
    """Whether a tensor could take the shape if just one of its sizes were another."""
    return _fitting(values) is not None


def is_much_memory(values: Mapping[str, str]) -> bool:
    """Whether a host's memory, in GB, is of a size that fills hosts, and did not shrink."""
    first, last = float(values["first"]), float(values["last"])
    return last >= max(first, _MUCH)


def _whole(values: Mapping[str, str], world: int) -> int:
    """By how many a batch of DeepSpeed is more than its parts; 0 if that is no whole number."""
    parts = int(values["micro"]) * int(values["acc"]) * world
    return int(values["batch"]) // parts if parts and int(values["batch"]) % parts == 0 else 0


def is_for_more(values: Mapping[str, str]) -> bool:
    """Whether batch sizes that do not fit one process would fit several."""
    return int(values["world"]) == 1 and 1 < _whole(values, 1) <= _MOST_PROCESSES


def is_accumulated(values: Mapping[str, str]) -> bool:
    """Whether batch sizes would fit if they were accumulated more often."""
    return int(values["world"]) > 1 and _whole(values, int(values["world"])) > 1


def batches(values: Mapping[str, str]) -> dict[str, str]:
    """For how many processes, and with how many steps of accumulation, the sizes of a batch fit."""
    fits = _whole(values, int(values["world"]))
    return {"processes": str(fits), "accumulation": str(fits * int(values["acc"]))}


CHECKS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "tensor-split": is_split,
    "einops-token": is_with_token,
    "position-grid": are_grids,
    "view-one": has_fitting,
    "ray-memory-grew": is_much_memory,
    "deepspeed-one": is_for_more,
    "deepspeed-accumulation": is_accumulated,
}
"""By the form that says so."""


def fitting(values: Mapping[str, str]) -> dict[str, str]:
    """That size as the code has it, how much it is, and how much would fit."""
    one = _fitting(values)
    if one is None:
        return {}
    at, now, fits = one
    named = _parts(values["sizes"])
    shape = values["wanted"].strip("[]").split(",")
    part = named[at] if len(named) == len(shape) else f"[{at}]"
    return {"part": part, "now": str(now), "fitting": str(fits)}


def _fitting(values: Mapping[str, str]) -> tuple[int, int, int] | None:
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
