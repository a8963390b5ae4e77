"""What the platform does with jobs, as its server offers it: submit, list, show, stop, run again, remove."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import FileIO
from itertools import chain, islice
from pathlib import Path

from sqlalchemy import Connection

from jumar.aging import LOOK_EVERY_S, clock_of
from jumar.database.access import Database
from jumar.engine.base import Attempt, CarriesData, Engine, HasCards, RunsBeside
from jumar.engine.files import Elsewhere, OffersFiles
from jumar.engine.shared.files import folders_elsewhere, given_places
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import Conflict, JobEnded, JobNotEnded, JobNotFound, JumarError, StorageFull
from jumar.jobs import dependencies, finding, ledger
from jumar.jobs.archives import CodeArchives
from jumar.jobs.code_use import CodeUse
from jumar.jobs.conductor import TICK_S, Conductor
from jumar.jobs.diagnosis import Diagnoses
from jumar.jobs.disk import DiskUse
from jumar.jobs.engines import Engines
from jumar.jobs.finding import tags_of
from jumar.jobs.going_on import GoingOn
from jumar.jobs.groups import Groups
from jumar.jobs.hints import HintSocket
from jumar.jobs.holds import Holds
from jumar.jobs.overview import Overview
from jumar.jobs.quotas import Quotas
from jumar.jobs.recovery import Recovery
from jumar.jobs.removal import Removals
from jumar.jobs.results import last_attempt
from jumar.jobs.retention import Retention
from jumar.jobs.rows import JobRow
from jumar.jobs.sampling import Sampler
from jumar.jobs.scheduling.use import DAY_S
from jumar.jobs.submitting import Limits, Submissions
from jumar.jobs.sweep import OnWarning, Sweep, SweepPlan
from jumar.jobs.templates import Templates
from jumar.rounds import Rounds
from jumar.spec.array import JobArray
from jumar.spec.causes import Cause
from jumar.spec.draining import DrainReport
from jumar.spec.job import JobSpec
from jumar.spec.records import FilePage, JobRecord, JobSummary, LogFile, StagingRecord
from jumar.spec.states import JobState
from jumar.spec.text import storable
from jumar.spec.verdicts import Verdict
from jumar.words.reasons import cause_sentence


class JobService:
    """Thread-safe. Every job it has accepted is on disk."""

    def __init__(
        self,
        *,
        database: Database,
        engine: Engine | Engines,
        home: Path,
        limits: Limits | None = None,
        half_life_days: int = 7,
        keep_days: int = 0,
        sweep: SweepPlan | None = None,
        on_news: Callable[[JobRow], None] = lambda job: None,
        on_warning: OnWarning = lambda process, card, ends_at: None,
        other_bytes: Callable[[str], int] = lambda user: 0,
        tick_s: float = TICK_S,
    ) -> None:
        """`engine`: the one where jobs run, or all of them. `tick_s`: how often every running job is looked at, hint or no hint. After `keep_days` ended
        jobs are removed. `on_news` hears how jobs stand, `on_warning` of what a sweep will end. `other_bytes`: what counts
        in a user's quota beside their jobs."""
        limits = limits or Limits()
        self.database = self._database = database
        engines = engine if isinstance(engine, Engines) else Engines(engine)
        self.engines = engines
        folder = home / "jobs"
        # They share the folder of all jobs.
        first = engines.default
        self._files = first.files if isinstance(first, OffersFiles) else SharedFiles(folder)
        self.diagnoses, self._going_on = Diagnoses(self._files, engines), GoingOn(self._files)
        self._half_life_days = half_life_days
        self.limits = limits
        self.archives = CodeArchives(home / "code")
        self.templates = Templates(database)
        self._conductor = Conductor(
            database=database,
            engines=engines,
            archives=self.archives,
            folder=folder,
            limits=limits,
            draining=home / "drain.json",
            on_news=on_news,
            tick_s=tick_s,
        )
        roster = self._conductor.roster
        self.draining, self.foreign = self._conductor.draining, self._conductor.foreign
        seen_cards = engines.placing.cards() if isinstance(engines.placing, HasCards) else ()
        self.holds = Holds(home / "holds.json", roster, seen_cards)
        sweeps = (self.foreign, self.draining, on_warning, engines.placing)
        self._sweep = None if sweep is None else Sweep(sweep, *sweeps)
        clock = clock_of(home)
        self._clock_rounds = Rounds(
            "clock", clock.look, LOOK_EVERY_S, trouble="the clock is looked at again", at_once=True
        )
        self.code = CodeUse(database, self.archives, clock)
        self.disk = DiskUse(database, self._files, self.code, limits.disk_bytes, other_bytes)
        submissions = Submissions(
            database=database,
            engines=engines,
            roster=roster,
            archives=self.archives,
            limits=limits,
            disk=self.disk,
            files=self._files,
            known=self.get,
        )
        self.plan, self.submit = submissions.plan, submissions.submit
        self._overview = Overview(
            database=database,
            engines=engines,
            roster=roster,
            pool=self._conductor.pool,
            limits=limits,
            half_life_days=half_life_days,
            draining=self.draining,
        )
        seen = self._overview
        self.page, self.share, self.cards = seen.page, seen.share, seen.cards
        self.ended, self.used, self.preview = seen.ended, seen.used, seen.preview
        self.tag, self.tags = seen.tag, seen.tags
        self.groups = Groups(database, roster.share_out)
        self.quotas = Quotas(database, roster.allow)
        self.sampler = Sampler(engines.placing, roster, home / "usage")
        self._removals = Removals(
            database, self._files, roster, self.sampler.forget, self.disk.forget
        )
        self.retention = Retention(database, self._removals, home, keep_days)
        self.recovery = Recovery(
            database=database,
            conductor=self._conductor,
            engines=engines,
            files=self._files,
            home=home,
            on_restored=self._load_shares,
        )
        self._hints = HintSocket(home, self._conductor.hint)

    @property
    def version(self) -> int:
        """Grows with every change of any job."""
        return self._conductor.roster.version

    def trouble(self) -> str | None:
        """What keeps it from writing anything down, or what its list lacks, in words."""
        try:
            self._database.check()
        except JumarError as error:
            return error.message
        if self._database.trouble is not None:
            return self._database.trouble.message
        return self.recovery.unlisted

    def start(self) -> None:
        """Find the jobs of an earlier life and begin."""
        self._load_shares()
        self._hints.start()
        self._removals.start()
        self.recovery.start()
        self._conductor.start()
        self.foreign.start()
        if self._sweep is not None:
            self._sweep.start()
        self._clock_rounds.start()
        self.retention.start()
        self.sampler.start()
        self.code.start()
        self.disk.start()

    def _load_shares(self) -> None:
        past = ledger.load_use(self._database, float(self._half_life_days * DAY_S), time.time())
        self._conductor.roster.remember_use(past)
        self.groups.load()
        self.quotas.load()

    def close(self) -> None:
        """Let go of everything. Running jobs go on."""
        self.disk.close()
        self.code.close()
        self.sampler.close()
        self.retention.close()
        self._clock_rounds.close()
        if self._sweep is not None:
            self._sweep.close()
        self.foreign.close()
        self._conductor.close()
        self._hints.close()
        self.engines.close()
        self._database.close()

    def rerun(
        self,
        job: str,
        *,
        user: str,
        key: str | None = None,
        ranked: bool = False,
        whole: bool = False,
    ) -> JobRecord:
        """The same job once more, as a new one, in the same place; `whole`: all of its array."""
        row = self._row(job)
        spec = row.spec
        if whole and row.array_id is not None:
            with self._database.read() as connection:
                array = JobArray(finding.indices_of(connection, row.array_id), row.array_limit)
            spec = spec.model_copy(update={"array": str(array)})
        return self.submit(spec, user=user, key=key, ranked=ranked, engine=row.engine)

    def set_priority(
        self, job: str, priority: int, *, ranked: bool, unless: Callable[[Connection], bool]
    ) -> None:
        """Give a job that has not ended another place in line. `unless` is asked in the same transaction,
        and may write."""

        def change(connection: Connection) -> JobRow | None:
            if unless(connection):
                return None
            return ledger.set_priority(connection, job, priority, ranked=ranked)

        def show(row: JobRow | None) -> None:
            if row is not None:
                self._conductor.roster.reflect(row)

        self._database.write(change, then=show)

    def stop(self, job: str, *, by: str | None = None, why: str | None = None) -> JobRecord:
        """Take a job out of the line or end it. Asking twice is asking once.

        `by`: who asks, and `why`, in their own words; both are kept."""
        row = self._row(job)
        job_id = row.id
        values: dict[str, str | int] = {}
        if by is not None and by != row.user:
            values["by"] = by
        if why:
            values["why"] = storable(why)
        try:
            self._database.write(
                lambda c: ledger.ask_to_stop(c, job_id, time.time(), values),
                then=self._conductor.roster.reflect,
            )
        except StorageFull as error:
            # The job that fills the disk has to end before there is room to write that down.
            self._conductor.stop_unwritten(job_id, values)
            told = {"error": str(error)}
            return replace(
                self.get(job_id),
                state=JobState.STOPPING,
                cause=Cause.STOP_UNWRITTEN,
                values=told,
                reason=cause_sentence(Cause.STOP_UNWRITTEN, told, "en"),
            )
        return self.get(job_id)

    def stop_array(self, array_id: str, *, by: str | None = None, why: str | None = None) -> int:
        """Stop every job of an array that has not ended; how many those are.

        The last come first: none of them shall start in the place of another."""
        with self._database.read() as connection:
            rows = ledger.unfinished_of_array(connection, array_id)
        for row in sorted(rows, key=lambda row: -row.seq):
            with suppress(JobEnded):
                self.stop(row.id, by=by, why=why)
        return len(rows)

    def upload(self, job: str) -> JobRecord:
        """Begin to send the results that an ended job has left on its machine; twice is once."""
        row = self._row(job)
        if not row.spec.sends_results:
            raise Conflict(
                f"job {row.id} has nothing to upload: its outputs are paths of its machine",
                hint="outputs that are obs:// or s3:// addresses are uploaded",
            )
        if not row.state.is_final:
            raise JobNotEnded(
                f"job {row.id} is {row.state}: its results are sent while it runs and at its end"
            )
        engine = self.engines.of(row.engine)
        if row.not_uploaded and isinstance(engine, CarriesData):
            engine.send_results(self._last_attempt(row))
        return self.get(row.id)

    def remove(self, job: str) -> None:
        """Remove an ended job with its folder. Uploaded code and cached inputs stay, for others."""
        self._removals.remove(self._row(job).id)

    def staging(self, job: str) -> StagingRecord | None:
        """How far the data of a job's last attempt has been carried."""
        return self._staging(self._row(job))

    def _staging(self, row: JobRow) -> StagingRecord | None:
        if row.attempt == 0 or not row.spec.stages_data:
            return None
        engine = self.engines.of(row.engine) if row.engine in self.engines.names else None
        if not isinstance(engine, CarriesData):
            return None
        return engine.staging(self._last_attempt(row))

    def find(
        self, job: str, *, user: str, owner: str | None = None, sees_all: bool = False
    ) -> JobSummary:
        """The job that `user` means by an id, the beginning of one, or a name; with `owner`, the one
        that `owner` would. All other calls take ids only."""
        with self._database.read() as connection:
            found = finding.resolve(connection, job, user=user, owner=owner, sees_all=sees_all)
            return ledger.find_job(connection, found).summary()

    def glance(self, job: str) -> JobSummary:
        """Whose a job is and how it stands, without asking why it waits."""
        return self._row(job).summary()

    def get(self, job: str) -> JobRecord:
        """All about one job."""
        with self._database.read() as connection:
            row = ledger.find_job(connection, job)
            attempts = ledger.attempts_of(connection, row.seq)
            waiting = dependencies.explain(connection, row) if row.is_held else None
            row = replace(row, tags=tags_of(connection, [row.id]).get(row.id, ()))
        if waiting is None and row.state is JobState.QUEUED:
            waiting = self._overview.why_it_waits(row)
        if len(attempts) > 1:
            attempts = self._going_on.added(row.id, attempts)
        return row.record(
            self._files.directory(row.id),
            attempts=attempts,
            waiting=waiting,
            staging=self._staging(row),
            trial=self._files.trial(row.id),
        )

    def drain_report(self) -> DrainReport:
        """Whether jobs are started, and how many still run."""
        return DrainReport(drain=self.draining.now(), running=len(self._conductor.roster.active()))

    def line(self, limit: int) -> tuple[JobRecord, ...]:
        """The first of those that wait, in the order of their turns, each with why."""
        standing = self._conductor.roster.snapshot(time.time())
        found: list[JobRecord] = []
        for job in islice(chain(standing.queue, standing.handed_on), limit):
            with suppress(JobNotFound):
                found.append(self.get(job.job_id))
        return tuple(found)

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        """The logs of a job, by node and rank."""
        return self._files.logs(self._row(job).id)

    def open_log(self, job: str, node: int, rank: int) -> FileIO:
        """A rank's log; NotFound while it does not exist."""
        return self._files.open_log(self._row(job).id, node, rank)

    def why(self, job: str, *, with_code: bool) -> Verdict:
        """Why a job failed, by its logs, by what the platform saw, and by its code for those who may see that."""
        return self.diagnoses.of(self.get(job), with_code=with_code)

    def start_beside(self, job: str) -> socket.socket:
        """A stream to a program that runs one command beside the ranks of a running job."""
        row = self._row(job)
        if row.state.is_final:
            raise JobEnded(f"job {row.id} has ended", hint=f"see its files: jumar files {row.id}")
        if row.state is not JobState.RUNNING:
            raise Conflict(
                f"job {row.id} is {row.state}; commands can be run in it while it is running",
                hint=f"wait for it with: jumar logs -f {row.id}",
            )
        engine = self.engines.of(row.engine)
        if not isinstance(engine, RunsBeside):
            raise Conflict(f"the engine {engine.name} cannot run commands in a job")
        return engine.start_beside(self._last_attempt(row))

    def job_files(self, job: str, path: str, *, after: str, limit: int) -> FilePage:
        """Some of what a job has left; JobFileNotFound."""
        row = self._row(job)
        return self._files.entries(
            row.id, path, elsewhere=self._elsewhere(row), after=after, limit=limit
        )

    def open_file(self, job: str, path: str) -> FileIO:
        """A file that a job has left; JobFileNotFound."""
        row = self._row(job)
        return self._files.open_file(row.id, path, elsewhere=self._elsewhere(row))

    def _elsewhere(self, row: JobRow) -> Elsewhere:
        attempt = self._last_attempt(row)
        return Elsewhere(folders_elsewhere(row.spec, attempt.directory), given_places(attempt))

    def _last_attempt(self, row: JobRow) -> Attempt:
        return last_attempt(row, self._files.directory(row.id))

    def at_hand(self, job: str) -> JobRow | None:
        """A job that is under way, by its id, without asking the database: open pages ask for those again and
        again, and this waits for nothing. None says nothing about a job."""
        return self._conductor.roster.active_row(job)

    def _row(self, job: str) -> JobRow:
        found = self.at_hand(job)
        if found is not None:
            return found
        with self._database.read() as connection:
            return ledger.find_job(connection, job)

    def spec_of(self, job: str) -> JobSpec:
        """What a job was submitted with, its secrets included: for its own user only."""
        return self._row(job).spec
