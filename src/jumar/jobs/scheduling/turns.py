"""Whose turn it is: the order of the line, by what everybody has used of their share.

The order, from the outside in:

- By rank: what an administrator put first is first, what an administrator put last is last.
- Within a rank preemptible jobs stand behind the others: those could take their cards anyway. But of
  the preemptible jobs of a kind one at a time, the one that has waited longest among their users' first
  ones, stands among the others once it has waited a day. So an endless stream of other jobs does not
  keep them out for ever: what is said below holds for that one. It may still be asked to leave;
  after that it is spared until it has written a checkpoint, but for no longer than twice the time before.
- Each kind of card has turns of its own. Kinds have nothing but a user's limits in common, so between
  them the first come is looked at first.
- The next turn is the group's that has used least for its share, then, within the group, the user's
  that has used least for theirs. A group's use is its users' use. Equal use: first come.
- A user's own jobs of a kind stand by that user's priority, then first come.
- Who is overdue (`overdue`) stands before all whose jobs are not, first come. But after one that was the first
  of these comes one by use, so at least every second job that cards are kept for has its turn by use.
- The job that cards are being kept for, the head, stays the first of its rank until it has started: were
  it overtaken now, the cards would have been idle for nothing. That is one turn out of order per kind,
  which counts as its user's like any other.

Every turn counts at once as if the job had started (`use.cost`), so the turns of one pass are dealt out
among all who wait. A job that can never start takes no turn: it stands at the end.

**Nobody is overtaken for ever.** Let ann wait with nothing running, and let u(x) be what user x has
used, divided by the share. A job of bob's goes ahead of ann's first job only while u(bob) <= u(ann).
Decay multiplies both by the same factor, so the quotient u(bob)/u(ann) never falls by time alone, and it
rises with every card-second that bob's jobs take. (What a job is expected to take only makes u(bob)
look larger, never smaller, than what is kept of it in the end.) So once bob's jobs have taken as much as
ann had used, in the proportion of the shares, he is behind her until she runs something. There are
finitely many users; after finitely many card-seconds of theirs ann's first job is the head of its kind
and stays it, and what a head is promised is in `schedule`. Who comes anew, who is given another share
and what an administrator puts first may of course go ahead of her once more.

Nor is anybody kept waiting by use for much longer than by the line itself: once ann's job is overdue, only those
go ahead who came before her and are overdue too, and for each of them at most one by use.

With groups the same holds for ann's group among the groups and for ann within it, as long as the group
has nothing running. While colleagues hold cards, the group's use grows with theirs: a group that holds
more than its share waits for others, that is what shares are for.

Lazy: users stand in a heap, and nobody's jobs are gone through before it is their turn."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace, merge

from jumar.jobs.scheduling.overdue import Arrivals, Overdue
from jumar.jobs.scheduling.records import Line, QueuedJob, Shape, place_of
from jumar.jobs.scheduling.use import DAY_S, Owner, cost

PATIENCE_S = float(DAY_S)
"""After so long a preemptible job takes its turn among the others."""
DEFAULT_GROUP = "default"
"""Where everybody is who is in no other group."""


@dataclass(frozen=True, slots=True)
class Member:
    """Where a user is, and what share of that group is theirs."""

    group: str = DEFAULT_GROUP
    share: float = 1.0


NOWHERE_ELSE = Member()
NO_HEADS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Shares:
    """Groups share the site, users share their group; shares are proportions."""

    groups: Mapping[str, float] = field(default_factory=dict[str, float])
    members: Mapping[str, Member] = field(default_factory=dict[str, Member])

    def member(self, user: str) -> Member:
        """Everybody is somewhere."""
        return self.members.get(user, NOWHERE_ELSE)

    def of_group(self, group: str) -> float:
        """A group's share of the site."""
        return self.groups.get(group, 1.0)


_Tier = tuple[int, bool]
"""A rank, and whether its jobs are those that do not give way."""


def _tier(job: QueuedJob) -> _Tier:
    return (job.rank, not job.preemptible)


Jobs = Mapping[str, Sequence[QueuedJob]]
"""The waiting jobs of one tier and one kind: by user, in that user's own order."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Those of one tier who wait for one kind of card."""

    name: str
    jobs: Jobs
    overdue: Overdue | None = None
    """Those who have waited long."""
    by_use_next: bool = False
    """Whether the last to start had waited longest: the next one is by use then."""


class Turns:
    """The line as it stood at one moment, in the order of turns. May be gone through many times."""

    def __init__(
        self,
        ranks: Sequence[Sequence["Kind"]],
        never: Sequence[QueuedJob],
        use: Mapping[Owner, float],
        shares: Shares,
        heads: Mapping[str, str],
        shapes: Collection[Shape],
    ) -> None:
        """`heads`: by kind, the job that cards are being kept for. `shapes`: those of all who may start."""
        self.shapes = shapes
        self._heads = heads
        self._ranks = ranks
        self._never = never
        self._use = use
        self.shares = shares

    def __iter__(self) -> Iterator[QueuedJob]:
        yield from self.able()
        yield from self._never

    def able(self) -> Iterator[QueuedJob]:
        """Those that may start some time."""
        # What the turns of higher ranks count.
        taken: dict[Owner, float] = {}
        for kinds in self._ranks:
            yield from _first_come([self._of_kind(kind, taken) for kind in kinds])

    def _of_kind(self, of: "Kind", taken: dict[Owner, float]) -> Iterator[QueuedJob]:
        jobs, overdue = of.jobs, of.overdue
        head = self._head_of(of.name, jobs)
        ahead: list[QueuedJob] = []
        if head is not None:
            ahead.append(head)
            yield head
            _count(head, taken)
            jobs = _without(jobs, [head])
        if overdue is not None and jobs:
            if of.by_use_next if head is None else overdue.begins_with(head):
                first = next(self._by_use(of.name, jobs, taken))
                ahead.append(first)
                yield first
                _count(first, taken)
                jobs = _without(jobs, [first])
            gone: list[QueuedJob] = []
            for job in overdue.first_come(jobs, ahead):
                yield job
                _count(job, taken)
                gone.append(job)
            jobs = _without(jobs, gone)
        yield from self._by_use(of.name, jobs, taken)
        for user, theirs in jobs.items():
            taken[of.name, user] = taken.get((of.name, user), 0.0) + sum(map(cost, theirs))

    def _by_use(self, kind: str, jobs: Jobs, taken: Mapping[Owner, float]) -> Iterator[QueuedJob]:
        groups: dict[str, list[str]] = {}
        group_use: dict[str, float] = {}
        for user in jobs:
            groups.setdefault(self.shares.member(user).group, []).append(user)
        for counted in (self._use, taken):
            for (of_kind, user), used in counted.items():
                if of_kind == kind:
                    group = self.shares.member(user).group
                    group_use[group] = group_use.get(group, 0.0) + used
        heap = [
            _Group(
                group_use.get(group, 0.0) / self.shares.of_group(group),
                1.0 / self.shares.of_group(group),
                [self._user(kind, user, jobs[user], taken) for user in users],
            )
            for group, users in groups.items()
        ]
        return _deal(heap)

    def _head_of(self, kind: str, jobs: Jobs) -> QueuedJob | None:
        head_id = self._heads.get(kind)
        if head_id is None:
            return None
        theirs = (job for line in jobs.values() for job in line)
        return next((job for job in theirs if job.job_id == head_id), None)

    def _user(
        self, kind: str, user: str, jobs: Sequence[QueuedJob], taken: Mapping[Owner, float]
    ) -> "_User":
        owner = (kind, user)
        used = self._use.get(owner, 0.0) + taken.get(owner, 0.0)
        share = self.shares.member(user).share
        # Places are (use for the share, first come), the name only keeps ties from being compared on.
        return (used / share, jobs[0].order, user, 1.0 / share, jobs, 0)


def _count(job: QueuedJob, taken: dict[Owner, float]) -> None:
    owner = (job.kind, job.user)
    taken[owner] = taken.get(owner, 0.0) + cost(job)


def _without(jobs: Jobs, gone: Iterable[QueuedJob]) -> Jobs:
    left = dict(jobs)
    of_user: dict[str, set[str]] = {}
    for job in gone:
        of_user.setdefault(job.user, set()).add(job.job_id)
    for user, ids in of_user.items():
        rest = tuple(job for job in jobs[user] if job.job_id not in ids)
        if rest:
            left[user] = rest
        else:
            del left[user]
    return left


_User = tuple[float, int, str, float, Sequence[QueuedJob], int]
"""Use for the share, when the next job came, the name, one over the share, the jobs, which is next."""


@dataclass(slots=True)
class _Group:
    """A group whose users wait; `used` and `per_share` as with a user."""

    used: float
    per_share: float
    users: list[_User]

    def take_turn(self) -> tuple[QueuedJob, float]:
        """The next job of the group, and what it counts."""
        used, _, user, per_share, jobs, place = self.users[0]
        job = jobs[place]
        counts = cost(job)
        place += 1
        if place == len(jobs):
            heappop(self.users)
        else:
            later = (used + counts * per_share, jobs[place].order, user, per_share, jobs, place)
            heapreplace(self.users, later)
        return job, counts


def _first_come(kinds: Sequence[Iterator[QueuedJob]]) -> Iterator[QueuedJob]:
    if len(kinds) == 1:
        return kinds[0]
    return merge(*kinds, key=lambda job: job.order)


def _deal(groups: list[_Group]) -> Iterator[QueuedJob]:
    """Turn after turn."""
    for group in groups:
        heapify(group.users)
    heap = [(group.used, group.users[0][1], n, group) for n, group in enumerate(groups)]
    heapify(heap)
    while len(heap) > 1:
        used, _, number, group = heap[0]
        job, counts = group.take_turn()
        yield job
        if group.users:
            later = (used + counts * group.per_share, group.users[0][1], number, group)
            heapreplace(heap, later)
        else:
            heappop(heap)
    for *_, last in heap:
        while last.users:
            yield last.take_turn()[0]


class FairLine:
    """The waiting jobs, kept so that their order can be dealt out at any moment."""

    def __init__(self, can_ever_start: Callable[[QueuedJob], bool] = lambda job: True) -> None:
        self._can_ever_start = can_ever_start
        self._lines: dict[_Tier, dict[str, dict[str, Line]]] = {}
        self._never = Line()
        self._by_id: dict[str, QueuedJob] = {}
        self._yielding: set[str] = set()
        self._shapes = Counter[Shape]()
        self._arrivals: dict[tuple[int, str], Arrivals] = {}
        """By rank and kind, of those who do not give way."""
        self._looked_at: dict[tuple[int, str], Overdue | None] = {}
        """Who was overdue when the line was last looked at, until the first has left it."""
        self._by_use_next: dict[tuple[int, str], bool] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._by_id

    def get(self, job_id: str) -> QueuedJob | None:
        """The job, if it waits here."""
        return self._by_id.get(job_id)

    def add(self, job: QueuedJob) -> None:
        """Put a job in its place; one that waits already is moved there."""
        self.discard(job.job_id)
        self._by_id[job.job_id] = job
        if job.yields_to is not None:
            self._yielding.add(job.job_id)
        if self._can_ever_start(job):
            kinds = self._lines.setdefault(_tier(job), {})
            kinds.setdefault(job.kind, {}).setdefault(job.user, Line()).add(job)
            self._shapes[job.shape] += 1
            if not job.preemptible:
                self._arrivals.setdefault((job.rank, job.kind), Arrivals()).add(job)
        else:
            self._never.add(job)

    def remove(self, job_id: str) -> QueuedJob:
        """Take a job out; KeyError if it is not there."""
        job = self._by_id.pop(job_id)
        self._yielding.discard(job_id)
        if job_id in self._never:
            return self._never.remove(job_id)
        self._shapes[job.shape] -= 1
        if not self._shapes[job.shape]:
            del self._shapes[job.shape]
        if not job.preemptible:
            self._arrivals[job.rank, job.kind].remove(job)
            self._note_who_left(job)
        kinds = self._lines[_tier(job)]
        users = kinds[job.kind]
        users[job.user].remove(job_id)
        if not users[job.user]:
            del users[job.user]
        if not users:
            del kinds[job.kind]
        if not kinds:
            del self._lines[_tier(job)]
        return job

    def discard(self, job_id: str) -> None:
        """Take a job out if it is there."""
        if job_id in self._by_id:
            self.remove(job_id)

    def turns(
        self,
        use: Mapping[Owner, float],
        shares: Shares,
        heads: Mapping[str, str] = NO_HEADS,
        *,
        now: float | None = None,
    ) -> Turns:
        """The order as of now; the line may change meanwhile. `heads`: by kind, the job that cards
        were kept for in the last pass. `now`: without it, nobody has waited long."""
        self._forget_who_left()
        tiers = {
            tier: {
                kind: {user: tuple(line) for user, line in users.items()}
                for kind, users in sorted(kinds.items())
            }
            for tier, kinds in self._lines.items()
        }
        for rank, kind, job in self._impatient(now):
            _move(tiers, kind, job, rank)
        ranks = [
            [self._kind(tier, kind, jobs, now) for kind, jobs in tiers[tier].items()]
            for tier in sorted(tiers, reverse=True)
        ]
        return Turns(ranks, tuple(self._never), use, shares, heads, frozenset(self._shapes))

    def _kind(self, tier: _Tier, kind: str, jobs: Jobs, now: float | None) -> Kind:
        rank, stands_firm = tier
        arrivals = self._arrivals.get((rank, kind)) if stands_firm else None
        if arrivals is None or now is None:
            return Kind(kind, jobs)
        overdue = arrivals.overdue(now)
        self._looked_at[rank, kind] = overdue
        return Kind(kind, jobs, overdue, self._by_use_next.get((rank, kind), False))

    def _note_who_left(self, job: QueuedJob) -> None:
        """The first to start after a look at the line: for having waited longest, or otherwise."""
        of = (job.rank, job.kind)
        if of in self._looked_at:
            overdue = self._looked_at.pop(of)
            self._by_use_next[of] = overdue is not None and overdue.begins_with(job)

    def _impatient(self, now: float | None) -> list[tuple[int, str, QueuedJob]]:
        """Preemptible jobs that have waited long, one per rank and kind."""
        found: list[tuple[int, str, QueuedJob]] = []
        for (rank, stands_firm), kinds in self._lines.items():
            if stands_firm or now is None:
                continue
            for kind, users in kinds.items():
                firsts = (line.first for line in users.values())
                waiting = [(job.since, job.order, job) for job in firsts if job.since is not None]
                if waiting and now - min(waiting)[0] >= PATIENCE_S:
                    found.append((rank, kind, min(waiting)[2]))
        return found

    def _forget_who_left(self) -> None:
        """A job that yielded to one which is no longer in line has its place back."""
        for job_id in tuple(self._yielding):
            job = self._by_id[job_id]
            if job.yields_to not in self._by_id:
                self.add(replace(job, yields_to=None))


def _move(
    tiers: dict[_Tier, dict[str, dict[str, tuple[QueuedJob, ...]]]],
    kind: str,
    job: QueuedJob,
    rank: int,
) -> None:
    """Let a preemptible job stand among those of its rank that do not give way."""
    users = tiers[rank, False][kind]
    left = users[job.user][1:]
    if left:
        users[job.user] = left
    else:
        del users[job.user]
    kinds = tiers.setdefault((rank, True), {})
    beside = kinds.setdefault(kind, {})
    beside[job.user] = tuple(sorted((*beside.get(job.user, ()), job), key=place_of))
    tiers[rank, True] = dict(sorted(kinds.items()))
