"""What a training tells of itself, and what it uses, as the API gives it. Times are unix seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric of a job."""

    name: str
    axis: str
    """What `x` is: `step`, `epoch`, or `count` where nobody tells them; `time` in seconds, if asked for."""
    log: str
    """What tells it: a log by node and rank, `0-0`; of a run that the script tracks itself, its file, or
    the folder of its TensorBoard files."""
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    """None: NaN or infinite."""
    times: tuple[float | None, ...] = ()
    """When the points were written, unix seconds; not over the API."""
    count: int
    """How many values there were; long curves are thinned."""
    last: float | None
    not_finite_from: float | None = None
    """Where the first NaN or infinite value was."""
    run: str = ""
    """Which run of the script's own, as it is called there; empty for what a log tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A run that a script tracks itself."""

    run: str
    file: str
    parameters: dict[str, float | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is wrong with a training."""

    kind: str
    """not-finite, plateau, slow-steps, idle-card, hot-card."""
    name: str
    """The metric, or the card."""
    since: float | None = None
    """When it was noticed; None where nobody watched."""
    values: dict[str, float | str] = field(default_factory=dict[str, float | str])
    """What the sentence of this kind needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAlert:
    """An alert in a list of those of many jobs."""

    job: str
    job_name: str
    user: str
    state: str
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetrics:
    """The metrics that were found in a job's files, and those that it tracks itself."""

    curves: tuple[Curve, ...]
    is_complete: bool
    """False: the logs are long, and were not read to their end yet; ask again."""
    revision: int
    """Changes when there is more."""
    runs: tuple[OwnRun, ...] = ()
    """Those that it tracks itself."""
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long each rank works alone in a step: a row per rank, a column per moment."""

    times: tuple[float, ...]
    ranks: tuple[int, ...]
    cells: tuple[tuple[float | None, ...], ...]
    """Milliseconds; None where nothing was told."""
    revision: int
    """Changes when there is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How good one metric of a run became."""

    name: str
    axis: str
    """As with a curve."""
    best: float | None
    """None: of this metric nobody knows what is good, or it was never a number."""
    best_at: float | None
    last: float | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRun:
    """One training: a job by its log, or one of the runs that its script tracks itself."""

    job: str
    name: str
    """Of the job."""
    state: str
    run: str
    """Empty for what the log tells."""
    parameters: dict[str, float | str]
    """Of the command line, and what the script says itself."""
    metrics: tuple[Standing, ...]

    def standing(self, name: str) -> Standing | None:
        """One of its metrics."""
        return next((one for one in self.metrics if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Trainings side by side."""

    runs: tuple[EvaluatedRun, ...]
    is_complete: bool
    """As with a job's metrics."""
