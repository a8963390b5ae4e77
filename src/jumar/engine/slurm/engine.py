"""`SlurmEngine`: each attempt is one job of Slurm, over a job directory that the cluster shares."""

import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from jumar.engine.base import Attempt, Observation
from jumar.engine.files import JobFiles
from jumar.engine.local.planning import make_plan
from jumar.engine.local.starter import Starter
from jumar.engine.shared.files import Stages, write_files
from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.shared.observing import with_results
from jumar.engine.shared.stopping import ask_by_file
from jumar.engine.slurm import images, script
from jumar.engine.slurm.asking import Gres, Row, Slurm
from jumar.engine.slurm.observing import (
    Observer,
    Queue,
    is_submitted,
    newest,
    row_of,
    submitted_file,
)
from jumar.errors import Conflict, EngineFailed
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import read_stop
from jumar.launch.jobdir.safefile import read_object, write_json
from jumar.launch.slurm.batch import files_of
from jumar.spec.causes import Values
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores

_FAR = "jumar.launch.node.far"
_POLL_S = 5.0
_PLAN_S = 5.0
"""How long a plan waits for a cluster: without one, Slurm's programs look for it for half a minute."""


class SlurmEngine:
    """Implements `engine.base.Engine`, `HasQueue` and `RunsBeside`; thread-safe for different attempts."""

    name = "slurm"
    queue_name = "Slurm"
    _can_test = True
    """Whether sbatch may be tried by whom this process runs as."""

    def __init__(
        self,
        home: Path,
        *,
        slurm: Slurm | None = None,
        stages: Stages | None = None,
        poll_s: float = _POLL_S,
        can_look: bool = True,
        roots: Roots | None = None,
    ) -> None:
        """`can_look`: whether the files of the cluster's nodes are this machine's too. `roots`: where what
        attempts say of themselves is read."""
        self._home, self._can_look = home, can_look
        self._slurm = slurm or Slurm()
        self._stages = stages or Stages(UserStores(home))
        self._roots = roots or Roots()
        self.files: JobFiles = SharedFiles(home / "jobs", self._roots)
        self._queue = Queue(lambda: self._ours(self._slurm.rows()), poll_s)
        self._observer = Observer(self._roots, self._queue, self.queue_name, self._slurm)
        self._gres: list[Gres] | None = None
        self._starter = Starter(home / "launch.log", home / "notify.sock")

    def prepare(self) -> None:
        """Nothing has to be ready before the first job."""

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """How the job would run. Works with no cluster at hand too, then unchecked."""
        container = images.request(spec)
        self._stages.check(spec, user)
        directory = self._home / "jobs" / "<id>"
        # What the machine has on which this is asked says nothing of the cluster's nodes.
        made = make_plan(
            spec, archive=archive, cards=None, directory=directory, can_look=self._can_look
        )
        attempt = Attempt(
            job_id="<id>", number=1, user=user, spec=spec, directory=directory, cards=()
        )
        notes = list(made.notes)
        known = self._known_gres(notes)
        if container is not None:
            notes.append(images.UNTRIED)
            if known is not None and self._can_look:
                images.check(container)
        options = script.options(attempt, self._home, script.gres_of(spec, known or []))
        text = script.script(directory, 1)
        details = {**made.details, "sbatch": options, "script": text}
        if container is not None:
            details["container"] = container
        if known is not None and self._can_test:
            details["slurm"] = self._slurm.test(options, text)
        each = f"{spec.nodes} node{'s' * (spec.nodes > 1)}"
        return Plan(
            engine=self.name,
            summary=f"a job of Slurm on {each}, with {spec.device} each",
            details=details,
            notes=tuple(notes),
        )

    def _known_gres(self, notes: list[str]) -> list[Gres] | None:
        try:
            if self._gres is None:
                self._gres = self._slurm.gres(_PLAN_S)
        except EngineFailed as error:
            notes.append(f"not checked with the cluster: {error.message}")
        return self._gres

    def start(self, attempt: Attempt) -> None:
        """Write the files and submit, unless Slurm has it already."""
        directory = self._roots.of(attempt)
        if is_submitted(directory) or os.path.lexists(directory.said):
            return
        # A request says that somebody was here before, and may have submitted it.
        before = self._row(attempt) if os.path.exists(directory.request) else None
        if before is not None:
            self.write_id(directory, before.id)
            return
        self.write(attempt)
        options = script.options(attempt, self._home, self.gres_of(attempt.spec))
        text = script.script(attempt.directory, attempt.number)
        self.write_id(directory, self._slurm.submit(options, text))

    def gres_of(self, spec: JobSpec) -> Gres | None:
        """What the site calls the job's cards; EngineFailed when it cannot be asked."""
        if self._gres is None:
            self._gres = self._slurm.gres()
        return script.gres_of(spec, self._gres)

    def write(self, attempt: Attempt, into: JobDir | None = None) -> None:
        """All files of an attempt, before it is submitted; `into` another folder than its own, from
        where somebody brings them there."""
        directory, spec = into or self._roots.of(attempt), attempt.spec
        gres = self.gres_of(spec)
        write_files(
            directory,
            attempt,
            env_cache=self._home / "envs",
            notify=self._home / "notify.sock",
            staging=self._stages.prepare(attempt, directory),
            container=images.request(spec),
        )
        request = read_object(directory.request)
        request.update(
            # The clock starts with the allocation.
            deadline=None,
            deadline_monotonic=None,
            time_limit_s=spec.time_limit,
            gres="" if gres is None else gres.name.partition(":")[0],
        )
        write_json(directory.request, request)
        os.makedirs(directory.path("logs"), exist_ok=True)

    def write_id(self, directory: JobDir, job: str) -> None:
        """What Slurm calls the attempt."""
        try:
            write_json(submitted_file(directory), {"job": job})
        except OSError as error:
            raise EngineFailed(f"cannot write {submitted_file(directory)}: {error}") from error

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        return [with_results(*pair, self._staging) for pair in self._look(list(attempts))]

    def _look(self, attempts: list[Attempt]) -> Iterable[tuple[Attempt, Observation]]:
        return zip(attempts, self._observer.look(attempts), strict=True)

    def _staging(self, attempt: Attempt) -> StagingRecord | None:
        return self._stages.read(self._roots.of(attempt))

    def waits(self, row: Row) -> Values:
        """Why a job is in Slurm's queue, as values of the cause `pending`."""
        return self._observer.waits(row)

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """By file, which the launchers obey; what has not begun is cancelled."""
        directory = self._roots.of(attempt)
        ask_by_file(directory, why.value)
        if not os.path.exists(files_of(directory).begun):
            self._slurm.cancel(self._ids(attempt), pending_only=True)

    def kill(self, attempt: Attempt) -> None:
        """All of its processes at once."""
        directory = self._roots.of(attempt)
        if os.path.exists(files_of(directory).over):
            return
        if read_stop(directory) is None:
            self._observer.killed(attempt)
        self._cancel(attempt, self._ids(attempt))

    def _cancel(self, attempt: Attempt, ids: list[str]) -> None:
        """Kill jobs of Slurm, as whoever submitted them."""
        self._slurm.cancel(ids, kill=True)

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """By a step of Slurm on the job's first node, which shares what the job has."""
        row = self._row(attempt)
        if row is None or row.state != "RUNNING":
            raise Conflict(f"Slurm does not run job {attempt.job_id} now", hint="see: squeue")
        directory = self._roots.of(attempt)
        program = [sys.executable, "-m", _FAR, "far", directory.root, str(directory.number)]
        self._starter.reap()
        return self._starter.start_with_stream(
            [_FAR, "near", *self._slurm.way_into(row.id, program)]
        )

    def _ids(self, attempt: Attempt) -> list[str]:
        row = self._row(attempt)
        return [] if row is None else [row.id]

    def _row(self, attempt: Attempt) -> Row | None:
        """What Slurm has of the attempt now: by our comment, never by an id of old."""
        return row_of(newest(self._ours(self._slurm.rows(script.name(attempt.job_id)))), attempt)

    def _ours(self, rows: list[Row]) -> list[Row]:
        """Those that are believed to be what their comment says."""
        return rows

    def close(self) -> None:
        """There are no helpers."""
