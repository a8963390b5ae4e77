"""What the scheduler is told and what it answers. Times are unix seconds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jumar.spec.devices import CardRef

Pool = Mapping[str, Mapping[str, Collection[int]]]
"""All cards there are, free or not: kind, then node, then the ids of its cards."""


USUAL_PRIORITY = 100
"""What a job has that nobody gave a priority."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits for `count` cards of one kind on each of `nodes` different nodes."""

    job_id: str
    user: str
    kind: str
    count: int
    nodes: int
    priority: int
    order: int
    """Who came first: the smaller number."""
    time_limit_s: float | None
    grace_s: float = 0.0
    """How much longer than its limit the job may hold its cards while it is being ended."""
    rank: int = USUAL_PRIORITY
    """The priority that an administrator gave it, which orders the whole line. A member's own
    priority orders only the jobs of that member, and their rank is the usual one."""

    @property
    def needs(self) -> int:
        """Cards over all nodes."""
        return self.count * self.nodes

    @property
    def longest_s(self) -> float | None:
        """The longest it can hold its cards; None: nobody knows."""
        return None if self.time_limit_s is None else self.time_limit_s + self.grace_s


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds cards."""

    job_id: str
    user: str
    kind: str
    cards: tuple[CardRef, ...]
    ends_by: float | None
    """When its cards are free at the latest: start, limit and grace. None: nobody knows."""
    since: float | None = None
    """When it got its cards; None: just now."""


@dataclass(frozen=True, slots=True)
class Start:
    """The decision to start a job now on these cards, node after node."""

    job_id: str
    cards: tuple[CardRef, ...]
