"""`LocalEngine`: jobs on this machine, one detached supervisor an attempt."""

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from jumar.engine.base import Attempt, Observation
from jumar.engine.local.card_book import CardBook
from jumar.engine.local.files import job_dir, write_files
from jumar.engine.local.observing import Observer
from jumar.engine.local.planning import make_plan
from jumar.engine.local.stages import Stages
from jumar.engine.local.starter import Starter
from jumar.errors import EngineFailed
from jumar.launch.jobdir import files as jobdir
from jumar.launch.jobdir.census import Census, keeps
from jumar.launch.jobdir.files import Claim, JobDir
from jumar.launch.jobdir.untrusted import Unusable
from jumar.launch.processes import process
from jumar.launch.processes.left_behind import IDLE_LIMIT_S
from jumar.spec.devices import Card
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores

_REASONS = frozenset({AttemptState.STOPPED, AttemptState.TIMED_OUT, AttemptState.PREEMPTED})


class LocalEngine:
    """Implements `engine.base.Engine`; thread-safe for different attempts."""

    name = "local"

    def __init__(
        self,
        home: Path,
        cards: tuple[Card, ...] | Callable[[], tuple[Card, ...]],
        *,
        notify: Path | None = None,
        stages: Stages | None = None,
        idle_limit_s: float = IDLE_LIMIT_S,
    ) -> None:
        self._home = home
        self._cards = cards
        self._notify = notify or home / "notify.sock"
        self._book = CardBook()
        self._starter = Starter(home / "launch.log", self._notify)
        self._stages = stages or Stages(UserStores(home))
        self._observer = Observer(self._starter)
        self._idle_limit_s = idle_limit_s

    @property
    def warm_pid(self) -> int | None:
        """The helper that forks supervisors, once there is one."""
        return self._starter.pid

    def prepare(self) -> None:
        """Start the helper now, so that the first job need not wait for it."""
        self._starter.prepare()

    def cards(self) -> tuple[Card, ...]:
        """All that jobs may hold here."""
        return self._cards() if callable(self._cards) else self._cards

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """How the job would run; raises SubmitRefused when it never could."""
        self._stages.check(spec, user)
        return make_plan(spec, archive=archive, cards=self.cards(), home=self._home)

    def start(self, attempt: Attempt) -> None:
        """Write the files, then have a supervisor started; a claimed attempt is left alone."""
        directory = job_dir(attempt)
        if os.path.lexists(directory.claim) or os.path.lexists(directory.result):
            return
        self._observer.begin(attempt)
        write_files(
            attempt,
            env_cache=self._home / "envs",
            notify=self._notify,
            facts=self._book.facts(attempt.spec.device.kind, attempt.card_ids, self.cards()),
            staging=self._stages.prepare(attempt),
            idle_limit_s=self._idle_limit_s,
        )
        self._starter.start(directory)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        attempts = tuple(attempts)
        seen = self._observer.look(attempts)
        return [self._with_results(*pair) for pair in zip(attempts, seen, strict=True)]

    def _with_results(self, attempt: Attempt, seen: Observation) -> Observation:
        if not seen.state.is_final or not attempt.spec.sends_results:
            return seen
        try:
            record = self._stages.read(attempt)
        except OSError:
            # Not known now: what may be unsent is looked after until it is known.
            return replace(seen, not_uploaded=True)
        return replace(seen, not_uploaded=record is not None and record.has_unsent)

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As the attempt's status file tells it."""
        return self._stages.read(attempt)

    def send_results(self, attempt: Attempt) -> None:
        """Have another process send them; one that does already goes on alone."""
        self._starter.run_aside(self._stages.resend(attempt), job_dir(attempt).staging_log(0))

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Ask by file, and by a signal so that it is seen at once."""
        if why not in _REASONS:
            raise ValueError(f"{why} is not a way to stop an attempt")
        directory, trouble = job_dir(attempt), None
        try:
            os.makedirs(directory.attempt, exist_ok=True)
            if jobdir.is_plain(directory):
                jobdir.ask_to_stop(directory, why.value)
        except OSError as error:
            trouble = error
        if not _signal_supervisor(directory) and trouble is not None:
            raise EngineFailed(f"cannot ask job {attempt.job_id} to stop: {trouble}") from trouble

    def kill(self, attempt: Attempt) -> None:
        """SIGKILL to guard and supervisor; without them the next look ends what is left."""
        directory = job_dir(attempt)
        try:
            claim = _claim(directory)
            for one in () if claim is None else (claim.guard, claim.supervisor):
                if keeps(one, directory):
                    process.send(one.pid, signal.SIGKILL)
            for pid in Census().keepers(directory):
                process.send(pid, signal.SIGKILL)
        except OSError as error:
            raise EngineFailed(f"cannot end job {attempt.job_id}: {error}") from error

    def close(self) -> None:
        """Let the helper end when its last attempt has."""
        self._starter.close()


def _signal_supervisor(directory: JobDir) -> bool:
    """Whether it was sent a signal; one that was not sees the file by itself, half a second later."""
    try:
        claim = _claim(directory)
        # The claim may name anybody; only a process that keeps this attempt is sent a signal.
        if claim is not None and keeps(claim.supervisor, directory):
            return process.send(claim.supervisor.pid, signal.SIGTERM)
        # The job has removed or changed the claim.
        sent = [process.send(pid, signal.SIGTERM) for pid in Census().keepers(directory)]
        return any(sent)
    except OSError:
        return False


def _claim(directory: JobDir) -> Claim | None:
    try:
        return jobdir.read_claim(directory)
    except Unusable:
        return None
