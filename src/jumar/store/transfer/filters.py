"""`--include` and `--exclude`: shell patterns on the names below the folder that is copied.

A pattern without `/` is tried on each part of the path, so `__pycache__` leaves out all of that
folder; one with `/` on the whole path, where `*` also crosses folders."""

import re
from collections.abc import Callable
from fnmatch import translate


def make_filter(include: tuple[str, ...], exclude: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Whether a relative key is wanted; None when all are."""
    if not include and not exclude:
        return None
    wanted, unwanted = _matcher(include), _matcher(exclude)

    def keeps(key: str) -> bool:
        return (not include or wanted(key)) and not unwanted(key)

    return keeps


def _matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    names = [re.compile(translate(p)) for p in patterns if "/" not in p.rstrip("/")]
    wholes = [re.compile(translate(p.lstrip("/"))) for p in patterns if "/" in p.rstrip("/")]
    names += [re.compile(translate(p.rstrip("/"))) for p in patterns if p.endswith("/")]

    def matches(key: str) -> bool:
        return any(w.match(key) for w in wholes) or any(
            n.match(part) for n in names for part in key.split("/")
        )

    return matches
