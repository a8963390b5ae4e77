"""What a repair or a restore of the list of jobs has found and done."""

from dataclasses import dataclass

from jumar.spec.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job that was found by its folder and not, or not so, in the list."""

    id: str
    name: str
    user: str
    state: JobState
    is_new: bool
    """Whether the list does not have it at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFolder:
    """A job folder that cannot be understood, and is left alone."""

    folder: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair has done, or would do."""

    is_done: bool
    problem: str | None = None
    """What happened to the database's file."""
    salvaged: bool = False
    """Whether what the server still held of a lost file is in the new one."""
    set_aside: str | None = None
    """Where the remains of a lost file are."""
    jobs: tuple[FoundJob, ...] = ()
    users: tuple[str, ...] = ()
    """Users of those jobs whom the list did not have: they wait for an administrator."""
    left: tuple[LeftFolder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore has done."""

    jobs: int
    """How many the backup has."""
    users: int
    found: tuple[FoundJob, ...] = ()
    """Jobs that have begun or gone on since the backup was made."""
    left: tuple[LeftFolder, ...] = ()
    kept: str | None = None
    """Where what was there before is."""
