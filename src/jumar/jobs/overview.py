"""What people see of all jobs together: the list, the cards, whose turn it is, why a job waits."""

import time
from collections.abc import Collection
from dataclasses import replace

from jumar.database.access import Database
from jumar.engine.base import Engine, HasCards
from jumar.errors import BadInput
from jumar.jobs import finding
from jumar.jobs.draining import Draining
from jumar.jobs.finding import PageQuery
from jumar.jobs.limits import Limits
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow
from jumar.jobs.scheduling.forecast import beside_others, drained, explain
from jumar.jobs.scheduling.records import Pool
from jumar.jobs.share import report
from jumar.spec.records import CardUse, JobPage, Waiting
from jumar.spec.shares import ShareReport
from jumar.spec.states import JobState

MOST_ROWS = 1000
_STARTING_S = 1.0
"""How long after its submit a job whose turn has come is taken to be starting, not waiting."""


class Overview:
    """Thread-safe; only reads."""

    def __init__(
        self,
        *,
        database: Database,
        engine: Engine,
        roster: Roster,
        pool: Pool | None,
        limits: Limits,
        half_life_days: int,
        draining: Draining,
    ) -> None:
        self._database = database
        self._engine = engine
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
        before: int | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Rows of the list, newest first."""
        if not 1 <= limit <= MOST_ROWS:
            raise BadInput(f"limit must be 1 to {MOST_ROWS}, not {limit}")
        query = PageQuery(
            states=frozenset(states), user=user, text=text, before=before, limit=limit + 1
        )
        version = self._roster.version
        with self._database.read() as connection:
            rows = finding.page(connection, query)
            if self._counts[0] != version:
                self._counts = (version, finding.counts_by_state(connection))
            counts = self._counts[1]
            narrowed = states or user is not None or text
            total = finding.count(connection, query) if narrowed else sum(counts.values())
        more = len(rows) > limit
        return JobPage(
            jobs=tuple(summary for _, summary in rows[:limit]),
            total=total,
            counts=counts,
            next_before=rows[limit - 1][0] if more else None,
        )

    def share(self) -> ShareReport:
        """Who has used what, who is next, and why."""
        now = time.time()
        standing = self._roster.snapshot(now)
        return report(standing, now, half_life_days=self._half_life_days)

    def cards(self) -> tuple[CardUse, ...]:
        """Every card and who holds it."""
        if not isinstance(self._engine, HasCards):
            return ()
        holders = {
            (job.row.spec.device.kind, card): job
            for job in self._roster.active()
            for card in job.attempt.cards
        }
        foreign = self._roster.foreign
        uses: list[CardUse] = []
        for card in self._engine.cards():
            use = CardUse(
                kind=card.kind,
                id=card.id,
                node=card.node,
                name=card.name,
                foreign=foreign.get((card.kind, card.ref), ()),
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

    def why_it_waits(self, row: JobRow) -> Waiting | None:
        """None for a job that is only about to start."""
        if self._pool is None:
            return None
        now = time.time()
        standing = self._roster.snapshot(now)
        waiting = explain(
            self._roster.waiting(row),
            standing.queue,
            self._pool,
            standing.holding,
            now=now,
            user_limit=self._limits.user,
            running_limit=self._limits.running,
            shares=standing.queue.shares,
        )
        if waiting.cause in ("cards", "kept"):
            waiting = beside_others(waiting, row.spec.device.kind, self._roster.foreign)
        drain = self._draining.now()
        if drain is not None:
            return drained(waiting, drain)
        if waiting.cause == "starts" and now - row.created_at < _STARTING_S:
            return None
        return waiting
