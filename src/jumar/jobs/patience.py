"""A start that does not work: tried again, told on the job meanwhile, and given up in the end."""

import time
from dataclasses import dataclass, replace

from jumar.engine.base import Attempt, Observation, StartHindered
from jumar.launch.jobdir.trouble import trouble_with
from jumar.spec.causes import Cause, Values, known
from jumar.spec.states import AttemptState
from jumar.spec.text import storable

START_LIMIT_S = 600.0
"""So long a start is tried where the attempt holds cards meanwhile."""
QUEUE_LIMIT_S = 86400.0
"""And so long where the cluster of a queue does not take it, which holds none."""
_MOST_WORDS = 500


@dataclass
class _Trouble:
    since: float
    cause: Cause
    values: Values
    is_sure: bool
    """Whether the engine knows that it was not started."""
    is_over: bool
    """Whether it is given up: by a try that failed, never between two of them."""


class Hindered:
    """Attempts whose last try did not work. For one thread."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.troubles: dict[tuple[str, int], _Trouble] = {}
        """By job and number of the attempt: one that works, or that nobody wants any more, is taken out."""

    def met(self, attempt: Attempt, error: Exception) -> None:
        """Its start did not work."""
        cause, values = _why(attempt, error)
        before = self.troubles.get((attempt.job_id, attempt.number))
        now = time.monotonic()
        since = now if before is None else before.since
        self.troubles[attempt.job_id, attempt.number] = _Trouble(
            since, cause, values, isinstance(error, StartHindered), now - since > self._limit_s
        )

    def is_given_up(self, attempt: Attempt) -> bool:
        """Whether it was tried for long enough."""
        found = self.troubles.get((attempt.job_id, attempt.number))
        return found is not None and found.is_over

    def unbegun(self, attempt: Attempt, state: AttemptState) -> Observation | None:
        """The end of an attempt that somebody asks to end before it could begin. None where there may
        be something to ask: an engine that did not answer, or a start that works."""
        found = self.troubles.get((attempt.job_id, attempt.number))
        if found is None or not found.is_sure:
            return None
        return Observation(job_id=attempt.job_id, number=attempt.number, state=state)

    def corrected(self, seen: Observation) -> Observation:
        """An engine sees only that nothing runs yet; here it is known why."""
        found = self.troubles.get((seen.job_id, seen.number))
        if found is None or seen.state is not AttemptState.STARTING or seen.cause is not None:
            return seen
        if found.is_over:
            # It waits no longer.
            cause = Cause.START_FAILS if found.cause is Cause.PENDING else found.cause
            return replace(
                seen, state=AttemptState.FAILED, cause=cause, values=found.values, reason=None
            )
        values = {**found.values, "limit_s": f"{self._limit_s:g}"}
        return replace(seen, cause=found.cause, values=values, reason=None)


def _why(attempt: Attempt, error: Exception) -> tuple[Cause, Values]:
    if isinstance(error, OSError):
        cause, _, values = trouble_with(error, str(attempt.directory))
        found, said = known(cause, values)
    elif isinstance(error, StartHindered):
        found, said = error.cause, error.values
    else:
        found, said = None, {}
    if found is None:
        return Cause.START_FAILS, {"error": storable(str(error))[:_MOST_WORDS]}
    return found, said
