"""What a run comes to: waiting, use of the cards, fairness.

**Fairness.** At every moment the cards are thought of as dealt out evenly among the users who have
jobs, nobody getting more than their jobs need (max-min fair). What a user holds less than that, while
their jobs wait, is a shortfall. Fairness is one less all shortfalls over all dues, from 0 to 1; 1:
nobody ever had less than their due. It is looked at on a grid of moments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from jumar.simulate.run import Told

GRID = 1000
"""Moments at which a run is looked at."""


@dataclass(frozen=True, slots=True)
class Measures:
    """A run in numbers; times in seconds."""

    policy: str
    jobs: int
    ended: int
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    longest_wait_s: float
    utilisation: float
    """Of what the cards could have given from the first to the last arrival; where all came at once, to the last end."""
    fairness: float
    preemptions: int
    repeated_card_s: float
    took_s: float
    """Real time that the simulation took."""
    busy: tuple[float, ...]
    """The part of the cards in use, on the grid."""
    waiting: tuple[int, ...]
    """Cards that waiting jobs need, on the grid."""


def grid_of(told: Sequence[Told], until: float | None = None) -> list[float]:
    """Moments of the time that is looked at, evenly spread."""
    first, last = looked_at(told)
    last = last if until is None else until
    return [first + (last - first) * (n + 0.5) / GRID for n in range(GRID)]


def looked_at(told: Sequence[Told]) -> tuple[float, float]:
    """From the first arrival to the last, since later nothing new comes and cards stand idle; where all came
    at once, to the last end."""
    first = min(each.job.submitted for each in told)
    last = max(each.job.submitted for each in told)
    if last > first:
        return first, last
    return first, max((each.ended for each in told if each.held), default=first)


def measure(
    policy: str, told: Sequence[Told], *, cards: int, took_s: float, until: float | None = None
) -> Measures:
    """The numbers of one run; `until`: where the grid ends, for runs that are drawn together."""
    waits = sorted(each.waited_s for each in told)
    first, last = looked_at(told)
    used = sum(
        each.job.cards * max(0.0, min(end, last) - max(since, first))
        for each in told
        for since, end in each.held
    )
    holding, wanting = _by_moment(told, until)
    return Measures(
        policy=policy,
        jobs=len(told),
        ended=sum(bool(each.held) for each in told),
        mean_wait_s=sum(waits) / len(waits),
        median_wait_s=median(waits),
        p95_wait_s=waits[len(waits) * 95 // 100],
        longest_wait_s=waits[-1],
        utilisation=used / (cards * (last - first)) if last > first else 0.0,
        fairness=_fairness(holding, wanting, cards),
        preemptions=sum(each.preempted for each in told),
        repeated_card_s=sum(each.job.cards * each.repeated_s for each in told),
        took_s=took_s,
        busy=tuple(sum(has.values()) / cards for has in holding),
        waiting=tuple(
            sum(wants.values()) - sum(has.values())
            for has, wants in zip(holding, wanting, strict=True)
        ),
    )


def _by_moment(
    told: Sequence[Told], until: float | None
) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """At each moment of the grid: the cards each user holds, and holds or waits for."""
    grid = grid_of(told, until)
    holding: list[dict[str, int]] = [{} for _ in grid]
    wanting: list[dict[str, int]] = [{} for _ in grid]
    start, step = grid[0], (grid[-1] - grid[0]) / (GRID - 1)
    for each in told:
        _add(wanting, each, [(each.job.submitted, each.ended)], start, step)
        _add(holding, each, each.held, start, step)
    return holding, wanting


def _add(
    moments: list[dict[str, int]],
    told: Told,
    spans: Iterable[tuple[float, float]],
    start: float,
    step: float,
) -> None:
    user, cards = told.job.user, told.job.cards
    for since, until in spans:
        first = _moment_from(since, start, step)
        for number in range(first, max(first, _moment_from(until, start, step))):
            moments[number][user] = moments[number].get(user, 0) + cards


def _moment_from(time: float, start: float, step: float) -> int:
    """The number of the first moment that is not before the time."""
    if step <= 0 or time >= start + step * GRID:
        return GRID
    return max(0, min(GRID, -int((start - time) // step)))


def _fairness(
    holding: Sequence[Mapping[str, int]], wanting: Sequence[Mapping[str, int]], cards: int
) -> float:
    due = short = 0.0
    for has, wants in zip(holding, wanting, strict=True):
        for user, share in dealt_out(wants, cards).items():
            due += share
            short += max(0.0, share - has.get(user, 0))
    return 1.0 - short / due if due else 1.0


def dealt_out(wants: Mapping[str, int], cards: int) -> dict[str, float]:
    """Everybody's due: the cards in even parts, what somebody does not need going to the others."""
    dues: dict[str, float] = {}
    left = float(cards)
    by_need = sorted(wants.items(), key=lambda want: (want[1], want[0]))
    for place, (user, need) in enumerate(by_need):
        dues[user] = min(float(need), left / (len(by_need) - place))
        left -= dues[user]
    return dues
