"""`SiteEngine`: jobs on this machine, each run as its submitter."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumar.engine.base import SEND_LIMIT_S, Attempt
from jumar.engine.local.engine import LocalEngine
from jumar.engine.local.planning import make_plan
from jumar.engine.shared.files import Stages, job_values, request_values
from jumar.engine.shared.mounts import NO_MOUNTS, Mounts
from jumar.engine.site.asking import Account, Root, RootRefused, readable
from jumar.engine.site.files import RootFiles
from jumar.engine.site.observing import RootObserver
from jumar.errors import EngineFailed, SubmitRefused
from jumar.launch.jobdir.claims import is_claimed
from jumar.launch.jobdir.files import JobDir
from jumar.root.program import MOST_INPUTS, Site, limited_fields
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import ImageRecord, Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.spec.urls import is_of_hub

_NODES = {DeviceKind.NPU: "davinci", DeviceKind.GPU: "nvidia"}
_FENCED = ("/tmp/", "/dev/shm/", "/var/run/jumar", "/run/jumar")
_AFTER_DEADLINE_S = 120.0
"""How much longer than all its limits an attempt may take before root ends it."""


def _no_hub(_user: str, url: str) -> Path:
    raise SubmitRefused(f"{url} is in a hub, and this server has none")


class SiteEngine(LocalEngine):
    """Root's program starts, signals, reads and removes; this side decides."""

    def __init__(
        self,
        site: Site,
        home: Path,
        cards: tuple[Card, ...] | Callable[[], tuple[Card, ...]],
        account_of: Callable[[str], Account],
        *,
        stages: Stages,
        mounts: Mounts = NO_MOUNTS,
        network: str = "open",
        tree_of: Callable[[str, str], Path] = _no_hub,
    ) -> None:
        """`account_of` tells whom jobs of a user of the platform run as, or raises SubmitRefused. `tree_of`:
        the tar file of what a user's job names of the hub."""
        self._state = Path(site.state)
        super().__init__(
            home,
            cards,
            stages=stages,
            control=self._state / "control",
            mounts=mounts,
            network=network,
        )
        self._site = site
        self._account_of = account_of
        self._tree_of = tree_of
        self._root = Root(Path(site.root_run))
        self.root_files = RootFiles(self._state, home, self._roots, self._root)
        self.files = self.root_files
        self._observer = RootObserver(
            self._roots, self._root, self._ask_for, self.root_files.is_over_time
        )

    def prepare(self) -> None:
        """Nothing is kept warm: root imports nothing of ours."""

    def images(self) -> tuple[ImageRecord, ...]:
        """None: root's program starts no containers."""
        return ()

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """How the job would run. What is in a home only its owner can see: the attempt finds out."""
        if spec.image is not None:
            raise SubmitRefused(
                "this site runs no containers yet",
                hint="leave image out: jobs run on the machine itself",
            )
        account = self._account_of(user)
        if sum(map(is_of_hub, spec.inputs.values())) > MOST_INPUTS:
            raise SubmitRefused(f"a job of a site may have {MOST_INPUTS} inputs of the hub")
        if self._mounts.table:
            spec = self._mounts.placed(spec)
        paths = [spec.workdir, *spec.inputs.values(), *spec.outputs.values(), spec.ckpt]
        for path in filter(None, paths):
            if self._site.fences and f"{path.removeprefix('file://')}/".startswith(_FENCED):
                raise SubmitRefused(
                    f"{path} cannot be seen by a job: each has a /tmp and a /dev/shm of its own",
                    hint="use a folder in your home",
                )
        self._stages.check(spec, user, has_folder=False)
        directory = self.root_files.directory("<id>")
        plan = make_plan(
            spec,
            archive=archive,
            cards=self.cards(),
            directory=directory,
            can_look=False,
            limited=limited_fields(self._site.cgroup),
        )
        return replace(plan, summary=f"{plan.summary}, as {account.name}")

    def start(self, attempt: Attempt) -> None:
        """Have root's program start it; a claimed attempt is left alone."""
        self._observer.begin(attempt)
        self._ask_for(attempt)

    def _ask_for(self, attempt: Attempt) -> None:
        directory = self._roots.of(attempt)
        if is_claimed(directory) or os.path.lexists(directory.result):
            return
        account = self._account_of(attempt.user)
        with contextlib.ExitStack() as stack:
            archives = self._archives(attempt)
            told = self._told(attempt, account) | {"given": list(archives)}
            given = [stack.enter_context(readable(json.dumps(told).encode()))]
            for path in archives.values():
                given.append(stack.enter_context(path.open("rb")).fileno())
            try:
                self._root.start(
                    "attempt",
                    attempt,
                    account,
                    given,
                    cards=self._nodes(attempt),
                    kill_at=_kill_at(attempt.spec),
                    memory=attempt.spec.memory,
                    cpus=attempt.spec.cpus,
                )
            except RootRefused as error:
                if error.reason in ("account", "owner"):
                    raise SubmitRefused(error.message) from error
                raise error.as_hindered(attempt.directory) or error from error

    def _archives(self, attempt: Attempt) -> dict[str, Path]:
        """Tar files that the user cannot open, by what they are: `archive`, the code, and inputs."""
        found = {} if attempt.archive is None else {"archive": attempt.archive}
        return found | {
            f"input {name}": self._tree_of(attempt.user, url)
            for name, url in attempt.spec.inputs.items()
            if is_of_hub(url)
        }

    def _told(self, attempt: Attempt, account: Account) -> dict[str, Any]:
        """What the launcher is told, keys included: it is on no disk until the user writes it down."""
        folder = self._state / "users" / str(account.uid)
        # As the launcher sees it, which has all of an attempt in the job's own folder.
        attempt = replace(attempt, directory=self.root_files.directory(attempt.job_id))
        if self._mounts.table:
            attempt = replace(attempt, spec=self._mounts.placed(attempt.spec))
        seen = JobDir(str(attempt.directory), attempt.number)
        facts = self._book.facts(attempt.spec.device.kind, attempt.card_ids, self.cards())
        staged = self._stages.told(attempt, seen, home=folder, store_file=seen.store_file)
        request = request_values(attempt, None, facts, staged.programs, self._idle_limit_s)
        return {
            "job": job_values(attempt, folder / "envs", self._mounts, self._network),
            "request": {**request, "archive": None},
            "store": staged.stores,
            "stage": staged.plan,
        }

    @staticmethod
    def _nodes(attempt: Attempt) -> list[str]:
        kind = _NODES.get(attempt.spec.device.kind)
        return [] if kind is None else [f"{kind}{card}" for card in attempt.card_ids]

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """By root's program, which joins the attempt's namespace and cgroup and becomes its user."""
        account = self._account_of(attempt.user)
        ours, theirs = socket.socketpair()
        try:
            given = [theirs.fileno()]
            self._root.start("beside", attempt, account, given, cards=self._nodes(attempt))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """By root's program."""
        self._signal(attempt, why.value)

    def end_other(self, handle: int, *, hard: bool) -> None:
        """By root's program, where root's file of the site allows a sweep."""
        self._root.ask("sweep", [handle], hard=hard)

    def kill(self, attempt: Attempt) -> None:
        """The keeper ends all at once."""
        self._signal(attempt, "lost")

    def _signal(self, attempt: Attempt, why: str) -> None:
        try:
            self._root.ask("signal", job=attempt.job_id, attempt=attempt.number, why=why)
        except RootRefused as error:
            if error.reason != "no-job":
                raise

    def staging(self, attempt: Attempt) -> StagingRecord | None:
        """As the attempt's status file tells it, read with its user's rights."""
        return self.root_files.staging(attempt.job_id, attempt.number)

    def send_results(self, attempt: Attempt) -> None:
        """Only its user may read them, and nobody of hers runs any more."""
        raise EngineFailed(
            "on a site, results that a job has left are not uploaded later",
            hint=f"fetch them with: jumar get {attempt.job_id}",
        )


def _kill_at(spec: JobSpec) -> float | None:
    if spec.time_limit is None:
        return None
    return time.time() + spec.time_limit + SEND_LIMIT_S + _AFTER_DEADLINE_S
