"""How an attempt of a site stands: by what root wrote and by the keeper's lock, never by /proc."""

import logging
import os
import time
from collections.abc import Callable

from jumar.engine.base import Attempt
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.shared.observing import ASK_AGAIN_S, GIVE_UP_S, Observer, Seen, read_ending
from jumar.engine.site.asking import Root, RootRefused
from jumar.errors import EngineFailed
from jumar.launch.jobdir import claims
from jumar.launch.jobdir.claims import Census
from jumar.launch.jobdir.files import JobDir, has_ranks
from jumar.launch.jobdir.news import Ending, lost
from jumar.launch.judge import as_asked, ending_asked

logger = logging.getLogger(__name__)


class RootObserver(Observer):
    """Has root's program end what a dead keeper has left."""

    def __init__(
        self,
        roots: Roots,
        root: Root,
        start: Callable[[Attempt], None],
        is_over_time: Callable[[str, int], bool],
    ) -> None:
        """`is_over_time`: whether the launcher of an attempt has written that its time limit asks it to end."""
        super().__init__(roots, lambda _: None)
        self._root = root
        self._again = start
        self._is_over_time = is_over_time
        self._begun: dict[tuple[str, int], Attempt] = {}

    def begin(self, attempt: Attempt) -> None:
        """Remembered until it is claimed, to be asked for again."""
        super().begin(attempt)
        self._begun[attempt.job_id, attempt.number] = attempt

    def _look(self, directory: JobDir, seen: Seen, census: Census) -> Ending | None:
        key = directory.job_id, directory.number
        if claims.is_held(directory):
            self._begun.pop(key, None)
            seen.running = seen.running or has_ranks(directory)
            return None
        if os.path.lexists(directory.result):
            self._begun.pop(key, None)
            return self._told(directory)
        now = time.monotonic()
        if now - seen.asked_at <= ASK_AGAIN_S:
            return None
        seen.first_asked_at, seen.asked_at = seen.first_asked_at or now, now
        attempt = self._begun.get(key)
        is_waiting = not claims.is_claimed(directory) and now - seen.first_asked_at < GIVE_UP_S
        try:
            if is_waiting and attempt is not None:
                self._again(attempt)
            elif not is_waiting:
                self._root.ask("lost", job=directory.job_id, attempt=directory.number)
        except RootRefused as error:
            if error.reason == "no-job":
                # Refused before anything was made of it, and nobody asks for it any more.
                self._begun.pop(key, None)
                limit_s = f"{GIVE_UP_S:g}"
                words = f"no supervisor could be started within {limit_s} s"
                return lost(directory, "never-started", words, limit_s=limit_s)
            logger.info("job %s: %s", directory.job_id, error.message)
        except EngineFailed as error:
            logger.warning("job %s: %s", directory.job_id, error.message)
        return None

    def _told(self, directory: JobDir) -> Ending | None:
        """How it ended by root's files; None while it cannot be asked what they do not tell."""
        ending = read_ending(directory) or lost(directory, "no-result", "it left no result")
        ending = as_asked(directory, ending)
        if ending.state != "lost":
            return ending
        # The launcher, which keeps the time, is the user: only its own folder tells what it asked for.
        try:
            is_over_time = self._is_over_time(directory.job_id, directory.number)
        except EngineFailed as error:
            logger.warning("job %s: %s", directory.job_id, error.message)
            return None
        return ending_asked(ending, "timed-out" if is_over_time else None)
