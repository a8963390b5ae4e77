"""An engine that is asked in a thread of its own.

A cluster's controller may take half a minute to answer. Where a server has several engines, only the jobs
of that one wait for it: everything here returns at once, and what was seen is told with the next look."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from jumar.database.complaints import Complaints
from jumar.engine.base import Attempt, Engine, Observation
from jumar.errors import JumarError
from jumar.jobs.observed import refused
from jumar.jobs.patience import QUEUE_LIMIT_S, Hindered
from jumar.spec.states import AttemptState

log = logging.getLogger(__name__)
_FORGET_S = 60.0
"""Nobody has asked about an attempt for so long: it is over, and that is written down."""
_CLOSE_LIMIT_S = 10.0
_Key = tuple[str, int]


class Lane:
    """Thread-safe. Its thread begins with the first call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.on_news: Callable[[str], None] = lambda job_id: None
        """Hears of a job of which something new was seen."""
        self._woken = threading.Condition()
        self._wanted = False
        self._closing = False
        self._starts: dict[_Key, Attempt] = {}
        self._asked: dict[tuple[_Key, str], Callable[[], None]] = {}
        self._watched: dict[_Key, tuple[Attempt, float]] = {}
        self._seen: dict[_Key, Observation] = {}
        self._complaints = Complaints(log)
        self._hindered = Hindered(QUEUE_LIMIT_S)
        self._thread: threading.Thread | None = None

    def start(self, attempt: Attempt) -> None:
        """Have it started; until that worked it is tried again with every look."""
        with self._woken:
            self._starts[_key(attempt)] = attempt
            self._watched[_key(attempt)] = (attempt, time.monotonic())
            self._wake()

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """Have it asked to end. Whoever wants to be sure asks again."""
        self._ask(attempt, "the stop", partial(self._stop, attempt, why))

    def kill(self, attempt: Attempt) -> None:
        """Have it killed."""
        self._ask(attempt, "the end", partial(self._engine.kill, attempt))

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How they stood at the last look; those that were never looked at are left out."""
        asked = {_key(attempt): (attempt, time.monotonic()) for attempt in attempts}
        with self._woken:
            self._watched.update(asked)
            self._wake()
            return [self._seen[key] for key in asked if key in self._seen]

    def close(self) -> None:
        """End the thread. What is under way is done or left as a crash would leave it."""
        with self._woken:
            self._closing = True
            self._woken.notify()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSE_LIMIT_S)

    def _ask(self, attempt: Attempt, what: str, deed: Callable[[], None]) -> None:
        with self._woken:
            self._asked[_key(attempt), what] = deed
            self._wake()

    def _wake(self) -> None:
        self._wanted = True
        if self._thread is None and not self._closing:
            name = f"engine-{self._engine.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._woken.notify()

    def _run(self) -> None:
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._wanted or self._closing)
                if self._closing:
                    return
                self._wanted = False
            try:
                self._act()
                self._look()
            except Exception:  # the loop must outlive a fault of its own
                log.exception("a look at %s broke off, the next one tries again", self._engine.name)

    def _act(self) -> None:
        with self._woken:
            asked, self._asked = self._asked, {}
            starts = list(self._starts.values())
        for (key, what), deed in asked.items():
            self._try(f"{what} of job {key[0]}", deed)
        for attempt in starts:
            self._start(attempt)

    def _start(self, attempt: Attempt) -> None:
        what = f"the start of job {attempt.job_id}"
        try:
            self._engine.start(attempt)
        except (JumarError, OSError) as error:
            if isinstance(error, OSError) or error.is_passing:
                self._complaints.say(what, error)
                self._hindered.met(attempt, error)
                return
            self._tell([refused(attempt, error)])
        self._complaints.over(what)
        self._hindered.troubles.pop((attempt.job_id, attempt.number), None)
        with self._woken:
            self._starts.pop(_key(attempt), None)

    def _stop(self, attempt: Attempt, why: AttemptState) -> None:
        unbegun = self._hindered.unbegun(attempt, why)
        if unbegun is None:
            self._engine.stop(attempt, why)
        else:
            self._tell([unbegun])

    def _look(self) -> None:
        with self._woken:
            self._forget()
            open_ones = [
                attempt for key, (attempt, _) in self._watched.items() if self._is_open(key)
            ]
        if open_ones:
            self._try(
                f"a look at {self._engine.name}",
                lambda: self._tell(map(self._hindered.corrected, self._engine.observe(open_ones))),
            )

    def _try(self, what: str, deed: Callable[[], None]) -> None:
        try:
            deed()
        except (JumarError, OSError) as error:
            self._complaints.say(what, error)
        else:
            self._complaints.over(what)

    def _tell(self, observations: Iterable[Observation]) -> None:
        with self._woken:
            changed = [one for one in observations if self._seen.get(_key(one)) != one]
            self._seen.update({_key(one): one for one in changed})
            for one in changed:
                if one.state.is_final:
                    self._starts.pop(_key(one), None)
        for one in changed:
            self.on_news(one.job_id)

    def _is_open(self, key: _Key) -> bool:
        return key not in self._seen or not self._seen[key].state.is_final

    def _forget(self) -> None:
        long_ago = time.monotonic() - _FORGET_S
        for key in [key for key, (_, asked) in self._watched.items() if asked < long_ago]:
            del self._watched[key]
            self._seen.pop(key, None)
            self._starts.pop(key, None)
            self._hindered.troubles.pop(key, None)


def _key(one: Attempt | Observation) -> _Key:
    return one.job_id, one.number
