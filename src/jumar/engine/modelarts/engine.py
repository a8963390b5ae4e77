"""`ModelArtsEngine`: each attempt is one training job on ModelArts, sent and followed by a thread."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jumar.engine.base import Attempt, Observation
from jumar.engine.files import JobFiles
from jumar.engine.modelarts.errand import Errand, Place
from jumar.engine.modelarts.memory import Memory, ended_observation
from jumar.engine.modelarts.request import (
    Places,
    choose_flavor,
    is_free,
    job_name,
    refuse,
    training_job,
)
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import EngineFailed, NotFound
from jumar.modelarts.account import Account
from jumar.modelarts.service import Service, dig
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan
from jumar.spec.states import AttemptState
from jumar.store.credentials import StoreConfig

POLL_S = 5.0
SETTLE_S = 10.0
"""How long a job is looked for whose create was not answered, before it is sent again."""
_CLOSE_S = 10.0
_ASK_S = 20.0


class ModelArtsEngine:
    """Implements `engine.base.Engine` and `HasQueue`; thread-safe."""

    name = "modelarts"
    queue_name = "ModelArts"

    def __init__(
        self,
        home: Path,
        account: Callable[[], Account],
        *,
        stores: StoreConfig | None = None,
        poll_s: float = POLL_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`account`: asked when it is needed, so that one can log in while the server runs. `stores`:
        in place of the account's own."""
        self.files: JobFiles = SharedFiles(home / "jobs")
        self._account = account
        self._home = home
        self._stores = stores
        self._poll_s, self._settle_s = poll_s, settle_s
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._errands: dict[tuple[str, int], Errand] = {}

    def prepare(self) -> None:
        """Nothing has to be ready before the first job."""

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """The request, checked against what the account has: flavors and quota."""
        refuse(spec)
        account = self._account()
        notes = ["endpoints: not done on ModelArts"] if spec.endpoints else []
        service = Service(account, patience_s=_ASK_S)
        flavors = service.read("GET", "/training-job-flavors")
        flavor = choose_flavor(spec, dig(flavors, "flavors") or [])
        quota = service.read("GET", "/training-quotas", query="resource=job-num")
        limits: list[Any] = dig(quota, "quotas") or []
        for one in limits:
            if int(dig(one, "used") or 0) >= int(dig(one, "quota") or 1):
                notes.append("the account has as many jobs as it may: this one will wait")
        if is_free(flavor):
            notes.append(f"{flavor} is free and ends after an hour: use segments for more")
        places = Places(account.bucket, "ID")
        body = training_job(
            spec,
            name=job_name("ID", 1),
            flavor=flavor,
            code=places.code(archive),
            places=places,
            resumes=False,
            environment=spec.masked()["environment"],
        )
        return Plan(
            engine=self.name,
            summary=f"a training job of ModelArts on {spec.nodes} x {flavor}",
            details={"endpoint": account.endpoint, "request": body},
            notes=tuple(notes),
        )

    def start(self, attempt: Attempt) -> None:
        """Note that it shall run, and send it in the background."""
        Memory(attempt).begin()
        self._errand(attempt)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """As the last look has shown them."""
        return [self._look(attempt) for attempt in attempts]

    def _look(self, attempt: Attempt) -> Observation:
        known = Memory(attempt).read()
        if "ended" in known:
            self._errands.pop(_key(attempt), None)
            return ended_observation(attempt, known)
        if "begun" in known:
            # A server that was started again goes on where the last one was.
            return self._errand(attempt).seen
        return Observation(
            job_id=attempt.job_id, number=attempt.number, state=AttemptState.STARTING
        )

    def _errand(self, attempt: Attempt) -> Errand:
        with self._lock:
            errand = self._errands.get(_key(attempt))
            if errand is None:
                place = Place(
                    account=self._known_account,
                    stores_of=lambda account: self._stores or account.stores(self._home),
                    closing=self._closing,
                    poll_s=self._poll_s,
                    settle_s=self._settle_s,
                )
                errand = Errand(attempt, place, Memory(attempt))
                self._errands[_key(attempt)] = errand
            return errand

    def _known_account(self) -> Account:
        try:
            return self._account()
        except NotFound as error:
            raise EngineFailed(error.message, hint=error.hint) from error

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Note it; the first reason counts."""
        memory = Memory(attempt)
        if "ended" not in memory.read():
            memory.begin()
            memory.add(stop=why.value)
            self._errand(attempt).wake()

    def kill(self, attempt: Attempt) -> None:
        """There is nothing harder than a stop there; it is lost whatever that does."""
        self.stop(attempt, AttemptState.LOST)

    def close(self) -> None:
        """Let go of the threads; jobs go on there."""
        self._closing.set()
        until = time.monotonic() + _CLOSE_S
        for errand in list(self._errands.values()):
            errand.join(max(0.0, until - time.monotonic()))


def _key(attempt: Attempt) -> tuple[str, int]:
    return attempt.job_id, attempt.number
