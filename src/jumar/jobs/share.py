"""Who has used what, whose turn is next, and why: the snapshot that the scheduler sees, in words."""

from collections import Counter
from collections.abc import Iterable, Mapping

from jumar.jobs.roster import Snapshot
from jumar.jobs.scheduling.records import USUAL_PRIORITY, QueuedJob
from jumar.jobs.scheduling.turns import Shares
from jumar.jobs.scheduling.use import DAY_S, Owner, by_day, day_of
from jumar.spec.shares import NextTurn, ShareLine, ShareReport
from jumar.spec.usage import UsedBy

_LEAST = 1e-9
_DAYS = 7


def report(standing: Snapshot, now: float, *, half_life_days: int) -> ShareReport:
    """Everybody who has used, holds or wants a card, and who is next for each kind."""
    queue = tuple(standing.queue)
    waiting = Counter((job.kind, job.user) for job in queue)
    running = Counter[Owner]()
    week = dict(standing.week)
    for job in standing.running:
        owner = (job.kind, job.user)
        running[owner] += len(job.cards)
        since = now if job.since is None else job.since
        week[owner] = week.get(owner, 0.0) + _lately(len(job.cards), since, now)
    used = {owner for owner, card_s in standing.use.items() if card_s > _LEAST}
    lines: list[ShareLine] = []
    for kind in sorted({kind for kind, _ in used | set(waiting)}):
        users = {user for of_kind, user in used | set(waiting) if of_kind == kind}
        lines += _of_kind(kind, users, standing, waiting=waiting, running=running, week=week)
    return ShareReport(
        half_life_days=half_life_days, lines=tuple(lines), next=tuple(_next(standing))
    )


def used_by(
    past: Mapping[Owner, float], standing: Snapshot, now: float, days: int
) -> tuple[UsedBy, ...]:
    """Who used most of each kind in the last days; `past` is what has ended."""
    total, running = dict(past), Counter[Owner]()
    for job in standing.running:
        owner = (job.kind, job.user)
        running[owner] += len(job.cards)
        since = now if job.since is None else job.since
        total[owner] = total.get(owner, 0.0) + _lately(len(job.cards), since, now, days)
    lines = [
        UsedBy(user=user, kind=kind, card_s=card_s, running_cards=running[kind, user])
        for (kind, user), card_s in total.items()
    ]
    return tuple(sorted(lines, key=lambda line: (line.kind, -line.card_s, line.user)))


def _lately(cards: int, since: float, now: float, days: int = _DAYS) -> float:
    first = (day_of(now) - days + 1) * DAY_S
    return sum(card_s for _, card_s in by_day(cards, max(since, float(first)), now))


def _of_kind(
    kind: str,
    users: Iterable[str],
    standing: Snapshot,
    *,
    waiting: Mapping[Owner, int],
    running: Mapping[Owner, int],
    week: Mapping[Owner, float],
) -> list[ShareLine]:
    shares = standing.queue.shares
    entitled = _entitled(users, shares)
    total = sum(card_s for (of_kind, _), card_s in standing.use.items() if of_kind == kind)
    lines = [
        ShareLine(
            kind=kind,
            user=user,
            group=shares.member(user).group,
            entitled=entitled[user],
            used=standing.use.get((kind, user), 0.0) / total if total else 0.0,
            counts_card_s=standing.use.get((kind, user), 0.0),
            week_card_s=week.get((kind, user), 0.0),
            running_cards=running.get((kind, user), 0),
            waiting_jobs=waiting.get((kind, user), 0),
        )
        for user in users
    ]
    return sorted(lines, key=lambda line: (line.used / line.entitled, line.user))


def _entitled(users: Iterable[str], shares: Shares) -> dict[str, float]:
    """The part of each; who does not take part leaves theirs to the others."""
    members = {user: shares.member(user) for user in users}
    totals: dict[str, float] = {}
    for member in members.values():
        totals[member.group] = totals.get(member.group, 0.0) + member.share
    site = sum(shares.of_group(group) for group in totals)
    return {
        user: shares.of_group(member.group) / site * member.share / totals[member.group]
        for user, member in members.items()
    }


def _next(standing: Snapshot) -> Iterable[NextTurn]:
    first: dict[str, QueuedJob] = {}
    others: dict[str, QueuedJob] = {}
    for job in standing.queue.able():
        if job.kind not in first:
            first[job.kind] = job
        elif job.kind not in others and job.user != first[job.kind].user:
            others[job.kind] = job
    for kind, job in sorted(first.items()):
        yield NextTurn(
            kind=kind,
            user=job.user,
            job_id=job.job_id,
            why=_why(job, others.get(kind), standing),
        )


def _why(job: QueuedJob, other: QueuedJob | None, standing: Snapshot) -> str:
    """Why the job is before the first one of anybody else."""
    if job.rank > USUAL_PRIORITY:
        return f"an administrator gave it priority {job.rank}"
    if other is None:
        return f"nobody else waits for {job.kind}"
    if job.rank > other.rank:
        return f"an administrator gave {other.user}'s job priority {other.rank}"
    shares = standing.queue.shares
    mine, theirs = shares.member(job.user), shares.member(other.user)
    if mine.group == theirs.group:
        name, name_there = job.user, other.user
        share, share_there = mine.share, theirs.share
        used = standing.use.get((job.kind, job.user), 0.0)
        used_there = standing.use.get((job.kind, other.user), 0.0)
    else:
        name, name_there = f"group {mine.group}", f"group {theirs.group}"
        share, share_there = shares.of_group(mine.group), shares.of_group(theirs.group)
        used = _used_by_group(mine.group, job.kind, standing)
        used_there = _used_by_group(theirs.group, job.kind, standing)
    by_share = "" if share == share_there else ", in proportion to their shares"
    if used / share < used_there / share_there:
        return f"{name} has used less than {name_there}{by_share}"
    return f"{name} has used as much as {name_there}{by_share}, and came first"


def _used_by_group(group: str, kind: str, standing: Snapshot) -> float:
    shares = standing.queue.shares
    return sum(
        card_s
        for (of_kind, user), card_s in standing.use.items()
        if of_kind == kind and shares.member(user).group == group
    )
