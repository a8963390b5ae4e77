"""When a waiting job will start, and in plain words why it does not start now.

A forecast assumes that every job uses its whole time limit, and that nobody comes to stand ahead or
changes places: jobs mostly start earlier. Jobs behind it are left out: they cannot delay it once it is
the head. Nothing here decides anything."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

from jumar.jobs.scheduling.cards import KindCards
from jumar.jobs.scheduling.records import USUAL_PRIORITY
from jumar.jobs.scheduling.schedule import (
    Holdings,
    Pass,
    Pool,
    QueuedJob,
    Refusal,
    RunningJob,
    Start,
)
from jumar.jobs.scheduling.simulation import simulate
from jumar.jobs.scheduling.turns import Shares
from jumar.spec.duration import format_duration
from jumar.spec.records import Waiting

MOST_AHEAD = 1000
"""No forecast for a job with more jobs ahead of it."""
_MOST_LOOKS = 200_000
"""How often a forecast may look at a waiting or a running job: a fraction of a second."""

_MOST_NAMES = 3
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")

Clock = Callable[[float, float], str]
"""Words for a time, given that time and the present one."""


def local_clock(when: float, now: float) -> str:
    """`14:20`, with the date unless it is today."""
    then, today = time.localtime(when), time.localtime(now)
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M", then)


def forecast(
    job: QueuedJob,
    queue: Iterable[QueuedJob],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: int | None,
    running_limit: int | None = None,
) -> float | None:
    """When the job starts if all jobs use their whole limit.

    None if that depends on a job without a limit, if it never starts, or if it is too far ahead to
    be worth the work."""
    return _foresee(
        job,
        _ahead(job, queue),
        pool,
        running,
        now=now,
        user_limit=user_limit,
        running_limit=running_limit,
    )


def explain(
    job: QueuedJob,
    queue: Iterable[QueuedJob],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: int | None,
    running_limit: int | None = None,
    shares: Shares | None = None,
    clock: Clock = local_clock,
) -> Waiting:
    """Why the job waits."""
    running = tuple(running)
    ahead = _ahead(job, queue)
    limits = {"user_limit": user_limit, "running_limit": running_limit}
    decided = Pass(Holdings(pool, running, **limits), now)
    for other in ahead:
        decided.offer(other)
    cards = decided.holdings.kinds.get(job.kind) or KindCards({}, ())
    free, fitting = cards.free_total, len(cards.free.tightest(job.count, job.nodes))
    outcome = decided.offer(job)
    place = 1 + sum(other.kind == job.kind for other in ahead)
    overtaken = _overtaken(job, ahead, shares or Shares())
    expected, cause = None, "cards"
    match outcome:
        case Start():
            expected, cause = now, "starts"
            parts = ["its turn has come, it starts in a moment"]
        case Refusal.NEVER_FITS:
            cause, parts = "never", [_too_small(job, pool, cards)]
        case Refusal.NEVER_ALLOWED:
            cause = "never"
            parts = [
                f"can never start: needs {job.needs} devices, over the limit of"
                f" {user_limit} devices a user"
            ]
        case _:
            if outcome is not Refusal.NO_CARDS:
                cause, parts = "limit", [_over_limit(job, decided)]
            elif fitting == job.nodes:
                cause = "kept"
                parts = [_kept(job, decided), f"{_ordinal(place)} in line", *overtaken.words()]
            else:
                parts = [_too_few(job, cards.total, free, fitting), f"{_ordinal(place)} in line"]
                parts += overtaken.words()
            expected = _foresee(job, ahead, pool, running, now=now, **limits)
            if expected is not None:
                parts.append(f"expected start {clock(expected, now)}")
    return Waiting(
        text="; ".join(parts),
        cause=cause,
        place_in_line=place,
        needs=job.needs,
        free=free,
        total=cards.total,
        expected_start=expected,
        users_ahead=overtaken.users,
        groups_ahead=overtaken.groups,
        put_ahead=overtaken.put_ahead,
        put_last=overtaken.put_last,
    )


@dataclass(frozen=True, slots=True)
class _Overtaken:
    """Who came later and is ahead, and by what right."""

    users: tuple[str, ...]
    """Of the same group, who have used less for their share."""
    groups: tuple[str, ...]
    """Other groups that have used less for their share."""
    put_ahead: int
    """Jobs that an administrator put ahead."""
    put_last: bool
    """Whether an administrator put this one behind all others."""
    has_own_ahead: bool
    """Whether other jobs of its user take their turns before it."""

    def words(self) -> list[str]:
        found: list[str] = []
        if self.put_ahead:
            jobs = "1 job" if self.put_ahead == 1 else f"{self.put_ahead} jobs"
            found.append(f"an administrator put {jobs} ahead")
        if self.put_last:
            found.append("an administrator put it behind all others")
        names = [*self.users, *(f"group {group}" for group in self.groups)]
        if names:
            have, are = ("has", "is") if len(names) == 1 else ("have", "are")
            why = f"{are} ahead by fair turns"
            if not self.has_own_ahead:
                why = f"{have} used less and {are} ahead"
            found.append(f"{_listed(names)} {why}")
        return found


def _overtaken(job: QueuedJob, ahead: Iterable[QueuedJob], shares: Shares) -> _Overtaken:
    users: dict[str, None] = {}
    groups: dict[str, None] = {}
    put_ahead, has_own_ahead = 0, False
    own_group = shares.member(job.user).group
    for other in ahead:
        if other.kind != job.kind:
            continue
        if other.rank > job.rank:
            put_ahead += other.rank > USUAL_PRIORITY
        elif other.user == job.user:
            has_own_ahead = True
        elif other.order > job.order:
            group = shares.member(other.user).group
            if group == own_group:
                users[other.user] = None
            else:
                groups[group] = None
    put_last = job.rank < USUAL_PRIORITY
    return _Overtaken(tuple(users), tuple(groups), put_ahead, put_last, has_own_ahead)


def _listed(names: list[str]) -> str:
    """`ann`, `ann and bob`, `ann, bob and 3 others`."""
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _ahead(job: QueuedJob, queue: Iterable[QueuedJob]) -> tuple[QueuedJob, ...]:
    return tuple(takewhile(lambda other: other.job_id != job.job_id, queue))


def _foresee(
    job: QueuedJob,
    ahead: tuple[QueuedJob, ...],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: int | None,
    running_limit: int | None,
) -> float | None:
    running = tuple(running)
    if user_limit is None and running_limit is None:
        # Only a user's limits tie the kinds together.
        ahead = tuple(other for other in ahead if other.kind == job.kind)
        running = tuple(other for other in running if other.kind == job.kind)
    if len(ahead) > MOST_AHEAD:
        return None
    arrivals = [
        # They stay in the order in which they stand now.
        (now, replace(other, priority=USUAL_PRIORITY, order=place))
        for place, other in enumerate((*ahead, job))
    ]
    looks = 0
    for moment in simulate(
        arrivals, pool, running, now=now, user_limit=user_limit, running_limit=running_limit
    ):
        if any(start.job_id == job.job_id for start in moment.starts):
            return moment.now
        looks += 1 + moment.decided.looks
        if looks > _MOST_LOOKS:
            return None
    return None


def _noun(kind: str) -> str:
    return "cpu slots" if kind == "cpu" else f"{kind} cards"


def _ordinal(place: int) -> str:
    if place <= len(_ORDINALS):
        return _ORDINALS[place - 1]
    ending = (
        "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    )
    return f"{place}{ending}"


def _too_small(job: QueuedJob, pool: Pool, cards: KindCards) -> str:
    one_machine = len({node for nodes in pool.values() for node in nodes}) <= 1
    if not cards.total:
        where = "this machine has" if one_machine else "the nodes have"
        return f"can never start: {where} no {_noun(job.kind)}"
    if one_machine and job.nodes == 1:
        return (
            f"can never start: needs {job.count} {_noun(job.kind)}, this machine has {cards.total}"
        )
    able = cards.able_nodes(job.count)
    return f"can never start: needs {_nodes(job.nodes)} with {job.count} {_noun(job.kind)}, there are {able}"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _over_limit(job: QueuedJob, decided: Pass) -> str:
    first, holdings = decided.held[job.user], decided.holdings
    if holdings.user_limit is None or decided.why_held[job.user] is Refusal.TOO_MANY_JOBS:
        over = f"over the limit of {holdings.running_limit} running jobs per user"
        if first.job_id == job.job_id:
            return over
        return f"behind job {first.job_id} of the same user, which is {over}"
    use = f"{holdings.in_use.get(job.user, 0)} in use"
    kept = decided.kept_for(job.user)
    if kept:
        use += f", {kept} kept for an earlier job"
    over = f"over the limit of {holdings.user_limit} devices a user ({use})"
    if first.job_id == job.job_id:
        return f"{over}, needs {job.needs}"
    return f"behind job {first.job_id} of the same user, which is {over}"


def _too_few(job: QueuedJob, total: int, free: int, fitting: int) -> str:
    text = f"{free} of {total} {_noun(job.kind)} {'is' if free == 1 else 'are'} free"
    if job.nodes > 1:
        text += f", needs {job.count} on each of {job.nodes} nodes"
    else:
        text += f", needs {job.count}"
    if free >= job.needs:
        text += f", {fitting or 'no'} node{'s' if fitting > 1 else ''} can give {job.count}"
    return text


def _kept(job: QueuedJob, decided: Pass) -> str:
    reservation = decided.reservation(job.kind)
    text = (
        f"free {_noun(job.kind)} are kept for job {reservation.head.job_id} at the head of the line"
    )
    if reservation.at is None:
        return text
    minutes = int((reservation.at - decided.now - job.grace_s) // 60)
    if minutes < 1:
        return text
    return f"{text}; a time limit under {format_duration(minutes * 60)} would let this job go first"
