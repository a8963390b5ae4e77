"""The newest version that a requirement allows: `==0.7.0`, `>=0.5,<0.8`, `~=0.4`, `^0.12`."""

from typing import NamedTuple

from jumar.port.patterns import lazy_pattern

Version = tuple[int, ...]

_RELEASE = lazy_pattern(r"v?(\d+(?:\.\d+)*)")
_CLAUSE = lazy_pattern(r"(?P<how>[=~<>!]==?|[<>^~=])\s*(?P<version>v?\d[\w.*+!-]*)")


class Newest(NamedTuple):
    """The newest version that is allowed, or the first one that is not."""

    version: Version
    is_allowed: bool

    def is_before(self, limit: Version) -> bool:
        """Whether everything that is allowed is older than a version."""
        mine, other = _same_length(self.version, limit)
        return mine < other or (mine == other and not self.is_allowed)


def version(text: str) -> Version:
    """The numbers of a version; what follows them does not matter here."""
    match = _RELEASE.match(text.strip())
    if match is None:
        raise ValueError(f"not a version: {text!r}")
    return tuple(int(part) for part in match[1].split("."))


def newest(requirement: str) -> Newest | None:
    """What the clauses after a name allow at most; None if there is no limit."""
    limits = [_limit(m["how"], m["version"]) for m in _CLAUSE.finditer(requirement)]
    return min((limit for limit in limits if limit is not None), key=_order, default=None)


def latest(several: list[Newest | None]) -> Newest | None:
    """The newest of what several requirements allow."""
    limits = [limit for limit in several if limit is not None]
    return max(limits, key=_order) if len(limits) == len(several) and limits else None


def _limit(how: str, text: str) -> Newest | None:
    given = version(text)
    if how in ("==", "===", "="):
        return Newest(_next(given), is_allowed=False) if "*" in text else Newest(given, True)
    if how in ("<", "<="):
        return Newest(given, is_allowed=how == "<=")
    if how == "~=":
        return Newest(_next(given[:-1]), is_allowed=False) if len(given) > 1 else None
    if how == "~":
        return Newest(_next(given[:2]), is_allowed=False)
    if how == "^":
        first = next((n for n, part in enumerate(given) if part), len(given) - 1)
        return Newest(_next(given[: first + 1]), is_allowed=False)
    return None


def _next(given: Version) -> Version:
    return (*given[:-1], given[-1] + 1)


def _order(limit: Newest) -> tuple[Version, bool]:
    return (*limit.version, *(0,) * (6 - len(limit.version))), limit.is_allowed


def _same_length(a: Version, b: Version) -> tuple[Version, Version]:
    size = max(len(a), len(b))
    return (*a, *(0,) * (size - len(a))), (*b, *(0,) * (size - len(b)))
