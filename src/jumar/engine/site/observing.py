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

logger = logging.getLogger(__name__)


class RootObserver(Observer):
    """Has root's program end what a dead keeper has left."""

    def __init__(self, roots: Roots, root: Root, start: Callable[[Attempt], None]) -> None:
        super().__init__(roots, lambda _: None)
        self._root = root
        self._again = start
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
            return read_ending(directory) or lost(directory, "no-result", "it left no result")
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
