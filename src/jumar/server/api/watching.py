"""Looks at the running trainings, whether or not somebody has their page open: what is wrong is told once."""

import logging
import time
from dataclasses import replace

from jumar.errors import JumarError
from jumar.rounds import Rounds
from jumar.server.api.alerts import keep_alerts, kept_alerts, of_series, of_usage
from jumar.server.api.metrics import read_files
from jumar.server.edge.site import Site
from jumar.spec.metrics import Alert
from jumar.spec.records import JobSummary
from jumar.spec.states import JobState

log = logging.getLogger(__name__)
PERIOD_S = 5.0
_BUDGET_BYTES = 2 << 20
_MOST_JOBS = 500


class Watch:
    """Round by round."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.rounds = Rounds(
            "watching", self.look, PERIOD_S, trouble="trainings were not looked at"
        )

    def look(self) -> None:
        """At every running job."""
        for job in self._site.service.page(states=(JobState.RUNNING,), limit=_MOST_JOBS).jobs:
            if self.rounds.ending.is_set():
                return
            try:
                self._look_at(job)
            except (OSError, JumarError) as error:
                log.debug("%s was not looked at: %s", job.id, error)

    def _look_at(self, job: JobSummary) -> None:
        sampler = self._site.service.sampler
        told = read_files(self._site, job.id, _BUDGET_BYTES)
        found = [*of_series(told.series), *of_usage(sampler.of(job.id))]
        path = sampler.alerts_path(job.id)
        known = kept_alerts(path) if found else ()
        before = {(one.kind, one.name) for one in known}
        fresh: dict[tuple[str, str], Alert] = {}
        for one in found:
            if (one.kind, one.name) not in before:
                fresh.setdefault((one.kind, one.name), replace(one, since=time.time()))
        if fresh:
            # First written down: who is told twice stops listening.
            keep_alerts(path, [*known, *fresh.values()])
        for one in fresh.values():
            self._site.notices.alert(job, one)
