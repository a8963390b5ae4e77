"""What this server allows: how long jobs may run, and how much one user may have."""

from dataclasses import dataclass

from jumar.errors import SubmitRefused
from jumar.spec.duration import format_duration
from jumar.spec.job import JobSpec


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Of the whole server, in seconds; 0 means none."""

    default_s: int = 0
    """For a job that names none."""
    longest_s: int = 0

    def applied(self, spec: JobSpec) -> JobSpec:
        """The job with the limit that it gets here; SubmitRefused where it asks for more."""
        if spec.time_limit is None:
            limits_s = [limit for limit in (self.default_s, self.longest_s) if limit]
            return spec.model_copy(update={"time_limit": min(limits_s)}) if limits_s else spec
        if self.longest_s and spec.time_limit > self.longest_s:
            asked, longest = map(format_duration, (spec.time_limit, self.longest_s))
            raise SubmitRefused(
                f"time_limit: {asked} is longer than jobs may run here ({longest})",
                hint=f"let it take several: --time-limit {longest} --segments auto",
            )
        return spec


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the whole server."""

    user: int | None = None
    """Devices that one user may hold."""
    running: int | None = None
    """Jobs of one user that may run."""
    queue: int | None = None
    """Jobs of one user that may wait."""
    disk_bytes: int = 0
    """What one user's files may take of this server's disk; 0 means no limit."""
    time: TimeLimits = TimeLimits()
