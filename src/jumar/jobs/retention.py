"""Ended jobs that were kept as long as the site keeps them, removed by the server.

Nobody is surprised: after a time was set or made shorter, a week passes before the first job goes, and until
then it is said of each job when that will be. A clock that is set makes no job old (`jumar.aging`)."""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select

from jumar.aging import clock_of
from jumar.database.access import Database
from jumar.database.tables import jobs
from jumar.errors import Conflict, NotFound
from jumar.jobs.removal import Removals
from jumar.jobs.scheduling.use import DAY_S
from jumar.rounds import Rounds
from jumar.spec.records import Keeping
from jumar.spec.states import FINAL
from jumar.wholefile import write_whole

log = logging.getLogger(__name__)

NOTICE_S = 7.0 * DAY_S
_LOOK_EVERY_S = 3600.0
_PAGE = 200


class Retention:
    """Removes what is old, from time to time."""

    def __init__(self, database: Database, removals: Removals, home: Path, days: int) -> None:
        self._database = database
        self._removals = removals
        self._clock = clock_of(home)
        self.keeping = _remembered(home / "retention.json", days)
        """How long jobs are kept; None means forever."""
        self._rounds = Rounds(
            "retention",
            lambda: self.look(time.time()),
            _LOOK_EVERY_S,
            trouble="old jobs are left to the next look",
            at_once=True,
        )

    def start(self) -> None:
        """Begin; the first look is now."""
        if self.keeping is not None:
            self._rounds.start()

    def close(self) -> None:
        """End, after the job that is being removed."""
        self._rounds.close()

    def look(self, now: float) -> int:
        """Remove what is due; gives how many."""
        if self.keeping is None or now < self.keeping.removes_from:
            return 0
        if not self._clock.is_left_alone(max(NOTICE_S, self.keeping.days * DAY_S)):
            return 0
        removed = 0
        for job_id in self._old(now - self.keeping.days * DAY_S):
            if self._rounds.ending.is_set():
                break
            try:
                self._removals.remove(job_id)
            except (Conflict, NotFound) as error:
                # Others wait for it, or its results are only here: the next look may find it free.
                log.info("job %s is kept for now: %s", job_id, error)
            else:
                removed += 1
        if removed:
            log.info("removed %d jobs that ended %d days ago", removed, self.keeping.days)
        return removed

    def _old(self, limit: float) -> Iterator[str]:
        """Page by page, since some stay."""
        columns = jobs.c.seq, jobs.c.id
        is_final = jobs.c.state.in_([str(state) for state in FINAL])
        # Both: a job may end under a clock that is set back, while no server runs to notice.
        wanted = is_final & (jobs.c.finished_at < limit) & (jobs.c.created_at < limit)
        last = -1
        while True:
            query = select(*columns).where(wanted & (jobs.c.seq > last)).order_by(jobs.c.seq)
            with self._database.read() as connection:
                found = connection.execute(query.limit(_PAGE)).all()
            for row in found:
                last = row.seq
                yield str(row.id)
            if len(found) < _PAGE:
                return


def _remembered(path: Path, days: int) -> Keeping | None:
    """What holds now; a shorter time than before counts from today."""
    if not days:
        path.unlink(missing_ok=True)
        return None
    try:
        before: Any = json.loads(path.read_text("utf-8"))
        known = Keeping(days=int(before["days"]), removes_from=float(before["removes_from"]))
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    begins = time.time() + NOTICE_S
    if known is not None and days >= known.days:
        begins = known.removes_from
    keeping = Keeping(days=days, removes_from=begins)
    if keeping != known:
        values = {"days": keeping.days, "removes_from": keeping.removes_from}
        write_whole(path, json.dumps(values) + "\n", private=True)
    return keeping
