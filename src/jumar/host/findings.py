"""What a check returns: a verdict, what was found, and the one line that fixes it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from jumar.host.patient import Patient


class Verdict(StrEnum):
    """The result. `unknown` means that it could not be checked, not that it is bad."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of one check."""

    verdict: Verdict
    seen: str
    fix: str | None = None


Run = Callable[[Patient], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at."""

    name: str
    family: str
    run: Run
    needs_card: bool = False
    """Whether it is about Ascend cards: without one, `card-driver` says so once for all."""


def ok(seen: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, seen)


def warn(seen: str, fix: str) -> Finding:
    """It may cause trouble."""
    return Finding(Verdict.WARN, seen, fix)


def fail(seen: str, fix: str) -> Finding:
    """It will not work."""
    return Finding(Verdict.FAIL, seen, fix)


def unknown(seen: str, fix: str | None = None) -> Finding:
    """It could not be checked."""
    return Finding(Verdict.UNKNOWN, seen, fix)


def count(number: int, thing: str) -> str:
    """`1 card`, `2 cards`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
