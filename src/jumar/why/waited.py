"""What is told of ranks that waited for each other: the form of its words (`waits.en.toml`), whose it is, and what it names."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice

from jumar.why.details import WHAT, Detail
from jumar.why.raised import is_library_path
from jumar.why.standing import Standing

_MINUTE = 60
_FEW_SECONDS = 120
_MOST_LISTED, _MOST_RUNS = 1 << 12, 16


@dataclass(frozen=True, slots=True)
class Waited:
    """What the logs show."""

    form: str
    cause: str
    values: dict[str, str]
    rank: int | None = None
    """The rank that it is about."""
    place: str | None = None
    details: list[Detail] = field(default_factory=list[Detail])


def listed(ranks: Sequence[int]) -> str:
    """`0, 2-7`."""
    runs = list(islice(_runs(ranks[:_MOST_LISTED]), _MOST_RUNS + 1))
    return ", ".join([*runs[:_MOST_RUNS], "…"] if len(runs) > _MOST_RUNS else runs)


def _runs(ranks: Sequence[int]) -> Iterator[str]:
    start = 0
    for at in range(1, len(ranks) + 1):
        if at == len(ranks) or ranks[at] != ranks[at - 1] + 1:
            yield from _run(ranks[start:at])
            start = at


def _run(ranks: Sequence[int]) -> Iterator[str]:
    if len(ranks) > 2:
        yield f"{ranks[0]}-{ranks[-1]}"
    else:
        yield from map(str, ranks)


def span(seconds: int) -> str:
    """`90 s`, `30 min`."""
    return f"{seconds} s" if seconds < _FEW_SECONDS else f"{-(-seconds // _MINUTE)} min"


def called(one: Standing) -> tuple[str | None, list[Detail]]:
    """The script's own call of the operation that a rank stood in, where it was recorded; and what one element mostly is."""
    is_flag = one.op == "ALLREDUCE" and one.numel == "1"
    details = [Detail(WHAT, "one-element", {})] if is_flag else []
    for inside, place in one.calls:
        if not is_library_path(place.rpartition(":")[0]):
            names = {"place": place, "inside": inside, "op": one.op}
            return place, [*details, Detail(WHAT, "called-at", names)]
    return None, details


@cache
def words(language: str) -> Mapping[str, Mapping[str, str]]:
    """`what` and `remedy` of every form."""
    return tomllib.loads(files("jumar.why").joinpath(f"waits.{language}.toml").read_text("utf-8"))
