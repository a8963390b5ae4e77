"""Who starts now, on which cards: a pure function of the line, the cards, what runs and the time.

The rules:

- Jobs are looked at in the order of turns, which `turns` deals out by what everybody has used.
- A job gets `count` cards on each of `nodes` nodes at once, or nothing. It goes to the nodes with
  the fewest free cards that do, so that large holes stay whole; a job on one node goes to one that is in use
  already, beside jobs that last as long, so that nodes come back whole. It gets the lowest neighbouring
  ids there. A card has one job.
- Each kind of card is a pool of its own with a line of its own.
- The first job of a kind that does not fit is the *head* of that kind. Jobs behind it may start
  (backfill) only where that cannot delay it; of these a larger one goes before a smaller one that would take a part
  of the hole it needs (`larger`).
- A job that would bring its user over a limit (of devices held, of jobs running) waits, and so do all later jobs of that user: else
  a user's small jobs would keep the big one waiting for ever. It is no head, since cards kept for
  it would lie idle until its user's own jobs end. A head counts as if it ran already, so no later
  job of its user can take the room that it needs under the limit.
- A job that could never start (too few cards in the pool, or above the limit all alone) is passed
  over and holds nobody back.

**Backfill never delays the head.** Let H be the head of a kind, needing c cards on each of m nodes.

*The time is known.* Let T be the earliest time at which, going by `ends_by`, at least m nodes have c
free cards: call these nodes good. `ends_by` is a bound that is enforced, so without backfill H
starts by T. A job behind H starts now only if (1) it ends by T even if it uses its whole limit; then
every node has the same cards at T as without it. Or (2) it may outlast T, and after subtracting its
cards for good at least m nodes are still good at T. Either way at T at least m nodes are good, so
the promise T holds after each start. In the next pass, at a time before T, jobs have only ended
earlier than assumed: T computed anew is the same or earlier. By induction, as long as H is the head, T
never moves later, and at T, at the latest, H starts. If every job uses its whole limit, H cannot start before T either,
with or without backfill: backfill changes nothing for it.

*The time is not known*, because too many nodes wait for jobs without a limit. Then such a job might
end at once, and no length of time is short enough. A job behind H may take cards of a node only if
the node would serve H at the very same moments without them, whatever subset of its running jobs
has ended by then. So in every possible future the nodes that can serve H are the same ones as
without backfill.

*The user's limit.* H is head only while it is within its user's limit. Starts after H in the line
count H's cards as used, so they leave room for it; other jobs of the user can only end. H stays
within its limit until it starts.

*Jobs ahead of H* can still delay it. Once cards are kept for H it stays the first of its rank (`turns`),
so it can only be a job that an administrator ranks higher. Before, it can also be one of H's own user
with a higher priority, one of somebody who has used less for their share than H's user, or one that
waited for its user's limit. That is what the order asks for. Starts themselves do not change it: a job that starts counts from then on as
much as its turn did in this pass, so in a second look at the same moment the others stand as they
stood. Later, of those who wait, only who runs something falls back, and how much can go ahead of H in
all is bounded (`turns`). So H is not overtaken for ever, and from the moment when nobody is left to
overtake it, the promise above is kept.

**Preemption.** A head that is not preemptible, and whose cards would come later than a grace from now,
has preemptible jobs leave (`preemption.victims`). From then on they end within their grace, so T is
that much earlier and the promise is kept by the same argument; what starts behind the head in the same
pass knows of it already. A victim comes back with `yields_to`: it is not offered cards while the job it
gave way to waits for cards, so the two cannot take them from each other in turns. Where that job waits
for its user's limit, or can never start, the victim waits for nobody. Non-preemptible jobs of a rank
stand before its preemptible ones (`turns`), so nothing is started only to be asked to leave, but for one
that has waited a day.

What this does not do: wait, or look at the clock."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import chain

from jumar.jobs.scheduling.backfill import Reservation
from jumar.jobs.scheduling.cards import KindCards
from jumar.jobs.scheduling.larger import LargerFirst
from jumar.jobs.scheduling.preemption import victims
from jumar.jobs.scheduling.records import (
    Pool,
    QueuedJob,
    RunningJob,
    Shape,
    Start,
    UserLimit,
    limit_of,
)
from jumar.jobs.scheduling.turns import Turns
from jumar.spec.devices import CardRef

__all__ = [
    "CardRef",
    "Decision",
    "Holdings",
    "Pass",
    "Pool",
    "QueuedJob",
    "Refusal",
    "RunningJob",
    "Start",
    "decide",
]


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done now."""

    starts: list[Start]
    preempted: Mapping[str, tuple[str, ...]]
    """Jobs that wait, and the running jobs that are to leave for them. To be committed together with
    `yields_to` of those that leave."""
    heads: Mapping[str, str] = field(default_factory=dict[str, str])
    """By kind: the job that cards are kept for. It stays the first of its rank (`turns`)."""


def decide(
    queue: Iterable[QueuedJob],
    pool: Pool,
    running: Iterable[RunningJob],
    *,
    now: float,
    user_limit: UserLimit,
    running_limit: int | None = None,
) -> Decision:
    """Who of the line starts now, and who leaves so that another can. `queue` is in order already, as
    `Turns` gives it.

    `user_limit`: how many devices, of all kinds, the running jobs of one user may hold.
    `running_limit`: how many jobs of one user may run."""
    running = tuple(running)
    holdings = Holdings(pool, running, user_limit=user_limit, running_limit=running_limit)
    decided = Pass(holdings, now, running)
    starts = decided.go_through(queue)
    heads = {kind: job.job_id for kind, job in decided.heads.items()}
    return Decision(starts, decided.preempted, heads)


class Holdings:
    """Who holds which cards. It outlives a pass, for those who look into the future."""

    def __init__(
        self,
        pool: Pool,
        running: Iterable[RunningJob],
        *,
        user_limit: UserLimit,
        running_limit: int | None = None,
    ) -> None:
        self.user_limit = user_limit
        self.running_limit = running_limit
        self.in_use: dict[str, int] = {}
        """How many devices each user holds."""
        self.jobs_of: dict[str, int] = {}
        """How many jobs each user runs."""
        self._running: dict[str, tuple[str, str, int]] = {}
        by_kind: dict[str, list[RunningJob]] = {kind: [] for kind in pool}
        for job in running:
            by_kind.setdefault(job.kind, []).append(job)
            self._charge(job.job_id, job.user, job.kind, len(job.cards))
        self.kinds: Mapping[str, KindCards] = {
            kind: KindCards(pool.get(kind, {}), jobs) for kind, jobs in by_kind.items()
        }

    @property
    def free_total(self) -> int:
        """Free cards of all kinds."""
        return sum(cards.free_total for cards in self.kinds.values())

    def is_running(self, job_id: str) -> bool:
        """Whether the job holds cards."""
        return job_id in self._running

    def start(self, job: QueuedJob, nodes: Iterable[str], now: float) -> Start:
        """Let the job hold its cards from now on."""
        ends_by = None if job.longest_s is None else now + job.longest_s
        cards = self.kinds[job.kind].take(job.job_id, nodes, job.count, ends_by, job.avoids)
        self._charge(job.job_id, job.user, job.kind, job.needs)
        return Start(job.job_id, cards)

    def end(self, job_id: str) -> None:
        """Free what the job held."""
        user, kind, devices = self._running.pop(job_id)
        self.in_use[user] -= devices
        self.jobs_of[user] -= 1
        self.kinds[kind].give_back(job_id)

    def _charge(self, job_id: str, user: str, kind: str, devices: int) -> None:
        self._running[job_id] = (user, kind, devices)
        self.in_use[user] = self.in_use.get(user, 0) + devices
        self.jobs_of[user] = self.jobs_of.get(user, 0) + 1


class Refusal(Enum):
    """Why a job does not start in this pass."""

    NEVER_FITS = auto()
    """The pool is too small for it."""
    NEVER_ALLOWED = auto()
    """It alone is above its user's limit."""
    OVER_LIMIT = auto()
    """With what its user holds, and what is kept for their heads, it is above the limit."""
    TOO_MANY_JOBS = auto()
    """Its user runs as many jobs as one user may, those counted that cards are kept for."""
    BEHIND_OWN = auto()
    """An earlier job of its user waits for the limit."""
    NO_CARDS = auto()
    """Too few cards are free, or they are kept for the head."""
    YIELDS = auto()
    """It gave way to a job that still waits for cards."""


class Pass:
    """One walk down the line. Free cards only get fewer in it, so what did not fit once is not
    tried again."""

    def __init__(self, holdings: Holdings, now: float, running: Iterable[RunningJob] = ()) -> None:
        """`running`: who holds cards, where preemptible jobs are to leave for a head."""
        self.holdings = holdings
        self.now = now
        self.preempted: dict[str, tuple[str, ...]] = {}
        """Heads, and the running jobs that are to leave for them."""
        self._may_leave: dict[str, list[RunningJob]] = {}
        for job in running:
            if job.preemptible or job.leaves:
                self._may_leave.setdefault(job.kind, []).append(job)
        self._not_for_cards: set[str] = set()
        """Jobs that wait for something else than cards."""
        self.heads: dict[str, QueuedJob] = {}
        """The head of each kind that has one."""
        self.held: dict[str, QueuedJob] = {}
        """Users who wait for a limit, and the job that made them wait."""
        self.why_held: dict[str, Refusal] = {}
        """Which limit that is."""
        self.looks = 0
        """How often it looked at a waiting or a running job: what the pass has cost so far."""
        self._reservations: dict[str, Reservation] = {}
        self._charged = dict(holdings.in_use)
        self._charged_jobs = dict(holdings.jobs_of)
        self._possible: dict[Shape, bool] = {}
        self._unfitting: set[Shape] = set()
        self._kept: set[Shape] = set()
        """Shapes that fit only on cards kept for the head, unless the job is short."""

    def go_through(self, queue: Iterable[QueuedJob]) -> list[Start]:
        """Offer the free cards to one job after the other, until none of those that wait would fit."""
        shapes = queue.shapes if isinstance(queue, Turns) else None
        starts: list[Start] = []
        yielding: list[QueuedJob] = []
        free = self.holdings.free_total
        fitting = None if shapes is None else self.fitting(shapes)
        kinds = {kind for kind, _, _ in shapes or ()}
        line = LargerFirst(self, chain(queue, self._second_look(yielding)))
        while (job := line.next(fitting or ())) is not None:
            if not free and self.heads.keys() >= self._may_leave.keys():
                break
            if fitting is not None and not fitting and self.heads.keys() >= kinds:
                break
            outcome = self.offer(job)
            if isinstance(outcome, Start):
                starts.append(outcome)
                free -= len(outcome.cards)
                fitting = None if fitting is None else self.fitting(fitting)
                line.changed()
            elif outcome is Refusal.YIELDS:
                yielding.append(job)
        return starts

    def hole_for(self, job: QueuedJob) -> int:
        """How many cards are free where the job would go; 0 where it is in turn, or of several nodes."""
        if job.kind not in self.heads or job.nodes > 1 or job.yields_to is not None:
            return 0
        cards = self.holdings.kinds[job.kind]
        nodes = cards.beside(cards.free, job.count, job.lasts_until(self.now))
        return cards.free[nodes[0]] if nodes else 0

    def is_kept_from(self, shape: Shape) -> bool:
        """Whether the head keeps such jobs from starting, unless they are short."""
        return shape in self._kept

    def fitting(self, shapes: Collection[Shape]) -> list[Shape]:
        """Those of which one more job would find its cards free."""
        kinds = self.holdings.kinds
        return [
            (kind, count, nodes)
            for kind, count, nodes in shapes
            if kind in kinds and len(kinds[kind].free.tightest(count, nodes)) == nodes
        ]

    def _second_look(self, yielding: Iterable[QueuedJob]) -> Iterator[QueuedJob]:
        """At the end of the line it is known how those fare that others yield to."""
        return (job for job in yielding if not self._yields(job))

    def _yields(self, job: QueuedJob) -> bool:
        other = job.yields_to
        return not (
            other is None or other in self._not_for_cards or self.holdings.is_running(other)
        )

    def offer(self, job: QueuedJob) -> Start | Refusal:
        """Start the job if the rules let it."""
        self.looks += 1
        shape = job.shape
        if not self._is_possible(shape):
            self._not_for_cards.add(job.job_id)
            return Refusal.NEVER_FITS
        if job.yields_to is not None and self._yields(job):
            return Refusal.YIELDS
        refusal = self._check_limit(job)
        if refusal is not None:
            self._not_for_cards.add(job.job_id)
            return refusal
        if shape in self._unfitting or (shape in self._kept and self._outlasts_head(job)):
            return Refusal.NO_CARDS
        cards = self.holdings.kinds[job.kind]
        nodes = cards.free.tightest(job.count, job.nodes)
        if len(nodes) < job.nodes:
            self._unfitting.add(shape)
            self._make_head(job)
            return Refusal.NO_CARDS
        if job.nodes == 1:
            nodes = cards.beside(cards.free, job.count, job.lasts_until(self.now))
        if job.kind in self.heads:
            return self._backfill(job, shape, nodes)
        return self._start(job, nodes)

    def reservation(self, kind: str) -> Reservation:
        """What is kept for the head of a kind that has one; made when it is first asked for."""
        if kind not in self._reservations:
            # Nothing of this kind has started since it got its head, so later is not too late.
            cards = self.holdings.kinds[kind]
            self.looks += len(cards.holds)
            self._reservations[kind] = Reservation(self.heads[kind], cards, self.now)
        return self._reservations[kind]

    def kept_for(self, user: str) -> int:
        """Devices that count as the user's because they are kept for their heads."""
        return self._charged.get(user, 0) - self.holdings.in_use.get(user, 0)

    def _is_possible(self, shape: Shape) -> bool:
        possible = self._possible.get(shape)
        if possible is None:
            kind, count, nodes = shape
            cards = self.holdings.kinds.get(kind)
            possible = cards is not None and cards.could_ever_hold(count, nodes)
            self._possible[shape] = possible
        return possible

    def _check_limit(self, job: QueuedJob) -> Refusal | None:
        limit = limit_of(self.holdings.user_limit, job.user)
        most_jobs = self.holdings.running_limit
        if limit is None and most_jobs is None:
            return None
        if limit is not None and job.needs > limit:
            return Refusal.NEVER_ALLOWED
        if job.user in self.held:
            return Refusal.BEHIND_OWN
        refusal = None
        if limit is not None and self._charged.get(job.user, 0) + job.needs > limit:
            refusal = Refusal.OVER_LIMIT
        elif most_jobs is not None and self._charged_jobs.get(job.user, 0) >= most_jobs:
            refusal = Refusal.TOO_MANY_JOBS
        if refusal is not None:
            self.held[job.user] = job
            self.why_held[job.user] = refusal
        return refusal

    def _make_head(self, job: QueuedJob) -> None:
        if job.kind not in self.heads:
            self.heads[job.kind] = job
            self._charge(job)
            if job.kind in self._may_leave:
                self._have_others_leave(job)

    def _have_others_leave(self, head: QueuedJob) -> None:
        cards = self.holdings.kinds[head.kind]
        able = {job.job_id: job for job in self._may_leave[head.kind]}
        # What they hold of the pool as it is now: a card that has left it comes back to nobody.
        holding = [replace(job, cards=cards.held_by(job.job_id)) for job in able.values()]
        chosen = victims(head, dict(cards.free.items()), holding, self.now)
        if not chosen:
            return
        grace_s = max(able[job_id].grace_s for job_id in chosen)
        at = self.reservation(head.kind).at
        if at is not None and at <= self.now + grace_s:
            return
        self.preempted[head.job_id] = chosen
        for job_id in chosen:
            cards.hurry(job_id, self.now + able[job_id].grace_s)
        del self._reservations[head.kind]

    def _backfill(self, job: QueuedJob, shape: Shape, nodes: list[str]) -> Start | Refusal:
        reservation = self.reservation(job.kind)
        lasting = reservation.outlasts(job, self.now)
        if lasting:
            allowed = reservation.place(job, self.now)
            if allowed is None:
                self._kept.add(shape)
                return Refusal.NO_CARDS
            nodes = allowed
        start = self._start(job, nodes)
        reservation.given(nodes, job.count, lasting=lasting)
        return start

    def _outlasts_head(self, job: QueuedJob) -> bool:
        return self.reservation(job.kind).outlasts(job, self.now)

    def _start(self, job: QueuedJob, nodes: list[str]) -> Start:
        self._charge(job)
        return self.holdings.start(job, nodes, self.now)

    def _charge(self, job: QueuedJob) -> None:
        self._charged[job.user] = self._charged.get(job.user, 0) + job.needs
        self._charged_jobs[job.user] = self._charged_jobs.get(job.user, 0) + 1
