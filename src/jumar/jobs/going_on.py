"""What it cost a job to go on, attempt by attempt: the times of the list, and what its training told of its steps in
its files or, where it told nothing, in its log."""

from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from jumar.engine.files import JobFiles
from jumar.errors import EngineFailed, NotFound
from jumar.jobs.noted import checkpoint_notes
from jumar.launch.jobdir import safefile
from jumar.spec.records import AttemptRecord
from jumar.spec.recovery import (
    ADVANCE_BYTES,
    ADVANCE_FILE,
    UNTOLD,
    Advance,
    read_advance,
    recovery,
)
from jumar.track.repeated import repeated_steps

_LAST = 100
"""Of a job with more attempts the steps of the last ones are read."""
_LAST_IN_LOG = 5
"""Looking into a log takes longer."""
_LOG_BYTES = 64 << 10


class GoingOn:
    """Of the jobs with these files."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files

    def added(self, job_id: str, attempts: tuple[AttemptRecord, ...]) -> tuple[AttemptRecord, ...]:
        """The attempts, each after the first with what it cost to go on, all with what was noted of checkpoints."""
        told = self._all_told(job_id, [one.number for one in attempts[-_LAST:]])
        later: list[AttemptRecord] = []
        for before, after in pairwise(attempts):
            first = told.get(before.number, UNTOLD)
            cost = recovery(before, after, first, told.get(after.number, UNTOLD))
            is_recent = attempts[-1].number - before.number <= _LAST_IN_LOG
            if cost.repeated_steps is None and first.is_silent and is_recent:
                steps = self._by_log(job_id, before.number, after.number)
                cost = replace(cost, repeated_steps=steps)
            later.append(replace(after, recovery=cost))
        notes = checkpoint_notes(self._files, job_id)
        return tuple(replace(one, notes=notes.get(one.number, ())) for one in (attempts[0], *later))

    def _all_told(self, job_id: str, numbers: list[int]) -> dict[int, Advance]:
        told: dict[int, Advance] = {}
        for number in reversed(numbers):
            try:
                told[number] = self._told(job_id, number)
            except EngineFailed:
                # Whoever reads the files does not answer: the job is shown without, and nobody waits again.
                break
        return told

    def _told(self, job_id: str, number: int) -> Advance:
        path = ADVANCE_FILE.format(number=number)
        try:
            with closing(self._files.open_file(job_id, path, elsewhere={})) as file:
                return read_advance(file.read(ADVANCE_BYTES) or b"")
        except (NotFound, OSError):
            return UNTOLD

    def _by_log(self, job_id: str, before: int, after: int) -> int | None:
        """By the log of the first rank, which is one file over all attempts."""
        try:
            begins = self._log_begins(job_id)
            first, cut = begins[before], begins[after]
            end = begins.get(after + 1, cut + _LOG_BYTES)
            with closing(self._files.open_log(job_id, 0, 0)) as file:
                file.seek(max(first, cut - _LOG_BYTES))
                ended = file.read(max(0, cut - file.tell())) or b""
                file.seek(cut)
                begun = file.read(max(0, min(_LOG_BYTES, end - cut))) or b""
        except (NotFound, EngineFailed, OSError, KeyError):
            return None
        return repeated_steps(ended, begun)

    def _log_begins(self, job_id: str) -> dict[int, int]:
        """Where in its log each attempt begins, as its supervisor noted."""
        found: dict[int, int] = {}
        for directory in self._files.attempts(job_id):
            try:
                noted = safefile.read_object(directory.ranks)
                found[directory.number] = safefile.whole(noted, "log_at")
            except (OSError, safefile.Unusable):
                # It never started its ranks, or is of an earlier jumar.
                continue
        return found
