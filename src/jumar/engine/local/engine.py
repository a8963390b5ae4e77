"""`LocalEngine`: jobs on this machine, one detached keeper per attempt."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from jumar.devices.cards import cards as cards_now
from jumar.devices.machine import Machine
from jumar.devices.rank_part import rank_facts
from jumar.engine.base import Attempt, Observation, ProcessUse
from jumar.engine.files import JobFiles
from jumar.engine.local.containers import Containers
from jumar.engine.local.planning import make_plan
from jumar.engine.local.starter import Starter
from jumar.engine.local.use import process_use
from jumar.engine.shared import stopping
from jumar.engine.shared.files import CardFacts, Stages, given_places, write_files
from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.shared.mounts import NO_MOUNTS, Mounts
from jumar.engine.shared.observing import Observer, with_results
from jumar.errors import JumarError
from jumar.launch.jobdir.claims import is_claimed
from jumar.launch.processes.left_behind import IDLE_LIMIT_S
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import ImageRecord, Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores

logger = logging.getLogger(__name__)
_REASONS = frozenset({AttemptState.STOPPED, AttemptState.TIMED_OUT, AttemptState.PREEMPTED})


class LocalEngine:
    """Implements `engine.base.Engine`; thread-safe for different attempts."""

    name = "local"

    def __init__(
        self,
        home: Path,
        cards: tuple[Card, ...] | Callable[[], tuple[Card, ...]],
        *,
        stages: Stages | None = None,
        idle_limit_s: float = IDLE_LIMIT_S,
        control: Path | None = None,
        mounts: Mounts = NO_MOUNTS,
        network: str = "open",
    ) -> None:
        """`control`: where the platform's own files of attempts are, if not in the job directories.
        `network`: `closed` where jobs may reach nobody."""
        self._home = home
        self._cards = cards
        self._notify = home / "notify.sock"
        self._book = CardBook()
        self._starter = Starter(home / "launch.log", self._notify)
        self._stages = stages or Stages(UserStores(home))
        self._roots = Roots(control)
        self.files: JobFiles = SharedFiles(home / "jobs", self._roots, mounts)
        self._observer = Observer(self._roots, self._starter.start)
        self._idle_limit_s = idle_limit_s
        self._mounts = mounts
        self._network = network
        self._containers = Containers()

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

    def occupied(self) -> tuple[Card, ...]:
        """The real cards with all processes on them, as they are now."""
        return cards_now(surroundings=False)

    def process_use(self, attempts: Iterable[Attempt]) -> dict[str, ProcessUse]:
        """By their cgroups, else by the list of processes."""
        return process_use({attempt.job_id: self._roots.of(attempt) for attempt in attempts})

    def images(self) -> tuple[ImageRecord, ...]:
        """All that jobs may name."""
        return self._containers.images()

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """How the job would run; raises SubmitRefused when it never could."""
        if self._mounts.table:
            spec = self._mounts.placed(spec)
        self._stages.check(spec, user)
        if spec.image is not None:
            self._containers.check(spec)
        directory = self._home / "jobs" / "<id>"
        plan = make_plan(spec, archive=archive, cards=self.cards(), directory=directory)
        owner = self._stages.stores.owner
        if user == owner or not owner:
            return plan
        shared = (
            f"this is {owner}'s own server: the job runs with {owner}'s account, which can read all of "
            "it, and so can the other jobs there"
        )
        return replace(plan, notes=(*plan.notes, shared))

    def start(self, attempt: Attempt) -> None:
        """Write the files, then have a supervisor started; a claimed attempt is left alone."""
        directory = self._roots.of(attempt)
        if is_claimed(directory) or os.path.lexists(directory.said):
            return
        self._observer.begin(attempt)
        if self._mounts.table:
            attempt = replace(attempt, spec=self._mounts.placed(attempt.spec))
        write_files(
            directory,
            attempt,
            env_cache=self._user_folder(attempt.user) / "envs",
            notify=self._notify,
            facts=self._book.facts(attempt.spec.device.kind, attempt.card_ids, self.cards()),
            staging=self._stages.prepare(attempt, directory),
            idle_limit_s=self._idle_limit_s,
            mounts=self._mounts,
            container=None
            if attempt.spec.image is None
            else self._containers.request(attempt.spec, attempt.card_ids),
            network=self._network,
        )
        self._starter.start(directory)

    def _user_folder(self, user: str) -> Path:
        """What jobs leave for later ones, each user's apart: a job may write what the next one runs."""
        return self._home if user == self._stages.stores.owner else self._home / "users" / user

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        self._starter.reap()
        attempts = tuple(attempts)
        seen = self._observer.look(attempts)
        return [with_results(*pair, self.staging) for pair in zip(attempts, seen, strict=True)]

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As the attempt's status file tells it."""
        return self._stages.read(self._roots.of(attempt))

    def send_results(self, attempt: Attempt) -> None:
        """Have another process send them; one that does already goes on alone."""
        directory = self._roots.of(attempt)
        words = self._stages.resend(attempt, directory, given_places(attempt))
        self._starter.run_aside(words, directory.staging_log(0))

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """With the rights of this process, which are those of its jobs."""
        return self._starter.start_beside(self._roots.of(attempt))

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Ask by file, and by a signal so that it is seen at once."""
        if why not in _REASONS:
            raise ValueError(f"{why} is not a way to stop an attempt")
        stopping.stop(self._roots.of(attempt), why.value)

    def kill(self, attempt: Attempt) -> None:
        """At once; the next look ends what is left."""
        stopping.kill(self._roots.of(attempt))
        self._observer.killed(attempt)

    def close(self) -> None:
        """Let the helper end when its last attempt has."""
        self._starter.close()


class CardBook:
    """What the launcher is told of an attempt's cards, as it cannot ask the machine's tools itself.

    Numbers, generation and addresses do not change, so each card is asked once; thread-safe."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._known: dict[int, CardFacts] = {}

    def facts(
        self, kind: DeviceKind, ids: Iterable[int], cards: Iterable[Card]
    ) -> tuple[CardFacts, ...]:
        """One for each of the cards that the machine has; CPU slots have none."""
        wanted = set(ids)
        held = [card for card in cards if card.kind == kind and card.id in wanted]
        if kind == DeviceKind.CPU:
            return ()
        if kind != DeviceKind.NPU:
            return tuple({"id": card.id, "logical_id": card.logical_id} for card in held)
        with self._lock:
            new = [card for card in held if card.id not in self._known]
            self._known.update((fact["id"], fact) for fact in self._ask(new))
            return tuple(self._known[card.id] for card in held)

    def _ask(self, cards: list[Card]) -> list[CardFacts]:
        if not cards:
            return []
        try:
            return rank_facts(cards, self._machine)
        except JumarError as error:
            logger.warning("addresses will be missing in the rank table: %s", error)
            return [
                {"id": card.id, "logical_id": card.logical_id, "generation": card.generation}
                for card in cards
            ]
