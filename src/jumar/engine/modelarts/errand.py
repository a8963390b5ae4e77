"""One attempt on ModelArts from start to end: a thread that can be ended and begun again at any point.

What it must not forget is in `modelarts.json` in the attempt's folder: that it was begun, what it is called
there, that it shall end and why, and how it ended. A network that is cut only makes it wait."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jumar.engine.base import Attempt, Observation
from jumar.engine.modelarts import carrying
from jumar.engine.modelarts.request import (
    Places,
    choose_flavor,
    is_free,
    job_name,
    training_job,
)
from jumar.errors import JumarError, NotFound
from jumar.launch.jobdir.files import JobDir
from jumar.modelarts.service import Away, Service, dig
from jumar.spec.causes import Cause, Values
from jumar.spec.states import AttemptState
from jumar.store.credentials import StoreConfig
from jumar.store.private import read_private, write_private
from jumar.words.reasons import cause_sentence

log = logging.getLogger(__name__)
T = TypeVar("T")

STATE_FILE = "modelarts.json"
_SETTLE_S = 10.0
"""How long a job is looked for whose create was not answered, before another is sent."""
_LONGEST_PAUSE_S = 30.0
_FREE_S = 3600 - 120
_STOPS = {
    AttemptState.STOPPED: Cause.STOPPED,
    AttemptState.TIMED_OUT: Cause.TIME_LIMIT,
    AttemptState.PREEMPTED: Cause.PREEMPTED,
    AttemptState.LOST: Cause.LAUNCHER_KILLED,
}


# Of all attempts: the engine and the errand write to the same file.
_writing = threading.Lock()


class _Closing(Exception):
    """The server ends; the job goes on there."""


class _Stopped(Exception):
    """It shall end and has not begun there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What all errands of an engine share."""

    service: Service
    stores: StoreConfig
    closing: threading.Event
    poll_s: float
    settle_s: float = _SETTLE_S


class Memory:
    """The file of one attempt; every change is on disk before it counts."""

    def __init__(self, attempt: Attempt) -> None:
        self._path = Path(JobDir(str(attempt.directory), attempt.number).attempt) / STATE_FILE

    def read(self) -> dict[str, Any]:
        """Empty for an attempt that was never begun."""
        return read_private(self._path)

    def add(self, **values: Any) -> dict[str, Any]:
        """Keep values; what is known already stays as it is."""
        with _writing:
            known = self.read()
            merged = {**values, **known}
            if merged != known:
                write_private(self._path, merged)
            return merged


class Errand:
    """Sends one attempt, follows it, brings back what it wrote."""

    def __init__(self, attempt: Attempt, place: Place, memory: Memory) -> None:
        self._attempt = attempt
        self._place = place
        self._memory = memory
        self._directory = JobDir(str(attempt.directory), attempt.number)
        self._places = Places(place.service.account.bucket, attempt.job_id)
        self._woken = threading.Event()
        self._flavor = ""
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
        known = self._memory.read()
        name = known.get("id") or self._create()
        self._memory.add(id=name)
        while not self._look(str(name)):
            self._pause(self._place.poll_s)

    def _create(self) -> str:
        """What ModelArts calls the job, which it is asked for once."""
        attempt, stores = self._attempt, self._place.stores
        spec, service = attempt.spec, self._place.service
        found = self._patiently(self._find)
        if found is not None:
            return found
        code = self._places.code(attempt.archive)
        self._patiently(lambda: carrying.push_code(stores, code, attempt.archive))
        self._patiently(lambda: carrying.push_inputs(stores, attempt, self._places))
        flavors = self._patiently(lambda: service.send("GET", "/training-job-flavors"))
        self._flavor = choose_flavor(spec, dig(flavors, "flavors") or [])
        resumes = spec.ckpt is not None and self._patiently(
            lambda: carrying.has_files(stores, spec.ckpt or "")
        )
        body = training_job(
            spec,
            name=job_name(attempt.job_id, attempt.number),
            flavor=self._flavor,
            code=code,
            places=self._places,
            resumes=resumes,
            environment=spec.environment,
        )
        while True:
            if self._stop_asked() is not None:
                raise _Stopped
            try:
                made = service.send("POST", "/training-jobs", body)
                return str(dig(made, "metadata", "id"))
            except Away as error:
                log.info("job %s: %s", attempt.job_id, error)
            # It may be there all the same; a second one must not be.
            until = time.monotonic() + self._place.settle_s
            while time.monotonic() < until:
                found = self._patiently(self._find)
                if found is not None:
                    return found
                self._pause(1.0)

    def _find(self) -> str | None:
        """The job of this attempt, by its name."""
        name = job_name(self._attempt.job_id, self._attempt.number)
        same = {"key": "name", "operator": "equal", "value": [name]}
        asked = {"offset": 0, "limit": 50, "filters": [same]}
        found = self._place.service.send("POST", "/training-job-searches", asked)
        items: list[Any] = dig(found, "items") or []
        for one in items:
            if dig(one, "metadata", "name") == name:
                return str(dig(one, "metadata", "id"))
        return None

    def _look(self, name: str) -> bool:
        """See how it stands and do what is due; whether it has ended."""
        service, path = self._place.service, f"/training-jobs/{name}"
        try:
            job = self._patiently(lambda: service.send("GET", path))
        except NotFound:
            self._end(AttemptState.LOST, Cause.NO_RESULT, {})
            return True
        phase = dig(job, "status", "phase")
        started_ms = dig(job, "status", "start_time") or 0
        started_at = started_ms / 1000 if started_ms else None
        ran_s = (dig(job, "status", "duration") or 0) / 1000
        for task in dig(job, "status", "tasks") or ["worker-0"]:
            self._patiently(lambda task=str(task): self._fetch_log(path, task))
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

    def _fetch_log(self, path: str, task: str) -> None:
        """Append what has come to the log that is kept here."""
        got = self._place.service.send("GET", f"{path}/tasks/{task}/logs/preview")
        content = str(dig(got, "content") or "").encode()
        full = int(dig(got, "full_size") or len(content))
        node = int(task.rpartition("-")[2]) if task.rpartition("-")[2].isdecimal() else 0
        log_path = Path(self._directory.log(node, node))
        log_path.parent.mkdir(parents=True, exist_ok=True)
        # Attempts append to one log: where this one began is kept.
        start = self._memory.add(**{f"log{node}": _size(log_path)})[f"log{node}"]
        written = _size(log_path) - int(start)
        missing = full - written
        if missing > 0 and content:
            with log_path.open("ab") as file:
                file.write(content[-missing:])

    def _finish(self, job: Any, phase: str, started_at: float | None, ran_s: float) -> None:
        finished_at = time.time() if started_at is None else started_at + ran_s
        times = {"started_at": started_at, "finished_at": finished_at}
        self._patiently(
            lambda: carrying.bring_results(self._place.stores, self._attempt, self._places)
        )
        codes: list[Any] = dig(job, "status", "task_statuses") or []
        code = next((dig(one, "exit_code") for one in codes if dig(one, "exit_code")), None)
        if phase == "Completed":
            self._end(AttemptState.SUCCEEDED, Cause.DONE, {}, exit_code=0, **times)
        elif phase == "Terminated" or self._stop_asked() is not None:
            flavor = str(dig(job, "spec", "resource", "flavor_id") or self._flavor)
            if self._stop_asked() is None and is_free(flavor) and ran_s >= _FREE_S:
                self._memory.add(stop=AttemptState.TIMED_OUT.value)
            self._end(*self._stop_words(), **times)
        elif phase == "Failed":
            exit_code = code if isinstance(code, int) else 1
            values = {"code": exit_code}
            self._end(AttemptState.FAILED, Cause.EXIT_CODE, values, exit_code=exit_code, **times)
        else:
            self._end(AttemptState.LOST, Cause.NO_RESULT, {}, **times)

    def _stop_asked(self) -> AttemptState | None:
        why = self._memory.read().get("stop")
        return None if why is None else AttemptState(why)

    def _stop_words(self) -> tuple[AttemptState, Cause, Values]:
        why = self._stop_asked() or AttemptState.STOPPED
        return why, _STOPS[why], {}

    def _end(self, state: AttemptState, cause: Cause, values: Values, **more: Any) -> None:
        ended = {"state": state.value, "cause": cause.value, "values": dict(values), **more}
        ended.setdefault("finished_at", time.time())
        self._memory.add(ended=ended)
        self.seen = ended_observation(self._attempt, self._memory.read())

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do it, as often as it takes: what may pass is waited for, as long as the server is there."""
        pause = 0.5
        while True:
            if self._place.closing.is_set():
                raise _Closing
            try:
                return act()
            except JumarError as error:
                if not error.is_passing:
                    raise
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


def ended_observation(attempt: Attempt, known: dict[str, Any]) -> Observation:
    """The observation of an attempt that has ended, from its file: the same for ever."""
    ended = known["ended"]
    cause, values = Cause(ended["cause"]), ended["values"]
    return Observation(
        job_id=attempt.job_id,
        number=attempt.number,
        state=AttemptState(ended["state"]),
        handle=known.get("id"),
        started_at=ended.get("started_at"),
        finished_at=ended["finished_at"],
        exit_code=ended.get("exit_code"),
        cause=cause,
        values=values,
        reason=cause_sentence(cause, values, "en"),
        tail=_tail(attempt) if ended["state"] == AttemptState.FAILED else None,
    )


def _tail(attempt: Attempt) -> str | None:
    path = JobDir(str(attempt.directory), attempt.number).log(0, 0)
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
