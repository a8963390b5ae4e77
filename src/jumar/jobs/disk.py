"""How much of the disk each user's jobs take, and that nobody takes more than they may.

Folders are measured from time to time: those of ended jobs once, since nobody writes there any more."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from jumar.database.access import Database
from jumar.database.tables import jobs
from jumar.engine.files import JobFiles
from jumar.errors import JumarError, OverQuota
from jumar.rounds import Rounds
from jumar.spec.amounts import bytes_text
from jumar.spec.states import FINAL

log = logging.getLogger(__name__)
_EVERY_S = 300.0
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Measured:
    user: str
    bytes: int
    is_final: bool


class DiskUse:
    """Thread-safe. Without a limit nothing is measured."""

    def __init__(
        self,
        database: Database,
        files: JobFiles,
        limit_bytes: int = 0,
        others: Callable[[str], int] = lambda user: 0,
    ) -> None:
        """`limit_bytes`: of each user, 0 means none. `others`: what else of a user counts."""
        self._database, self._files, self._others = database, files, others
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._measured: dict[str, _Measured] = {}
        self._rounds = Rounds(
            "disk-use",
            self.look,
            _EVERY_S,
            trouble="folders of jobs are measured with the next look",
            at_once=True,
            end_s=20.0,
        )

    def start(self) -> None:
        """Begin; the first look is now."""
        if self.limit_bytes:
            self._rounds.start()

    def close(self) -> None:
        """End."""
        self._rounds.close()

    def look(self) -> None:
        """Measure what may have changed."""
        with self._database.read() as connection:
            columns = jobs.c.id, jobs.c.user, jobs.c.state
            rows = list(connection.execute(select(*columns).where(jobs.c.attempt > 0)))
        known = {row.id for row in rows}
        with self._lock:
            self._measured = {job: one for job, one in self._measured.items() if job in known}
        for row in rows:
            if self._rounds.ending.is_set():
                return
            self._measure(row.id, row.user, is_final=row.state in FINAL)

    def _measure(self, job: str, user: str, *, is_final: bool) -> None:
        before = self._measured.get(job)
        if before is not None and before.is_final:
            return
        try:
            taken = self._files.taken(job)
        except (JumarError, OSError) as error:
            log.info("job %s is not measured: %s", job, error)
            return
        with self._lock:
            self._measured[job] = _Measured(user, taken, is_final)

    def forget(self, job: str) -> None:
        """It was removed."""
        with self._lock:
            self._measured.pop(job, None)

    def used(self) -> Mapping[str, int]:
        """Bytes by user, as of the last look; of those who have jobs."""
        with self._lock:
            measured = list(self._measured.values())
        sums: dict[str, int] = {}
        for one in measured:
            sums[one.user] = sums.get(one.user, 0) + one.bytes
        return sums

    def of(self, user: str) -> int:
        """All that counts of a user."""
        return self.used().get(user, 0) + self._others(user)

    def check(self, user: str) -> None:
        """OverQuota where the user has used up what they may have."""
        if not self.limit_bytes:
            return
        used = self.of(user)
        if used < self.limit_bytes:
            return
        raise OverQuota(
            f"files of {user}'s jobs and repositories take {bytes_text(used)}, and one user may have "
            f"{bytes_text(self.limit_bytes)} here",
            hint=self._remedy(user),
        )

    def _remedy(self, user: str) -> str:
        with self._lock:
            own = [(one.bytes, job) for job, one in self._measured.items() if one.user == user]
        largest = sorted(own, reverse=True)[:_MOST_NAMED]
        named = ", ".join(f"{job} ({bytes_text(size)})" for size, job in largest if size)
        if not named:
            return "remove jobs or repositories that are no longer needed (jumar jobs rm JOB)"
        return (
            "remove jobs or repositories that are no longer needed (jumar jobs rm JOB);"
            f" the largest jobs: {named}"
        )
