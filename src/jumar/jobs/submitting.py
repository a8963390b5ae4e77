"""How jobs come: checked, held to what this server allows, completed, and put in line."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from jumar.database.access import Database
from jumar.engine.base import Engine
from jumar.engine.files import JobFiles
from jumar.errors import SubmitRefused
from jumar.jobs import dependencies, ledger
from jumar.jobs.archives import CodeArchives
from jumar.jobs.disk import DiskUse
from jumar.jobs.engines import Engines
from jumar.jobs.roster import Roster
from jumar.jobs.rows import JobRow
from jumar.jobs.scheduling.records import USUAL_PRIORITY
from jumar.spec.array import JobArray
from jumar.spec.duration import format_duration
from jumar.spec.fields import ArchivedCode, GitCode
from jumar.spec.job import USUAL_HANG_LIMIT, JobSpec
from jumar.spec.records import JobRecord, Plan


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


class Submissions:
    """Thread-safe. Every job it has accepted is on disk."""

    def __init__(
        self,
        *,
        database: Database,
        engines: Engines,
        roster: Roster,
        archives: CodeArchives,
        limits: Limits,
        disk: DiskUse,
        files: JobFiles,
        known: Callable[[str], JobRecord],
    ) -> None:
        """`known`: all about a job that was there before."""
        self._disk, self._files, self._known = disk, files, known
        self._database = database
        self._engines = engines
        self._roster = roster
        self._archives = archives
        self._limits = limits

    def plan(self, spec: JobSpec, *, user: str, engine: str | None = None) -> Plan:
        """What the engine would do, or why it never can; the server's first, unless one is named."""
        return self._planned(spec, user, self._engines.named(engine), sees_all=False)[1]

    def _planned(
        self, spec: JobSpec, user: str, engine: Engine, *, sees_all: bool
    ) -> tuple[JobSpec, Plan]:
        """With the job as it would be put in line."""
        if isinstance(spec.code, str):
            raise SubmitRefused(
                f"code: the folder {spec.code!r} must be uploaded first",
                hint="the jumar client does it; by API give code as archive or git, or a workdir",
            )
        if isinstance(spec.code, GitCode) and spec.code.commit is None:
            raise SubmitRefused(
                f"code: the commit of {spec.code.ref!r} must be looked up first",
                hint="the jumar client does it; by API give the commit: git ls-remote URL",
            )
        spec.check_addresses()
        spec = self._resolved(self._limits.time.applied(spec), user=user, sees_all=sees_all)
        needs = spec.device.count * spec.nodes
        if self._limits.user is not None and needs > self._limits.user:
            raise SubmitRefused(
                f"the job needs {needs} devices, and one user may hold {self._limits.user}",
                hint="ask for fewer; an administrator raises JUMAR_USER_LIMIT",
            )
        if self._limits.disk_bytes:
            self._disk.check(user)
        archive = None
        if isinstance(spec.code, ArchivedCode):
            archive = self._archives.find(spec.code.archive)
        plan = engine.plan(spec, archive=archive, user=user)
        return spec, replace(plan, notes=(*_without_effect(spec), *plan.notes))

    def submit(
        self,
        spec: JobSpec,
        *,
        user: str,
        key: str | None = None,
        ranked: bool = False,
        engine: str | None = None,
    ) -> JobRecord:
        """Put a job, or all jobs of an array, in line; gives the first. The same key from the same user gives the
        same job again; KeyReused where the job is not the same.

        `ranked`: an administrator submits it, whose priority orders the whole line; else it orders
        the jobs of this user only. `engine`: where it shall run, if not where most jobs do."""
        chosen = self._engines.named(engine)
        spec, plan = self._planned(spec, user, chosen, sees_all=ranked)
        now = time.time()

        def insert(connection: Connection) -> tuple[list[JobRow], bool]:
            given: dict[str, Any] = {
                "user": user,
                "notes": plan.notes,
                "key": key,
                "now": now,
                "rank": spec.priority if ranked else USUAL_PRIORITY,
                "engine": chosen.name,
                "queue_limit": self._limits.queue,
            }
            if spec.array is not None:
                array = JobArray.parse(spec.array)
                rows, is_new = ledger.insert_array(connection, array, spec, **given)
            else:
                row, is_new = ledger.insert_job(connection, spec=spec, **given)
                rows = [row]
            if is_new and spec.after:
                dependencies.refuse_hopeless(connection, rows[0])
            return rows, is_new

        rows, is_new = self._database.write(insert, then=self._show_new)
        first = rows[0]
        # Nothing has happened to a new job yet: no need to look.
        return first.record(self._files.directory(first.id)) if is_new else self._known(first.id)

    def _resolved(self, spec: JobSpec, *, user: str, sees_all: bool) -> JobSpec:
        if not spec.after:
            return spec
        with self._database.read() as connection:
            return dependencies.resolved(connection, spec, user=user, sees_all=sees_all)

    def _show_new(self, inserted: tuple[list[JobRow], bool]) -> None:
        rows, is_new = inserted
        if is_new:
            for row in rows:
                self._roster.reflect(row)


def _without_effect(spec: JobSpec) -> list[str]:
    """What was asked for and does not do what its name says, for want of something else."""
    notes: list[str] = []
    if spec.segments != 1 and spec.time_limit is None:
        notes.append(
            "segments without a time limit: another one follows only where the script ends with code 75"
        )
    has_group = spec.ranks == "device" and spec.device.count * spec.nodes > 1
    if spec.hang_limit not in (0, USUAL_HANG_LIMIT) and not has_group:
        notes.append(
            "hang_limit has no effect here: only a job with several ranks is watched (--distributed)"
        )
    return notes
