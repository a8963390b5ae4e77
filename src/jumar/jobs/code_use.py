"""Whose code the uploaded archives are, and that none stays for ever that no job needs.

An archive counts for everybody who has a job or a template with it; one that no job has yet, for who uploaded it."""

import re
import threading
import time

from sqlalchemy import select

from jumar.aging import Clock
from jumar.database.access import Database
from jumar.database.tables import job_templates, jobs
from jumar.jobs.archives import CodeArchives
from jumar.rounds import Rounds

_NAMED = re.compile(r'"archive": ?"([0-9a-f]{64})"')
_EVERY_S = 6 * 3600.0
_KEEP_S = 24 * 3600.0
"""Between an upload, or a question whether one is there, and the job that needs it."""
_BATCH = 500


class CodeUse:
    """Thread-safe."""

    def __init__(self, database: Database, archives: CodeArchives, clock: Clock) -> None:
        self._database, self._archives, self._clock = database, archives, clock
        self._lock = threading.Lock()
        self._named: dict[str, str | None] = {}
        """What each job has, as far as it was looked at: that never changes."""
        self._sums: dict[str, int] = {}
        self._counted: frozenset[str] = frozenset()
        """The archives that are in the sums, of whomever."""
        self._new: dict[str, tuple[str, int]] = {}
        """Those that came since: the user and the size of each."""
        self._rounds = Rounds(
            "code", self.collect, _EVERY_S, trouble="unused code stays until the next round"
        )

    def start(self) -> None:
        """Begin to remove what nobody needs."""
        self._rounds.start()

    def close(self) -> None:
        """End."""
        self._rounds.close()

    def of(self, user: str) -> int:
        """Bytes, as of the last look, and what came since."""
        with self._lock:
            new = sum(size for owner, size in self._new.values() if owner == user)
            return self._sums.get(user, 0) + new

    def counts(self, digest: str) -> bool:
        """Whether it was there before, and counts for somebody: it takes no more room."""
        with self._lock:
            return digest in self._counted or digest in self._new

    def uploaded(self, user: str, digest: str, size: int) -> None:
        """Something came, and counts at once."""
        with self._lock:
            self._new[digest] = (user, size)

    def failed(self, digest: str) -> None:
        """It was not kept."""
        with self._lock:
            self._new.pop(digest, None)

    def look(self) -> None:
        """Add up again."""
        users: dict[str, set[str]] = {}
        for digest, user in self._used():
            users.setdefault(digest, set()).add(user)
        sums: dict[str, int] = {}
        found = self._archives.all()
        for archive in found:
            for user in users.get(archive.digest) or {archive.uploader} - {""}:
                sums[user] = sums.get(user, 0) + archive.size
        with self._lock:
            self._sums, self._counted = sums, frozenset(archive.digest for archive in found)
            # What came during this look may be in neither.
            self._new = {one: new for one, new in self._new.items() if one not in self._counted}

    def collect(self) -> None:
        """Remove archives that no job has and that nobody has asked for lately."""
        if not self._clock.is_left_alone(_KEEP_S):
            return
        before = time.time() - _KEEP_S
        old = [one for one in self._archives.all() if one.uploader and one.used_at < before]
        needed = {digest for digest, _ in self._used()} if old else set[str]()
        for archive in old:
            if archive.digest not in needed:
                self._archives.remove(archive.digest, before)

    def _used(self) -> list[tuple[str, str]]:
        """The archive and the user of each job, and of each template, that has one."""
        with self._database.read() as connection:
            kept = list(connection.execute(select(job_templates.c.user, job_templates.c.spec)))
            rows = list(connection.execute(select(jobs.c.id, jobs.c.user)))
            known = {row.id for row in rows}
            named = {job: digest for job, digest in self._named.items() if job in known}
            new = [row.id for row in rows if row.id not in named]
            for start in range(0, len(new), _BATCH):
                some = jobs.c.id.in_(new[start : start + _BATCH])
                query = select(jobs.c.id, jobs.c.spec).where(some)
                for row in connection.execute(query):
                    named[row.id] = _archive_in(row.spec)
        self._named = named
        pairs = [(named.get(row.id), row.user) for row in rows]
        pairs += [(_archive_in(row.spec), row.user) for row in kept]
        return [(digest, user) for digest, user in pairs if digest is not None]


def _archive_in(spec: str) -> str | None:
    # Not parsed: there may be a hundred thousand. Quotes inside of its texts are escaped.
    found = _NAMED.search(spec)
    return None if found is None else found[1]
