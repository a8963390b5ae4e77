"""One attempt on ModelArts from start to end: a thread that can be ended and begun again at any point.

What it must not forget is in its `Memory`. A network that is cut only makes it wait."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from jumar.engine.base import Attempt, Observation
from jumar.engine.modelarts import carrying
from jumar.engine.modelarts.logs import Logs
from jumar.engine.modelarts.memory import Memory
from jumar.engine.modelarts.request import (
    Places,
    choose_flavor,
    is_free,
    job_name,
    training_job,
)
from jumar.errors import JumarError, NotAllowed, NotFound, NotSignedIn
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes.supervise import RUN_AGAIN
from jumar.modelarts.account import Account
from jumar.modelarts.service import Away, Service, count_of, dig
from jumar.modelarts.signing import SKEW_S
from jumar.spec.causes import Cause, Values
from jumar.spec.states import AttemptState
from jumar.store.credentials import StoreConfig

log = logging.getLogger(__name__)
T = TypeVar("T")

_STALE_S = SKEW_S + 60
"""How long a create is sent with the signature that it had first. Nobody acts on that any more then."""
_LONGEST_PAUSE_S = 30.0
_FREE_S = 3600 - 120
_STOPS = {
    AttemptState.STOPPED: Cause.STOPPED,
    AttemptState.TIMED_OUT: Cause.TIME_LIMIT,
    AttemptState.PREEMPTED: Cause.PREEMPTED,
    AttemptState.LOST: Cause.LAUNCHER_KILLED,
}
_WITH_CODE = (Cause.DONE, Cause.EXIT_CODE, Cause.RUN_AGAIN)


class _Closing(Exception):
    """The server ends; the job goes on there."""


class _Stopped(Exception):
    """It shall end and has not begun there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What all errands of an engine share."""

    account: Callable[[], Account]
    """Asked each time: keys may be replaced while a job runs."""
    stores_of: Callable[[Account], StoreConfig]
    closing: threading.Event
    poll_s: float
    settle_s: float

    @property
    def service(self) -> Service:
        """ModelArts, with the keys of now."""
        return Service(self.account())

    @property
    def stores(self) -> StoreConfig:
        """Its OBS, likewise."""
        return self.stores_of(self.account())


class Errand:
    """Sends one attempt, follows it, brings back what it wrote."""

    def __init__(self, attempt: Attempt, place: Place, memory: Memory) -> None:
        self._attempt = attempt
        self._place = place
        self._memory = memory
        self._logs = Logs(JobDir(str(attempt.directory), attempt.number), memory)
        # Another login may name another bucket while it runs.
        bucket = memory.add(bucket=place.account().bucket)["bucket"]
        self._places = Places(bucket, attempt.job_id)
        self._woken = threading.Event()
        self._is_there = False
        # A create that may have been sent by whoever ran before: nobody else would look after that job.
        self._may_be_there = "create" in memory.read()
        self.seen = self._observation(AttemptState.STARTING)
        name = f"modelarts-{attempt.job_id}-{attempt.number}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something was asked for."""
        self._woken.set()

    def join(self, limit_s: float) -> None:
        """Wait until the thread has ended."""
        self._woken.set()
        self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            self._go()
        except _Closing:
            return
        except _Stopped:
            self._end(*self._stop_words())
        except JumarError as error:
            values = {"error": error.message}
            self._end(AttemptState.FAILED, Cause.START_REFUSED, values)
        except Exception as error:
            log.exception("job %s: its errand to ModelArts failed", self._attempt.job_id)
            values = {"error": type(error).__name__}
            self._end(AttemptState.FAILED, Cause.START_REFUSED, values)

    def _go(self) -> None:
        name = self._memory.read().get("id") or self._create()
        self._memory.add(id=name)
        self._is_there = True
        while not self._look(str(name)):
            self._pause(self._place.poll_s)

    def _create(self) -> str:
        """What ModelArts calls the job, which it is asked for once."""
        if self._stop_asked() is not None and not self._is_asked_for():
            raise _Stopped
        found = self._patiently(self._find)
        if found is not None:
            return found
        asked = self._memory.read().get("create") or self._prepared()
        while True:
            age_s = time.time() - asked["at"]
            if age_s > _STALE_S:
                asked = self._memory.put(create={**asked, "at": int(time.time())})["create"]
                age_s = 0.0
            try:
                # Sent again it is the same to the byte, its signature included: jumar's own server
                # then knows that it is no other job.
                made = self._place.service.send(
                    "POST", "/training-jobs", self._body(asked), at=asked["at"]
                )
                name = dig(made, "metadata", "id")
                if isinstance(name, str) and name:
                    return name
            except Away as error:
                log.info("job %s: %s", self._attempt.job_id, error)
                self._may_be_there = True
            except NotSignedIn:
                if age_s < _STALE_S / 2 and not self._may_be_there:
                    raise
                # Too old by the clock there, and soon by ours; or the keys were replaced meanwhile.
            # It may be there all the same; a second one must not be.
            found = self._settled()
            if found is not None:
                return found

    def _prepared(self) -> dict[str, Any]:
        """Send code and data; how to ask for the job, on disk before anybody is asked."""
        attempt, place = self._attempt, self._place
        code = self._places.code(attempt.archive)
        self._patiently(lambda: carrying.push_code(place.stores, code, attempt.archive))
        self._patiently(lambda: carrying.push_inputs(place.stores, attempt, self._places))
        flavors = self._patiently(lambda: place.service.send("GET", "/training-job-flavors"))
        flavor = choose_flavor(attempt.spec, dig(flavors, "flavors") or [])
        saved = self._saved()
        if self._stop_asked() is not None:
            raise _Stopped
        known = self._memory.add(
            create={"at": int(time.time()), "code": code, "flavor": flavor, "saved": saved}
        )
        return known["create"]

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        spec = self._attempt.spec
        return training_job(
            spec,
            name=job_name(self._attempt.job_id, self._attempt.number),
            flavor=asked["flavor"],
            code=asked["code"],
            places=self._places,
            resumes=bool(asked["saved"]),
            environment=spec.environment,
        )

    def _saved(self) -> str:
        """How the checkpoints stand."""
        url = self._attempt.spec.ckpt
        if url is None:
            return ""
        return self._patiently(lambda: carrying.state_of(self._place.stores, url))

    def _settled(self) -> str | None:
        until = time.monotonic() + self._place.settle_s
        while time.monotonic() < until:
            found = self._patiently(self._find)
            if found is not None:
                return found
            self._pause(1.0)
        return None

    def _find(self) -> str | None:
        """The job of this attempt, by its name."""
        name = job_name(self._attempt.job_id, self._attempt.number)
        same = {"key": "name", "operator": "equal", "value": [name]}
        asked = {"offset": 0, "limit": 50, "filters": [same]}
        found = self._place.service.send("POST", "/training-job-searches", asked)
        items: list[Any] = dig(found, "items") or []
        same_name = [dig(one, "metadata") for one in items]
        same_name = [one for one in same_name if dig(one, "name") == name and dig(one, "id")]
        first = min(same_name, key=lambda one: count_of(one, "create_time"), default=None)
        return None if first is None else str(dig(first, "id"))

    def _look(self, name: str) -> bool:
        """See how it stands and do what is due; whether it has ended."""
        place, path = self._place, f"/training-jobs/{name}"
        try:
            job = self._patiently(lambda: place.service.send("GET", path))
        except NotFound:
            if self._stop_asked() is None:
                self._end(AttemptState.LOST, Cause.NO_RESULT, {})
            else:
                self._end(*self._stop_words())
            return True
        phase = dig(job, "status", "phase")
        started_ms = count_of(job, "status", "start_time")
        started_at = started_ms / 1000 if started_ms else None
        ran_s = count_of(job, "status", "duration") / 1000
        self._fetch_logs(path, dig(job, "status", "tasks") or ["worker-0"])
        if phase in ("Completed", "Failed", "Terminated", "Abnormal"):
            self._finish(job, str(phase), started_at, ran_s)
            return True
        limit_s = self._attempt.spec.time_limit
        if limit_s is not None and ran_s > limit_s:
            self._memory.add(stop=AttemptState.TIMED_OUT.value)
        if self._stop_asked() is not None and phase != "Terminating":
            self._terminate(path)
        if phase in ("Running", "Terminating") and started_at is not None:
            self.seen = self._observation(AttemptState.RUNNING, handle=name, started_at=started_at)
        else:
            waits = {"engine": "ModelArts", "error": str(phase)}
            self.seen = self._observation(
                AttemptState.PENDING, handle=name, cause=Cause.PENDING, values=waits
            )
        return False

    def _terminate(self, path: str) -> None:
        body = {"action_type": "terminate"}
        try:
            self._place.service.send("POST", f"{path}/actions", body)
        except JumarError as error:
            # Ended meanwhile, or nobody answered: the next look tells.
            log.info("job %s: %s", self._attempt.job_id, error)

    def _fetch_logs(self, path: str, tasks: list[Any]) -> None:
        for task in map(str, tasks):
            try:
                self._logs.fetch(self._ask, path, task)
            except JumarError as error:
                # No reason to give up the job.
                log.info("job %s: no log of %s: %s", self._attempt.job_id, task, error)

    def _finish(self, job: Any, phase: str, started_at: float | None, ran_s: float) -> None:
        finished_at = time.time() if started_at is None else started_at + ran_s
        told: dict[str, Any] = {"started_at": started_at, "finished_at": finished_at}
        try:
            self._patiently(
                lambda: carrying.bring_results(self._place.stores, self._attempt, self._places)
            )
        except JumarError as error:
            # How the training ended is another matter.
            self._logs.say(f"results were not brought here: {error.message}")
        asked: dict[str, Any] = self._memory.read().get("create") or {}
        if self._attempt.spec.ckpt is not None and "saved" in asked:
            told["advanced"] = self._saved() != asked["saved"]
        self._end(*self._verdict(job, phase, ran_s), **told)

    def _verdict(self, job: Any, phase: str, ran_s: float) -> tuple[AttemptState, Cause, Values]:
        if self._stop_asked() is not None:
            # Done before the stop came there is done all the same.
            is_done = phase == "Completed"
            return (AttemptState.SUCCEEDED, Cause.DONE, {}) if is_done else self._stop_words()
        codes: list[Any] = dig(job, "status", "task_statuses") or []
        code = next((count_of(one, "exit_code") for one in codes if count_of(one, "exit_code")), 1)
        if phase == "Completed":
            return AttemptState.SUCCEEDED, Cause.DONE, {}
        if code == RUN_AGAIN:
            return AttemptState.TIMED_OUT, Cause.RUN_AGAIN, {"code": code}
        if phase == "Failed":
            return AttemptState.FAILED, Cause.EXIT_CODE, {"code": code}
        if phase == "Terminated":
            flavor = str(dig(job, "spec", "resource", "flavor_id") or "")
            limits = [self._attempt.spec.time_limit, _FREE_S if is_free(flavor) else None]
            is_over = any(limit is not None and ran_s >= limit for limit in limits)
            # Nobody here has asked for it.
            why = AttemptState.TIMED_OUT if is_over else AttemptState.STOPPED
            return why, _STOPS[why], {}
        return AttemptState.LOST, Cause.NO_RESULT, {}

    def _stop_asked(self) -> AttemptState | None:
        why = self._memory.read().get("stop")
        return None if why is None else AttemptState(why)

    def _is_asked_for(self) -> bool:
        """Whether it may be there."""
        return not {"create", "id"}.isdisjoint(self._memory.read())

    def _stop_words(self) -> tuple[AttemptState, Cause, Values]:
        why = self._stop_asked() or AttemptState.STOPPED
        return why, _STOPS[why], {}

    def _end(self, state: AttemptState, cause: Cause, values: Values, **more: Any) -> None:
        more.setdefault("finished_at", time.time())
        if cause in _WITH_CODE:
            more["exit_code"] = values.get("code", 0)
        self.seen = self._memory.end(
            state=state.value, cause=cause.value, values=dict(values), **more
        )

    def _ask(self, question: Callable[[Service], Any]) -> Any:
        return self._patiently(lambda: question(self._place.service))

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do it, as often as it takes: what may pass is waited for, as long as the server is there."""
        pause = 0.5
        while True:
            if self._place.closing.is_set():
                raise _Closing
            try:
                return act()
            except JumarError as error:
                # A job that is there is not given up for a key that was replaced, or a wrong clock.
                is_ours = self._is_there or self._may_be_there
                is_locked_out = is_ours and isinstance(error, NotSignedIn | NotAllowed)
                if not error.is_passing and not is_locked_out:
                    raise
                if self._stop_asked() is not None and not self._is_asked_for():
                    raise _Stopped from error
                log.info("job %s: %s; tried again", self._attempt.job_id, error)
            self._pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _pause(self, limit_s: float) -> None:
        self._woken.wait(limit_s)
        self._woken.clear()
        if self._place.closing.is_set():
            raise _Closing

    def _observation(self, state: AttemptState, **more: Any) -> Observation:
        return Observation(
            job_id=self._attempt.job_id, number=self._attempt.number, state=state, **more
        )
