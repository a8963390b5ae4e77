"""Who has used what, and whose turn is next. Times are unix seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLine:
    """What one user has used of one kind, and what their share of it is. Use is card-seconds."""

    kind: str
    user: str
    group: str
    entitled: float
    """The part (0 to 1) that is this user's among all who use or want the kind."""
    used: float
    """Their part (0 to 1) of all that has been used, as it counts now."""
    counts_card_s: float
    """What they have used: old use counts less, and running jobs as much as they are expected to take."""
    week_card_s: float
    """What they have used today and in the six days before, running jobs included."""
    running_cards: int
    waiting_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurn:
    """Whose turn is next for one kind, and why."""

    kind: str
    user: str
    job_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReport:
    """Who has used what, and who is next."""

    half_life_days: int
    lines: tuple[ShareLine, ...] = ()
    """By kind, then those first whose turn is sooner."""
    next: tuple[NextTurn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A user in a group, and their share of what is the group's."""

    user: str
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """Users who share a part of the site. Everybody else is in the group `default`."""

    name: str
    share: float
    members: tuple[GroupMember, ...] = ()
