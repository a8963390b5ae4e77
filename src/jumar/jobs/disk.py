"""How much of the disk each user's things take, and that nobody takes more than they may.

One account of everything: folders of jobs, what a user keeps for all of them, uploaded code, and repositories.
Folders are measured from time to time: those of ended jobs once where nobody writes there any more, else in turns."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import select

from jumar.database.access import Database
from jumar.database.tables import jobs
from jumar.engine.files import JobFiles, Taken
from jumar.errors import JumarError, OverQuota
from jumar.jobs.code_use import CodeUse
from jumar.rounds import Rounds
from jumar.spec.amounts import bytes_text
from jumar.spec.states import FINAL

log = logging.getLogger(__name__)
_EVERY_S = 300.0
_MOST_NAMED = 3
_MOST_AGAIN = 200
"""So many folders of ended jobs are measured again with each look."""
_USER_LIMIT_S = 60.0
"""A look has no more time for one user: who has very many files holds up nobody's measuring but their own."""


@dataclass(frozen=True, slots=True)
class _Measured:
    user: str
    taken: Taken
    is_final: bool


_Key = tuple[str, str]
"""A user, and one of their jobs or what they keep for all."""
_KEPT = ""


class DiskUse:
    """Thread-safe. Without a limit nothing is measured."""

    def __init__(
        self,
        database: Database,
        files: JobFiles,
        code: CodeUse,
        limit_bytes: int = 0,
        repositories: Callable[[str], int] = lambda user: 0,
    ) -> None:
        """`limit_bytes`: of each user, 0 means none. `repositories`: what those of a user take."""
        self._database, self._files, self._code = database, files, code
        self._repositories = repositories
        self.limit_bytes = limit_bytes
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._measured: dict[str, _Measured] = {}
        self._sums: dict[str, int] = {}
        self._kept: dict[str, Taken] = {}
        self._tried: dict[_Key, float] = {}
        """When each was last measured, or could not be; for looks alone."""
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
        self._code.look()
        with self._database.read() as connection:
            columns = jobs.c.id, jobs.c.user, jobs.c.state
            rows = list(connection.execute(select(*columns).where(jobs.c.attempt > 0)))
        newest = {row.user: row.id for row in rows}
        with self._lock:
            for job in self._measured.keys() - {row.id for row in rows}:
                self._let_go(job)
            self._kept = {user: taken for user, taken in self._kept.items() if user in newest}
            measured = dict(self._measured)
        known = {(user, _KEPT) for user in newest} | {(row.user, row.id) for row in rows}
        self._tried = {key: at for key, at in self._tried.items() if key in known}
        again, spent = self._due_again(measured), dict[str, float]()
        due: dict[_Key, Callable[[], None]] = {
            (user, _KEPT): partial(self._measure_kept, user, job) for user, job in newest.items()
        }
        for row in rows:
            before = measured.get(row.id)
            if before is None or not before.is_final or row.id in again:
                is_final = row.state in FINAL
                due[row.user, row.id] = partial(self._measure, row.id, row.user, is_final)
        # What a user's time is not enough for comes first with the next look: nothing is never counted.
        for key in sorted(due, key=self._tried_at):
            self._timed(key, spent, due[key])

    def _tried_at(self, key: _Key) -> float:
        return self._tried.get(key, -math.inf)

    def _due_again(self, measured: Mapping[str, _Measured]) -> set[str]:
        """Of the jobs whose users may have gone on writing, those that were measured longest ago."""
        if self._files.is_sealed:
            return set()
        ended = [job for job, one in measured.items() if one.is_final]
        ended.sort(key=lambda job: self._tried_at((measured[job].user, job)))
        return set(ended[:_MOST_AGAIN])

    def _timed(self, key: _Key, spent: dict[str, float], measure: Callable[[], None]) -> None:
        user, _ = key
        if self._rounds.ending.is_set() or spent.get(user, 0.0) > _USER_LIMIT_S:
            return
        begun = self._tried[key] = time.monotonic()
        try:
            measure()
        except (JumarError, OSError) as error:
            log.info("something of %s is not measured: %s", user, error)
        spent[user] = spent.get(user, 0.0) + time.monotonic() - begun

    def _measure(self, job: str, user: str, is_final: bool) -> None:
        taken = self._files.taken(job)
        with self._lock:
            self._let_go(job)
            self._measured[job] = _Measured(user, taken, is_final)
            self._sums[user] = self._sums.get(user, 0) + taken.bytes

    def _measure_kept(self, user: str, job: str) -> None:
        kept = self._files.kept(job)
        with self._lock:
            self._kept[user] = kept

    def forget(self, job: str) -> None:
        """It was removed."""
        with self._lock:
            self._let_go(job)

    def _let_go(self, job: str) -> None:
        before = self._measured.pop(job, None)
        if before is not None:
            self._sums[before.user] -= before.taken.bytes

    def used(self) -> Mapping[str, int]:
        """What the folders of jobs take, in bytes by user, as of the last look."""
        with self._lock:
            return {user: taken for user, taken in self._sums.items() if taken}

    def of(self, user: str) -> int:
        """All that counts of a user."""
        return self.beside_repositories(user) + self._repositories(user)

    def beside_repositories(self, user: str) -> int:
        """All but the repositories, whose own rows say what they take."""
        with self._lock:
            kept = self._kept.get(user, Taken(0))
            return self._sums.get(user, 0) + kept.bytes + self._code.of(user)

    def check(self, user: str, more: int = 0) -> None:
        """OverQuota where the user has used up what they may have, or `more` bytes would be too much."""
        if not self.limit_bytes:
            return
        used = self.of(user)
        if used >= self.limit_bytes or used + more > self.limit_bytes:
            words = (
                f"jobs, uploaded code and repositories of {user} take {bytes_text(used)}, and one user may have "
                f"{bytes_text(self.limit_bytes)} here"
            )
            if more:
                words += f"; {bytes_text(more)} more do not fit"
            raise OverQuota(words, hint=self._remedy(user))
        unseen = self._unseen(user)
        if unseen:
            raise OverQuota(
                f"{unseen} cannot be counted: it is closed to {user}, or too deep",
                hint="open it (chmod u+rwx) or remove its job (jumar jobs rm JOB), and try again in five minutes",
            )

    def count_code(self, user: str, digest: str, size: int) -> None:
        """Count uploaded code, or OverQuota: two uploads at once do not both fit into the same room."""
        with self._counting:
            if not self._code.counts(digest):
                self.check(user, size)
                self._code.uploaded(user, digest, size)

    def _unseen(self, user: str) -> str:
        with self._lock:
            own = [one.taken for one in self._measured.values() if one.user == user]
            own.append(self._kept.get(user, Taken(0)))
        return next((one.unseen for one in own if one.unseen), "")

    def _remedy(self, user: str) -> str:
        with self._lock:
            own = [
                (one.taken.bytes, job) for job, one in self._measured.items() if one.user == user
            ]
            own.append((self._kept.get(user, Taken(0)).bytes, "caches"))
        largest = sorted(own, reverse=True)[:_MOST_NAMED]
        named = ", ".join(f"{what} ({bytes_text(size)})" for size, what in largest if size)
        if not named:
            return "remove jobs or repositories that are no longer needed (jumar jobs rm JOB)"
        return (
            "remove jobs or repositories that are no longer needed (jumar jobs rm JOB);"
            f" the largest: {named}"
        )
