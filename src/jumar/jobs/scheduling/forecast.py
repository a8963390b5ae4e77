"""When a waiting job will start, and why it does not start now.

A forecast assumes that every job uses its whole time limit, and that nobody comes to stand ahead or
changes places: jobs mostly start earlier. Jobs behind it are left out: they cannot delay it once it is
the head. Nothing here decides anything."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from jumar.jobs.scheduling.cards import KindCards
from jumar.jobs.scheduling.records import (
    USUAL_PRIORITY,
    Pool,
    QueuedJob,
    RunningJob,
    Start,
    UserLimit,
    limit_of,
)
from jumar.jobs.scheduling.schedule import Holdings, Pass, Refusal
from jumar.jobs.scheduling.simulation import simulate
from jumar.jobs.scheduling.turns import Shares
from jumar.spec.causes import Wait
from jumar.spec.devices import CardProcess, CardRef
from jumar.spec.draining import Drain
from jumar.spec.duration import format_duration
from jumar.spec.records import Waiting, WaitPart
from jumar.words.reasons import waiting_sentence

MOST_AHEAD = 1000
"""No forecast for a job with more jobs ahead of it."""
_MOST_LOOKS = 200_000
"""How often a forecast may look at a waiting or a running job: a fraction of a second."""

Foreign = Mapping[tuple[str, CardRef], tuple[CardProcess, ...]]
"""By kind and card: processes that belong to no job."""
Clock = Callable[[float, float], str]
"""Words for a time, given that time and the present one."""


def local_clock(when: float, now: float) -> str:
    """`14:20`, with the date unless it is today."""
    then, today = time.localtime(when), time.localtime(now)
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M", then)


def explain(
    job: QueuedJob,
    queue: Iterable[QueuedJob],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: UserLimit,
    running_limit: int | None = None,
    shares: Shares | None = None,
    clock: Clock = local_clock,
) -> Waiting:
    """Why the job waits."""
    running = tuple(running)
    ahead = tuple(takewhile(lambda other: other.job_id != job.job_id, queue))
    holdings = Holdings(pool, running, user_limit=user_limit, running_limit=running_limit)
    decided = Pass(holdings, now)
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
            expected, cause, parts = now, "starts", [WaitPart(Wait.STARTS)]
        case Refusal.NEVER_FITS:
            cause, parts = "never", [_too_small(job, pool, cards)]
        case Refusal.NEVER_ALLOWED:
            values = {"needs": job.needs, "limit": limit_of(user_limit, job.user) or 0}
            cause, parts = "never", [WaitPart(Wait.NEVER_ALLOWED, values)]
        case _:
            in_line = [WaitPart(Wait.PLACE, {"place": place}), *overtaken.parts()]
            if outcome is Refusal.YIELDS:
                cause, parts = (
                    "yields",
                    [WaitPart(Wait.YIELDS, {"job": job.yields_to or ""}), *in_line],
                )
            elif outcome is not Refusal.NO_CARDS:
                cause, parts = "limit", [_over_limit(job, decided)]
            elif fitting == job.nodes:
                cause, parts = "kept", [_kept(job, decided), *in_line]
            else:
                parts = [*_too_few(job, cards.total, free, fitting), *in_line]
            expected = _foresee(
                *(job, ahead, pool, running),
                now=now,
                user_limit=user_limit,
                running_limit=running_limit,
            )
    waiting = Waiting(
        text="",
        cause=cause,
        parts=tuple(parts),
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
    when = None if expected is None or cause == "starts" else clock(expected, now)
    return replace(waiting, text=waiting_sentence(waiting, "en", expected=when))


def beside_others(waiting: Waiting, kind: str, foreign: Foreign) -> Waiting:
    """Why a job waits for cards of which some are used without a job."""
    on_cards = [processes for (of_kind, _), processes in foreign.items() if of_kind == kind]
    if not on_cards:
        return waiting
    users = {process.user or "?" for processes in on_cards for process in processes}
    values: dict[str, str | int] = {"used": len(on_cards), "by": ", ".join(sorted(users))}
    first, *others = waiting.parts
    return _told_anew(replace(waiting, parts=(first, WaitPart(Wait.FOREIGN, values), *others)))


def engine_lost(job: QueuedJob) -> Waiting:
    """Why a job waits whose engine the server had once."""
    return _told_anew(
        Waiting(
            text="",
            cause="never",
            parts=(WaitPart(Wait.NO_ENGINE, {"engine": job.engine}),),
            place_in_line=1,
            needs=job.needs,
            free=0,
            total=0,
        )
    )


def beside_holds(waiting: Waiting, kind: str, holds: Iterable[tuple[str, CardRef]]) -> Waiting:
    """Why a job waits for cards of which some are on hold."""
    count = sum(of_kind == kind for of_kind, _ in holds)
    if not count:
        return waiting
    first, *others = waiting.parts
    part = WaitPart(Wait.ON_HOLD, {"held": count})
    return _told_anew(replace(waiting, parts=(first, part, *others)))


def _told_anew(waiting: Waiting, clock: Clock = local_clock) -> Waiting:
    expected = waiting.expected_start
    when = None if expected is None else clock(expected, time.time())
    return replace(waiting, text=waiting_sentence(waiting, "en", expected=when))


def drained(waiting: Waiting, drain: Drain) -> Waiting:
    """Why a job waits while no jobs are started, and for what after that."""
    if waiting.cause == "never":
        return waiting
    after = waiting.parts if waiting.cause != "starts" else ()
    known = waiting.expected_start is not None and drain.until is not None
    expected = max(waiting.expected_start or 0.0, drain.until or 0.0) if known else None
    values: dict[str, str | int] = {"why": drain.why} if drain.why else {}
    parts = (WaitPart(Wait.DRAIN, values), *after)
    return _told_anew(replace(waiting, cause="drain", parts=parts, expected_start=expected))


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

    def parts(self) -> list[WaitPart]:
        found: list[WaitPart] = []
        if self.put_ahead:
            found.append(WaitPart(Wait.PUT_AHEAD, {"jobs": self.put_ahead}))
        if self.put_last:
            found.append(WaitPart(Wait.PUT_LAST))
        ahead = len(self.users) + len(self.groups)
        if ahead:
            why = Wait.FAIR_TURNS if self.has_own_ahead else Wait.USED_LESS
            found.append(WaitPart(why, {"ahead": ahead}))
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
        elif other.order > job.order and other.preemptible == job.preemptible:
            group = shares.member(other.user).group
            if group == own_group:
                users[other.user] = None
            else:
                groups[group] = None
    put_last = job.rank < USUAL_PRIORITY
    return _Overtaken(tuple(users), tuple(groups), put_ahead, put_last, has_own_ahead)


def _foresee(
    job: QueuedJob,
    ahead: tuple[QueuedJob, ...],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: UserLimit,
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


def _too_small(job: QueuedJob, pool: Pool, cards: KindCards) -> WaitPart:
    nodes = len({node for nodes in pool.values() for node in nodes})
    if not cards.total:
        several = {"nodes": nodes} if nodes > 1 else {}
        return WaitPart(Wait.NEVER_NONE, {"kind": job.kind, **several})
    needs = {"count": job.count, "kind": job.kind}
    if nodes <= 1 and job.nodes == 1:
        return WaitPart(Wait.NEVER_MACHINE, {**needs, "total": cards.total})
    able = cards.able_nodes(job.count)
    return WaitPart(Wait.NEVER_NODES, {"nodes": job.nodes, **needs, "able": able})


def _over_limit(job: QueuedJob, decided: Pass) -> WaitPart:
    first, holdings = decided.held[job.user], decided.holdings
    behind = {} if first.job_id == job.job_id else {"job": first.job_id}
    limit = limit_of(holdings.user_limit, job.user)
    if limit is None or decided.why_held[job.user] is Refusal.TOO_MANY_JOBS:
        return WaitPart(Wait.RUNNING_LIMIT, {"limit": holdings.running_limit or 0, **behind})
    kept = decided.kept_for(job.user)
    return WaitPart(
        Wait.DEVICE_LIMIT,
        {
            "limit": limit,
            "used": holdings.in_use.get(job.user, 0),
            **({"kept": kept} if kept else {}),
            **(behind or {"needs": job.needs}),
        },
    )


def _too_few(job: QueuedJob, total: int, free: int, fitting: int) -> list[WaitPart]:
    several = {"nodes": job.nodes} if job.nodes > 1 else {}
    values = {"free": free, "total": total, "kind": job.kind, "count": job.count, **several}
    parts = [WaitPart(Wait.CARDS, values)]
    if free >= job.needs:
        parts.append(WaitPart(Wait.FITTING, {"fitting": fitting, "count": job.count}))
    return parts


def _kept(job: QueuedJob, decided: Pass) -> WaitPart:
    reservation = decided.reservation(job.kind)
    values: dict[str, str | int] = {"kind": job.kind, "job": reservation.head.job_id}
    if reservation.at is not None:
        minutes = int((reservation.at - decided.now - job.grace_s) // 60)
        if minutes >= 1:
            values["shorter"] = format_duration(minutes * 60)
    return WaitPart(Wait.KEPT, values)
