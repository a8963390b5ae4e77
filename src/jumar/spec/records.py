"""What passes between rooms and over the wire: jobs, attempts, plans. Times are unix seconds."""

from dataclasses import dataclass, field
from typing import Any

from jumar.spec.causes import Values
from jumar.spec.devices import LOCAL_NODE, CardHold, CardProcess, CardRef
from jumar.spec.states import AttemptState, JobState


@dataclass(frozen=True, slots=True)
class Recovery:
    """What it cost to go on after an attempt: seconds from the first sign of its end to the first step of the
    next one, by what they were spent on. None: nobody knows."""

    stop_s: float | None = None
    """Until all processes of the attempt before were gone."""
    detect_s: float | None = None
    """Until the server knew of that."""
    wait_s: float | None = None
    """In the line, until there were cards."""
    start_s: float | None = None
    """Until the new attempt ran."""
    load_s: float | None = None
    """Until it made its first step: imports, model, data and checkpoint."""
    repeated_steps: int | None = None
    """Steps of the attempt before that are made again, as far as it told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One try of a job on an engine."""

    number: int
    state: AttemptState
    engine: str = "local"
    handle: str | None = None
    """What the engine calls the attempt, where it has a name of its own for it."""
    segment: int = 1
    cards: tuple[CardRef, ...] = ()
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    cause: str | None = None
    """One of `spec.causes`; a newer server may know more of them. None: only `reason` says it."""
    values: Values = field(default_factory=dict[str, str | int])
    reason: str | None = None
    """The same in English."""
    tail: str | None = None
    """The last lines the failing rank wrote."""
    whose: str | None = None
    """Of one that failed or was lost: script, card, network, host or memory."""
    saved: str | None = None
    """The last whole checkpoint when it ended."""
    advanced: bool | None = None
    """Whether this attempt wrote it."""
    ending_at: float | None = None
    """When its first rank failed, or all were asked to end."""
    noticed_at: float | None = None
    """When the server saw that all of it was over."""
    recovery: Recovery | None = None
    """What it cost to go on after the attempt before."""
    notes: tuple[str, ...] = ()
    """What became of checkpoints that the attempt before left torn, in English."""


@dataclass(frozen=True, slots=True)
class WaitPart:
    """One thing to say about a job that waits: a `spec.causes.Wait` and its values."""

    name: str
    values: Values = field(default_factory=dict[str, str | int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a queued job does not run yet."""

    text: str
    """All of it in English."""
    cause: str = "cards"
    """cards (too few are free), kept (for the head of the line), limit (of its user), never, after
    (other jobs have to end first; it is not in the line yet), yields (to a job it gave way to), drain
    (no jobs are started now) or starts (it is about to)."""
    parts: tuple[WaitPart, ...] = ()
    """What `text` says, for those who say it in other words."""
    place_in_line: int
    needs: int
    free: int
    total: int
    expected_start: float | None = None
    users_ahead: tuple[str, ...] = ()
    """Who came later and is ahead because they have used less for their share."""
    groups_ahead: tuple[str, ...] = ()
    """Other groups whose users came later and are ahead because the group has used less."""
    put_ahead: int = 0
    """How many jobs ahead an administrator put there."""
    put_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How much of a job's data was carried, of how much."""

    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    cached_bytes: int = 0
    """Of `bytes`, what was there from before."""
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingRecord:
    """How far an attempt's inputs and results have been carried, as its status file tells it."""

    phase: str
    """bringing, brought, running, sending, done, not-uploaded or failed."""
    inputs: Carried | None = None
    outputs: Carried | None = None
    """What the last sending carried."""
    sent_at: float | None = None
    """When all that was there had arrived."""
    error: str | None = None
    """What is in the way: of a store that is waited for, of the last sending, of the whole. Of one that is done: what
    was left out for good."""
    updated_at: float = 0.0

    @property
    def has_unsent(self) -> bool:
        """Whether, now that the job has ended, results are only on its machine."""
        return self.phase in ("running", "sending", "not-uploaded")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One row of the list of jobs."""

    id: str
    name: str
    user: str
    state: JobState
    device: str
    nodes: int
    priority: int
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    engine: str = "local"
    cause: str | None = None
    """As with an attempt. Of a job that waits for its next attempt: why the last one ended."""
    values: Values = field(default_factory=dict[str, str | int])
    reason: str | None = None
    attempt: int = 0
    """How many attempts there were; 0 while none was started."""
    not_uploaded: bool = False
    """Whether it has ended and results of it are only on its machine yet."""
    array_id: str | None = None
    """The array that it is one job of; `array_index` says which."""
    array_index: int | None = None
    segment: int = 1
    """Which of its time limits it is in."""
    time_limit_s: int | None = None
    """Of each attempt; None: it has none, or an older server does not tell."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(JobSummary):
    """All that is known of one job; secrets in `spec` are masked."""

    spec: dict[str, Any]
    attempts: tuple[AttemptRecord, ...] = ()
    waiting: Waiting | None = None
    directory: str
    notes: tuple[str, ...] = ()
    """What the engine will not do of what the spec asks, in words."""
    staging: StagingRecord | None = None
    """None where nothing has to be carried."""
    trial: str | None = None
    """The file with what a run on simulated NPUs has shown, once there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an engine would do, to be read by a person before it is done."""

    engine: str
    summary: str
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    """What the engine will not do of what the spec asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some rows of the list, newest first, and how many there are in all."""

    jobs: tuple[JobSummary, ...]
    total: int
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """How many jobs in each state."""
    next_before: int | None = None
    """Give it as `before` to get the page after this one; None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """One schedulable card (or CPU slot) and who holds it."""

    kind: str
    id: int
    node: str = LOCAL_NODE
    name: str = ""
    job_id: str | None = None
    job_name: str | None = None
    user: str | None = None
    since: float | None = None
    foreign: tuple[CardProcess, ...] = ()
    """Processes that use it and belong to no job: it is not given out."""
    hold: CardHold | None = None
    """An administrator keeps it from being given out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """One thing that a job has left."""

    path: str
    kind: str
    """file, folder, link; or other: what cannot be sent, such as a pipe."""
    size: int = 0
    modified_at: float = 0.0
    etag: str = ""
    """Of a file: changes when it does."""
    target: str | None = None
    """Of a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """Some of a job's files, folders before what is in them."""

    path: str
    """Where the path that was asked for leads, without links."""
    files: tuple[JobFile, ...]
    next_after: str | None = None
    """`after` of the next page; None on the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One rank's log in a job directory."""

    node: int
    rank: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccount:
    """An object store that the platform has a key of the user for."""

    kind: str
    """`obs` or `s3`: the addresses that it is used for."""
    endpoint: str
    region: str
    buckets: tuple[str, ...] | None = None
    """Those that the key may list; told only when the key is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How long ended jobs are kept."""

    days: int
    removes_from: float
    """No job is removed before: from when it was set, there is a week to save what is needed."""

    def until(self, finished_at: float) -> float:
        """When a job goes that ended then."""
        return max(finished_at + self.days * 86_400, self.removes_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Which server answered."""

    name: str
    version: str
    home: str
    url: str
    started_at: float
    engine: str
    """Where jobs run that do not say where."""
    engines: tuple[str, ...] = ()
    """All places where its jobs may run."""
    s3_port: int = 0
    """Port of the S3 door; 0 when there is none."""
    fingerprint: str | None = None
    """SHA-256 of its certificate; null when it does not speak TLS."""
    ssh_port: int = 0
    """Port of `ssh -p PORT JOB@HOST`; 0 when there is none."""
    ssh_fingerprint: str | None = None
    """SHA-256 of the key that it shows to SSH clients."""
    keeping: Keeping | None = None
    """When ended jobs are removed; null when they are kept until somebody removes them."""
    trouble: str | None = None
    """What keeps it from writing anything down, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRecord:
    """Something of a running job that can be opened in a browser."""

    name: str
    url: str | None
    """Where it is, while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Keys:
    """What an S3 client needs to come in at the S3 door, for one user."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    certificate: str | None = None
    """What to trust the door by, where its certificate was made by the server itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArtsKeys:
    """What a client of ModelArts needs to talk to this server as one user."""

    endpoint: str
    project_id: str
    """The user's group."""
    ak: str
    sk: str = field(repr=False)
    obs_endpoint: str | None = None
    """The S3 door, for clients of OBS; null when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """One image of the server's machine."""

    name: str
    """As a job names it."""
    size: str
    program: str
    """podman or docker."""
