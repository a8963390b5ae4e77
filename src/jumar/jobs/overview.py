"""What people see of all jobs together: the list, the cards, whose turn it is, why a job waits."""

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection

from jumar.database.access import Database
from jumar.engine.base import HasCards
from jumar.errors import BadInput
from jumar.jobs import finding, ledger
from jumar.jobs.draining import Draining
from jumar.jobs.engines import Engines
from jumar.jobs.finding import PageQuery, checked_tags, popular_tags, set_tags
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow, would_be_queued
from jumar.jobs.scheduling.forecast import (
    beside_holds,
    beside_others,
    drained,
    engine_lost,
    explain,
)
from jumar.jobs.scheduling.records import Pool, QueuedJob
from jumar.jobs.scheduling.use import day_of
from jumar.jobs.share import report, used_by
from jumar.jobs.submitting import Limits
from jumar.spec.job import JobSpec
from jumar.spec.records import CardUse, JobPage, JobSummary, Waiting
from jumar.spec.shares import ShareReport
from jumar.spec.states import JobSort, JobState
from jumar.spec.usage import UsedBy

MOST_ROWS = 1000
_STARTING_S = 1.0
"""How long after its submit a job whose turn has come is taken to be starting, not waiting."""


class Overview:
    """Thread-safe; only reads."""

    def __init__(
        self,
        *,
        database: Database,
        engines: Engines,
        roster: Roster,
        pool: Pool,
        limits: Limits,
        half_life_days: int,
        draining: Draining,
    ) -> None:
        self._database = database
        self._engines = engines
        self._roster = roster
        self._pool = pool
        self._limits = limits
        self._half_life_days = half_life_days
        self._draining = draining
        self._counts: tuple[int, dict[str, int]] = (-1, {})

    def page(
        self,
        *,
        states: Collection[JobState] = (),
        user: str | None = None,
        text: str | None = None,
        tag: str | None = None,
        sort: JobSort = JobSort.NEWEST,
        before: int | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Rows of the list, in the order of `sort`."""
        if not 1 <= limit <= MOST_ROWS:
            raise BadInput(f"limit must be 1 to {MOST_ROWS}, not {limit}")
        query = PageQuery(
            states=frozenset(states),
            user=user,
            text=text,
            tag=tag,
            sort=sort,
            before=before,
            limit=limit + 1,
        )
        # Before the database is read: what is counted is then at least as new.
        version = self._roster.version
        with self._database.read() as connection:
            rows = finding.page(connection, query)
            counts = self._counted(connection, query, version)
        more = len(rows) > limit
        return JobPage(
            jobs=tuple(summary for _, summary in rows[:limit]),
            total=sum(number for state, number in counts.items() if not states or state in states),
            counts=counts,
            next_before=rows[limit - 1][0] if more else None,
        )

    def _counted(self, connection: Connection, query: PageQuery, version: int) -> dict[str, int]:
        """Jobs by state; those of all jobs are counted once for each change."""
        if query.is_narrow:
            return finding.counts_by_state(connection, query)
        known, counts = self._counts
        if known != version:
            counts = finding.counts_by_state(connection)
            self._counts = (version, counts)
        return counts

    def tag(self, job_id: str, tags: Iterable[str]) -> tuple[str, ...]:
        """Give a job these tags, in place of those that it had."""
        wanted = checked_tags(tags)

        def change(connection: Connection) -> None:
            ledger.find_job(connection, job_id)
            set_tags(connection, job_id, wanted)

        self._database.write(change, then=lambda _: self._roster.forget())
        return wanted

    def tags(self, user: str | None, limit: int) -> tuple[str, ...]:
        """The tags that are used most, by one user or by all."""
        with self._database.read() as connection:
            return popular_tags(connection, user, limit)

    def share(self) -> ShareReport:
        """Who has used what, who is next, and why."""
        now = time.time()
        standing = self._roster.snapshot(now)
        return report(standing, now, half_life_days=self._half_life_days)

    def ended(self, since: float, limit: int) -> tuple[JobSummary, ...]:
        """Jobs that ended since then, the latest first."""
        with self._database.read() as connection:
            return finding.ended(connection, since, limit)

    def used(self, days: int) -> tuple[UsedBy, ...]:
        """Card-seconds of everybody in the last days, running jobs included."""
        now = time.time()
        with self._database.read() as connection:
            past = ledger.use_since(connection, day_of(now) - days + 1)
        return used_by(past, self._roster.snapshot(now), now, days)

    def cards(self) -> tuple[CardUse, ...]:
        """Every card and who holds it."""
        engine = self._engines.placing
        if not isinstance(engine, HasCards):
            return ()
        holders = {
            (job.row.spec.device.kind, card): job
            for job in self._roster.active()
            for card in job.attempt.cards
        }
        foreign, holds = self._roster.foreign, self._roster.holds
        uses: list[CardUse] = []
        for card in engine.cards():
            use = CardUse(
                kind=card.kind,
                id=card.id,
                node=card.node,
                name=card.name,
                foreign=foreign.get((card.kind, card.ref), ()),
                hold=holds.get((card.kind, card.ref)),
            )
            job = holders.get((card.kind, card.ref))
            if job is not None:
                use = replace(
                    use,
                    job_id=job.row.id,
                    job_name=job.row.name,
                    user=job.row.user,
                    since=job.since,
                )
            uses.append(use)
        return tuple(uses)

    def preview(self, spec: JobSpec, *, user: str) -> Waiting | None:
        """Why a job would wait that is submitted now; None where the engine's own queue decides."""
        name = self._engines.named(None).name
        return self._explain(would_be_queued(self._limits.time.applied(spec), user, name))

    def why_it_waits(self, row: JobRow) -> Waiting | None:
        """None for a job that is only about to start."""
        waiting = self._explain(self._roster.waiting(row))
        is_new = time.time() - row.created_at < _STARTING_S
        return None if waiting is not None and waiting.cause == "starts" and is_new else waiting

    def _explain(self, job: QueuedJob) -> Waiting | None:
        if job.engine in self._engines.with_queues:
            return None
        if job.engine not in self._engines.names:
            return engine_lost(job)
        now = time.time()
        standing = self._roster.snapshot(now)
        waiting = explain(
            job,
            standing.queue,
            self._pool,
            standing.holding,
            now=now,
            user_limit=self._roster.user_limit,
            running_limit=self._limits.running,
            shares=standing.queue.shares,
        )
        if waiting.cause in ("cards", "kept"):
            waiting = beside_others(waiting, job.kind, self._roster.foreign)
            waiting = beside_holds(waiting, job.kind, self._roster.holds)
        drain = self._draining.now()
        return waiting if drain is None else drained(waiting, drain)
