"""Says on stderr why a followed job waits, or cannot be started yet: once, and only if it really has to."""

import threading
import time
from types import TracebackType
from typing import Self

from jumar.cli.output import clock, note
from jumar.client import Client
from jumar.errors import JumarError
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.words import language
from jumar.words.reasons import reason, told, waiting_sentence

_NOTICED_S = 1.0
"""A shorter wait is part of starting, and not worth a word."""
_SLOW_START_S = 30.0
"""A job whose turn has come waits for nothing but the machine: a busy one may take a while."""


class WaitNews:
    """Told of each state of the job, it says beside the log why the job waits."""

    def __init__(self, client: Client, job: str) -> None:
        self._client, self._job = client, job
        self._state: JobState | None = None
        self._said: set[JobState] = set()
        self._moved_on = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def state(self, state: JobState) -> None:
        """The job is in this state now."""
        if state is self._state:
            return
        self._leave()
        self._state = state
        if state in (JobState.QUEUED, JobState.STARTING) and state not in self._said:
            self._moved_on.clear()
            self._thread = threading.Thread(target=self._watch, args=(state,), daemon=True)
            self._thread.start()

    def _leave(self) -> None:
        self._moved_on.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, state: JobState) -> None:
        began = time.monotonic()
        while not self._moved_on.wait(_NOTICED_S):
            try:
                job = self._client.get(self._job)
            except JumarError:
                # Whoever follows the log tells of that.
                continue
            slow = time.monotonic() - began > _SLOW_START_S
            why = _why(job, slow=slow) if job.state is state else None
            if why is not None and not self._moved_on.is_set():
                note(told(language(), "waiting", why=why))
                self._said.add(state)
                return


def _why(job: JobRecord, *, slow: bool) -> str | None:
    """What keeps it in the queue, or from being started; None where that is not worth a word."""
    if job.state is JobState.STARTING:
        return reason(job, language())
    waiting = job.waiting
    if waiting is None or (waiting.cause == "starts" and not slow):
        return None
    start = waiting.expected_start
    expected = None if start is None or waiting.cause == "starts" else clock(start)
    return waiting_sentence(waiting, language(), expected=expected)
