"""What an attempt on ModelArts must not forget, in `modelarts.json` in its folder: that it was begun, when and
how it was asked for there, what it is called there, that it shall end and why, and how it ended.

Beside it lie `job.json`, `request.json` and in the end `result.json`, as other engines write them: a list of
jobs that was lost is made again from these."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.engine.base import Attempt, Observation
from jumar.engine.shared.files import write_plain_files
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import Ending, write_ending
from jumar.launch.jobdir.safefile import Unusable, read_object
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.store.credentials import read_private, write_private
from jumar.words.reasons import cause_sentence

STATE_FILE = "modelarts.json"
_TAIL_BYTES = 4096
# Of all attempts: the engine and the errand write to the same file.
_writing = threading.Lock()


class Memory:
    """The file of one attempt; every change is on disk before it counts."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._directory = JobDir(str(attempt.directory), attempt.number)
        self._path = _file_of(self._directory)

    def read(self) -> dict[str, Any]:
        """Empty for an attempt that was never begun."""
        return read_private(self._path)

    def begin(self) -> None:
        """Note that it shall run; twice is once."""
        if "begun" not in self.read():
            write_plain_files(self._directory, self._attempt)
            self.add(begun=True)

    def add(self, **values: Any) -> dict[str, Any]:
        """Keep values; what is known already stays as it is."""
        return self._merge(lambda known: {**values, **known})

    def put(self, **values: Any) -> dict[str, Any]:
        """Keep values in the place of what was known."""
        return self._merge(lambda known: {**known, **values})

    def _merge(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        with _writing:
            known = self.read()
            merged = change(known)
            if merged != known:
                write_private(self._path, merged)
            return merged

    def end(self, **ended: Any) -> Observation:
        """Keep how it ended; the first ending counts."""
        known = self.add(ended=ended)
        seen = ended_observation(self._attempt, known)
        ending = Ending(
            seen.state.value,
            (seen.cause or Cause.NO_RESULT).value,
            seen.reason or "",
            exit_code=seen.exit_code,
            tail=seen.tail or "",
            started_at=seen.started_at,
            finished_at=seen.finished_at,
            values=dict(seen.values),
            advanced=seen.advanced,
        )
        write_ending(self._directory, ending)
        return seen


def is_away(directory: JobDir) -> bool:
    """Whether it is an attempt that was begun on ModelArts and is not known to have ended."""
    try:
        # The job directory of another engine is one that a job can write.
        known = read_object(str(_file_of(directory)))
    except (OSError, Unusable):
        return False
    return "begun" in known and "ended" not in known


def _file_of(directory: JobDir) -> Path:
    return Path(directory.attempt) / STATE_FILE


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
        advanced=ended.get("advanced"),
    )


def _tail(attempt: Attempt) -> str | None:
    path = JobDir(str(attempt.directory), attempt.number).log(0, 0)
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return None
