"""Jobs that wait for other jobs (`after`), or for a place in their array (`array: 0-9%2`).

Such a job is in the table and counts as queued, but is not in the line: its row says `waits`. It is
looked at when it comes, when the server starts, and when a job that it waits for ends; then one
transaction lets it into the line, stops it, or leaves it. All it needs is in the table, so a crash
changes nothing. A job can only name jobs that exist, and no job changes what it names: there are no
circles.

For the line it is as if it came now, at the place that its number gives it: a finite number of jobs with
smaller numbers can still come before any other, and nobody waits for ever."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, or_, select, update

from jumar.database.tables import jobs
from jumar.errors import SubmitRefused
from jumar.jobs import finding, ledger
from jumar.jobs.rows import JobRow, because
from jumar.spec.causes import Cause, Wait
from jumar.spec.job import JobSpec
from jumar.spec.records import Waiting, WaitPart
from jumar.spec.states import FINAL, JobState
from jumar.words.reasons import waiting_sentence

ANY = "any:"
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Awaited:
    """One entry of `after` and how what it names stands."""

    target: str
    needs_success: bool
    states: Sequence[JobState]

    @property
    def has_failed(self) -> bool:
        return self.needs_success and any(
            state.is_final and state is not JobState.SUCCEEDED for state in self.states
        )

    @property
    def is_over(self) -> bool:
        return all(state.is_final for state in self.states)


def resolved(connection: Connection, spec: JobSpec, *, user: str, sees_all: bool) -> JobSpec:
    """The spec with ids in the place of what `user` calls the jobs that it waits for."""
    targets: list[str] = []
    for entry in spec.after:
        prefix, name = (ANY, entry.removeprefix(ANY)) if entry.startswith(ANY) else ("", entry)
        found = finding.target(connection, name, user=user, sees_all=sees_all)
        targets.append(prefix + found)
    return spec.model_copy(update={"after": list(dict.fromkeys(targets))})


def refuse_hopeless(connection: Connection, row: JobRow) -> None:
    """A new job that waits for the success of one that has ended without it would only be stopped."""
    for one in _awaited(connection, row):
        if one.has_failed:
            raise SubmitRefused(
                f"after: {one.target} did not succeed, so the job would never start",
                hint=f"start it all the same with any:{one.target}, or run that one again first",
            )


def targets_of(row: JobRow) -> list[str]:
    """The jobs and arrays that a job waits for."""
    return [entry.removeprefix(ANY) for entry in row.spec.after]


def settle(connection: Connection, job_id: str, now: float) -> JobRow:
    """Let a job into the line if nothing keeps it any more; stop it if it never can be."""
    row = ledger.find_job(connection, job_id)
    if not row.is_held:
        return row
    awaited = _awaited(connection, row)
    for one in awaited:
        if not one.states or one.has_failed:
            cause = Cause.AFTER_FAILED if one.states else Cause.AFTER_GONE
            return ledger.stop_waiting(connection, row, now, because(cause, {"job": one.target}))
    if all(one.is_over for one in awaited) and _has_place(connection, row):
        connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(waits=False))
    return ledger.find_job(connection, job_id)


def explain(connection: Connection, row: JobRow) -> Waiting:
    """What the job waits for, in words."""
    parts = [
        WaitPart(Wait.AFTER if one.needs_success else Wait.AFTER_ANY, {"job": one.target})
        for one in _awaited(connection, row)
        if not one.is_over
    ]
    more = len(parts) - _MOST_SHOWN
    if more > 0:
        parts = [*parts[:_MOST_SHOWN], WaitPart(Wait.AFTER_MORE, {"jobs": more})]
    if not parts and row.array_limit is not None:
        parts = [WaitPart(Wait.ARRAY_LIMIT, {"limit": row.array_limit})]
    needs = row.spec.device.count * row.spec.nodes
    waiting = Waiting(
        text="", cause="after", parts=tuple(parts), place_in_line=0, needs=needs, free=0, total=0
    )
    return replace(waiting, text=waiting_sentence(waiting, "en"))


def _awaited(connection: Connection, row: JobRow) -> list[_Awaited]:
    found: list[_Awaited] = []
    for entry in row.spec.after:
        target = entry.removeprefix(ANY)
        which = or_(jobs.c.id == target, jobs.c.array_id == target)
        states = connection.execute(select(jobs.c.state).where(which).distinct()).scalars()
        found.append(_Awaited(target, not entry.startswith(ANY), [JobState(s) for s in states]))
    return found


def _has_place(connection: Connection, row: JobRow) -> bool:
    if row.array_limit is None:
        return True
    going = select(func.count()).where(
        jobs.c.array_id == row.array_id,
        jobs.c.waits.is_(False),
        jobs.c.state.not_in([str(state) for state in FINAL]),
    )
    return connection.execute(going).scalar_one() < row.array_limit


class HeldJobs:
    """In memory: who waits for whom, and who has to be looked at. Kept by the roster, under its lock."""

    def __init__(self) -> None:
        self.rows: dict[str, JobRow] = {}
        """By id: those that wait. Mostly none do, and then there is nothing to ask here."""
        self._waiting_for: dict[str, dict[str, None]] = {}
        """By job or array: the jobs that wait for it, in the order in which they came."""
        self._in_array: dict[str, dict[str, None]] = {}
        """By array: its jobs that wait for a place in it."""
        self._due: dict[str, None] = {}

    def hold(self, row: JobRow) -> None:
        """A job that waits; a new one is due, since what it waits for may be over already."""
        if row.id not in self.rows:
            self._due[row.id] = None
            for target in targets_of(row):
                self._waiting_for.setdefault(target, {})[row.id] = None
            if row.array_id is not None and row.array_limit is not None:
                self._in_array.setdefault(row.array_id, {})[row.id] = None
        self.rows[row.id] = row

    def release(self, job_id: str) -> None:
        """It waits no longer."""
        row = self.rows.pop(job_id)
        self._due.pop(job_id, None)
        for target in targets_of(row):
            self._drop(self._waiting_for, target, job_id)
        if row.array_id is not None:
            self._drop(self._in_array, row.array_id, job_id)

    @staticmethod
    def _drop(index: dict[str, dict[str, None]], name: str, job_id: str) -> None:
        names = index.get(name, {})
        names.pop(job_id, None)
        if not names:
            index.pop(name, None)

    def ended(self, row: JobRow) -> None:
        """Those who waited for this job are due, and the next one of its array."""
        self._due.update(self._waiting_for.get(row.id, {}))
        if row.array_id is not None:
            self._due.update(self._waiting_for.get(row.array_id, {}))
            for first in self._in_array.get(row.array_id, {}):
                self._due[first] = None
                break

    def is_awaited(self, job_id: str, array_id: str | None) -> bool:
        """Whether some job waits for it, or for its array."""
        return job_id in self._waiting_for or array_id in self._waiting_for

    def due(self) -> list[str]:
        """Those to look at now, in the order in which they came."""
        return sorted(self._due, key=lambda job_id: self.rows[job_id].seq)

    def looked_at(self, job_id: str) -> None:
        """Until something else happens."""
        self._due.pop(job_id, None)
