"""The loop that moves jobs on: looks how attempts stand, starts what may start, ends what must end.

It runs in one thread. Everything it decides is committed before it is done, and everything it
does can be done again, so a crash between any two lines is mended by the next start."""

import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from jumar.database.access import Database
from jumar.database.complaints import Complaints
from jumar.engine.base import Attempt
from jumar.errors import JumarError
from jumar.jobs import dependencies, ledger
from jumar.jobs.archives import CodeArchives
from jumar.jobs.draining import MAINTENANCE, SWEEP, Draining
from jumar.jobs.engines import Deeds, Engines
from jumar.jobs.foreign import REAL, Foreign
from jumar.jobs.observed import Notes, is_news
from jumar.jobs.results import Results
from jumar.jobs.roster import ActiveJob, Roster, Snapshot, pool_of
from jumar.jobs.rows import JobRow, Standing
from jumar.jobs.scheduling.records import Start
from jumar.jobs.scheduling.schedule import Decision, decide
from jumar.jobs.submitting import Limits
from jumar.spec.causes import Values
from jumar.spec.devices import CardRef, DeviceKind
from jumar.spec.draining import Drain
from jumar.spec.fields import ArchivedCode
from jumar.spec.states import JobState

log = logging.getLogger(__name__)
TICK_S = 1.0
_LONGEST_REST_S = 1.0
_CLOSE_LIMIT_S = 30.0
_TURNS_EVERY_S = 60.0


class Conductor:
    """Owns the thread; `wake` and `hint` may be called from anywhere."""

    def __init__(
        self,
        *,
        database: Database,
        engines: Engines,
        archives: CodeArchives,
        folder: Path,
        limits: Limits,
        draining: Path,
        on_news: Callable[[JobRow], None],
        tick_s: float,
    ) -> None:
        self._database = database
        self._engines = engines
        engines.listen(self.hint)
        self._archives = archives
        self._folder = folder
        self._limits = limits
        self._on_news = on_news
        self._tick_s = tick_s
        self.pool = pool_of(engines.placing)
        self.roster = Roster(
            self.pool,
            on_change=self.wake,
            user_limit=limits.user,
            placing=None if engines.placing is None else engines.placing.name,
            elsewhere=engines.with_queues,
        )
        self.draining = Draining(draining, on_change=self.wake)
        self.foreign = Foreign(engines.placing, self.roster)
        self._chances_seen = -1
        self._turns_due = 0.0
        self._notes = Notes(database, self.roster, folder, on_written=self._written)
        self._deeds = Deeds(engines, on_seen=lambda seen: self._notes.write([seen]))
        self._unwritten_stops: dict[str, Values] = {}
        """Jobs that shall end, where the database had no room to say so; by whom and why."""
        self._complaints = Complaints(log)
        self._results = Results(engines, folder)
        self._hints: set[str] = set()
        self._passing = threading.Lock()
        self._woken = threading.Condition()
        self._wants_pass = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="conductor", daemon=True)

    def start(self) -> None:
        """Find every job that is not over, then begin."""
        with self._database.read() as connection:
            self._take(ledger.standing(connection))
        self._thread.start()

    def begin_anew(self, standing: Standing) -> None:
        """Forget all that is in memory: the database has other rows now. Only while it is held."""
        self._deeds.clear()
        self._results.clear()
        self.roster.clear()
        self._take(standing)
        self.wake()

    @contextmanager
    def held(self) -> Generator[None]:
        """Between two passes: meanwhile nothing is started and nothing is written down."""
        with self._passing:
            yield

    def _take(self, standing: Standing) -> None:
        # Who made room for another job finds that one in the line.
        for row in sorted(standing.waiting, key=lambda row: row.yields_to is not None):
            self.roster.reflect(row)
        for row, record in standing.active:
            attempt = self._attempt(row, record.number, record.cards)
            self.roster.activate(row, attempt, record.created_at)
            if row.state is not JobState.RUNNING:
                # It may never have reached the engine. Starting twice is starting once.
                self._deeds.unstarted.add(row.id)
        self._results.watch(standing.unsent, soon=True)
        log.info("%d jobs wait, %d are under way", len(standing.waiting), len(standing.active))

    def close(self) -> None:
        """End the loop. Running jobs go on."""
        with self._woken:
            self._closing = True
            self._woken.notify()
        # A server that could not start closes what never began.
        if self._thread.is_alive():
            self._thread.join(timeout=_CLOSE_LIMIT_S)

    def wake(self) -> None:
        """Something changed: look again soon."""
        with self._woken:
            self._wants_pass = True
            self._woken.notify()

    def hint(self, job_id: str) -> None:
        """This job's directory has changed, somebody says; jobs can say it too, of any job."""
        if not self.roster.is_active(job_id):
            return
        with self._woken:
            self._hints.add(job_id)
            self._woken.notify()

    def stop_unwritten(self, job_id: str, values: Values) -> None:
        """End a job though the database cannot take it; it is told as soon as it can."""
        with self._woken:
            self._unwritten_stops[job_id] = values
        self.wake()

    def _run(self) -> None:
        next_tick = time.monotonic()
        while not self._closing:
            hinted = self._wait_until(next_tick)
            is_tick = time.monotonic() >= next_tick
            began = time.monotonic()
            try:
                with self._passing:
                    self._pass(None if is_tick else hinted)
                if is_tick and self._complaints.said:
                    # A pass of a few jobs may have had nothing to do with what is in the way.
                    self._complaints.over("a pass over the jobs")
            except (JumarError, OSError) as error:
                self._complaints.say("a pass over the jobs", error)
            except Exception:  # the loop must outlive a fault of its own
                log.exception("a pass broke off, the next one tries again")
            took_s = time.monotonic() - began
            if is_tick:
                next_tick = time.monotonic() + self._tick_s
            # A long line makes a pass slow; leave the processor to others for as long.
            self._rest(took_s if took_s > 0.02 else 0.0)

    def _rest(self, seconds: float) -> None:
        if seconds and not self._closing:
            time.sleep(min(seconds, _LONGEST_REST_S))

    def _wait_until(self, moment: float) -> set[str]:
        with self._woken:
            self._woken.wait_for(
                lambda: self._closing or self._wants_pass or bool(self._hints),
                timeout=max(0.0, moment - time.monotonic()),
            )
            hints, self._hints, self._wants_pass = self._hints, set(), False
            return hints

    def _pass(self, only: set[str] | None) -> None:
        """Look at the jobs of `only`, or at all of them."""
        self._write_stops()
        active = self.roster.active()
        for job in active:
            is_stopping = job.row.state is JobState.STOPPING or job.row.id in self._unwritten_stops
            self._deeds.urge(job, is_stopping=is_stopping, is_tick=only is None)
        looked_at = [job for job in active if only is None or job.row.id in only]
        self._observe([job for job in looked_at if self._notes.takes(job.row.id)])
        self._look_at_held()
        self._start_what_may()
        if only is None:
            if self._results.waiting:
                self._look_after_results()
            # Also where nothing has to be written: a lost database is said at once.
            self._database.check()

    def _write_stops(self) -> None:
        with self._woken:
            wanted = dict(self._unwritten_stops)
        for job_id, values in wanted.items():
            try:
                self._database.write(
                    partial(ledger.ask_to_stop, job_id=job_id, now=time.time(), values=values),
                    then=self.roster.reflect,
                )
            except JumarError as error:
                if error.is_passing:
                    self._complaints.say(f"the note that job {job_id} shall stop", error)
                    continue
                log.info("job %s needs no stop any more: %s", job_id, error)
            self._complaints.over(f"the note that job {job_id} shall stop")
            with self._woken:
                self._unwritten_stops.pop(job_id, None)

    def _look_at_held(self) -> None:
        """Jobs that wait for others: whoever is stopped here may be what the next one waits for."""
        while due := self.roster.due():
            now = time.time()
            changes = [partial(dependencies.settle, job_id=job_id, now=now) for job_id in due]
            outcomes = self._database.write_each(changes, then=self.roster.looked_at)
            failed = [outcome for outcome in outcomes if not isinstance(outcome, JobRow)]
            if failed:
                # They stay due.
                self._complaints.say("a look at jobs that wait for others", failed[0])
                return
            self._complaints.over("a look at jobs that wait for others")

    def _look_after_results(self) -> None:
        arrived = self._results.look()
        if arrived:

            def change(connection: Connection) -> list[JobRow]:
                return [ledger.results_arrived(connection, job_id) for job_id in arrived]

            self._database.write(change, then=self._reflect_all)
            self._results.forget(arrived)

    def _observe(self, active: list[ActiveJob]) -> None:
        rows = {job.row.id: job.row for job in active}
        if not rows:
            return
        seen_now = self._deeds.observe([job.attempt for job in active])
        news = [
            seen for seen in seen_now if seen.state.is_final or is_news(rows[seen.job_id], seen)
        ]
        if news:
            self._notes.write(news)

    def _written(self, row: JobRow) -> None:
        self._deeds.forget(row)
        self._on_news(row)
        if row.not_uploaded:
            log.warning("the results of job %s are not yet uploaded", row.id)
            self._results.watch([row])

    def _reflect_all(self, rows: list[JobRow]) -> None:
        for row in rows:
            self.roster.reflect(row)

    def _start_what_may(self) -> None:
        drain = None if self.draining.last is None else self.draining.now()
        if drain is not None:
            if drain.requeue:
                active = self.roster.active()
                leaving = tuple(job.row.id for job in active if self._must_leave(job, drain))
                head = SWEEP if drain.sweep else MAINTENANCE
                self._make_room({head: leaving} if leaving else {}, why=drain.why)
            # Whatever was seen before: once it is over, everybody has a chance.
            self._chances_seen = -1
            return
        chances = self.roster.chances
        # Turns change as running jobs use more, with nothing else happening.
        if chances == self._chances_seen and time.monotonic() < self._turns_due:
            return
        now = time.time()
        standing = self.roster.snapshot(now)
        decision = self._choose(standing, now)
        if self._gives_real_cards(decision) and self.foreign.look():
            # Somebody may have sat down on a card since.
            decision = self._choose(self.roster.snapshot(now), now)
        self.roster.keep(decision.heads)
        begun = self._commit_starts(decision.starts, now) if decision.starts else []
        self._make_room(decision.preempted)
        # Only now: a start that could not be written down is a chance still.
        self._chances_seen = chances
        # Or somebody is spared no longer.
        ends = [job.spared_until for job in standing.running if job.preemptible and not job.leaves]
        next_s = min((end - now for end in ends if end is not None and end > now), default=math.inf)
        self._turns_due = time.monotonic() + min(_TURNS_EVERY_S, next_s)
        for attempt in begun:
            self._deeds.start(attempt)

    def _must_leave(self, job: ActiveJob, drain: Drain) -> bool:
        """What runs on a cluster beside this server's own cards is not in the way, and of a sweep nobody
        who holds no card."""
        if drain.sweep and job.row.spec.device.kind == DeviceKind.CPU:
            return False
        placing = self._engines.placing
        return not job.leaves and (placing is None or job.row.engine == placing.name)

    def _choose(self, standing: Snapshot, now: float) -> Decision:
        decision = decide(
            standing.queue,
            self.pool,
            standing.holding,
            now=now,
            user_limit=self.roster.user_limit,
            running_limit=self._limits.running,
        )
        # Where a site's own scheduler decides, it is given all of them.
        given = [Start(job.job_id, ()) for job in standing.handed_on.able()]
        return replace(decision, starts=[*decision.starts, *given])

    def _gives_real_cards(self, decision: Decision) -> bool:
        return not REAL.isdisjoint(
            self.roster.kinds_of([start.job_id for start in decision.starts])
        )

    def _make_room(self, preempted: Mapping[str, tuple[str, ...]], why: str = "") -> None:
        """Ask jobs to leave for those that cannot start otherwise, or for a drain with its `why`; written down
        first, so that it is asked again after a crash, and nobody takes the cards back."""
        if not preempted:
            return

        def change(connection: Connection) -> list[JobRow]:
            asked = [
                ledger.ask_to_yield(connection, job_id, head, why)
                for head, chosen in preempted.items()
                for job_id in chosen
            ]
            return [row for row in asked if row is not None]

        rows = self._database.write(change, then=self._reflect_all)
        leaving = {row.id for row in rows}
        for job in self.roster.active():
            if job.row.id in leaving:
                log.info("job %s makes room for %s", job.row.id, job.row.yields_to)
                self._deeds.preempt(job.attempt)

    def _commit_starts(self, starts: list[Start], now: float) -> list[Attempt]:
        def change(connection: Connection) -> list[tuple[JobRow, Attempt]]:
            begun: list[tuple[JobRow, Attempt]] = []
            for start in starts:
                if start.job_id in self._unwritten_stops:
                    continue
                row = ledger.start_attempt(connection, start.job_id, start.cards, now)
                if row is not None:
                    begun.append((row, self._attempt(row, row.attempt, start.cards)))
            return begun

        def then(begun: list[tuple[JobRow, Attempt]]) -> None:
            for row, attempt in begun:
                self.roster.activate(row, attempt, now)
                # Until the engine has it, whatever happens to the others before.
                self._deeds.unstarted.add(row.id)

        return [attempt for _, attempt in self._database.write(change, then=then)]

    def _attempt(self, row: JobRow, number: int, cards: tuple[CardRef, ...]) -> Attempt:
        code = row.spec.code
        return Attempt(
            job_id=row.id,
            number=number,
            segment=row.segment,
            user=row.user,
            spec=row.spec,
            directory=self._folder / row.id,
            cards=cards,
            handle=row.handle,
            engine=row.engine,
            archive=self._archives.path(code.archive) if isinstance(code, ArchivedCode) else None,
        )
