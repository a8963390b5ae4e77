"""What clients of ModelArts leave to be done: logs sent to the store, deleted jobs removed."""

import logging
import time

from jumar.errors import Conflict, JobNotFound, JumarError
from jumar.rounds import Rounds
from jumar.server.edge.site import Site
from jumar.server.modelarts.kept import Kept, KeptJob
from jumar.store.places import open_place

log = logging.getLogger(__name__)

EVERY_S = 5.0
_FORGET_EVERY_S = 600.0
_MOST_LOG_BYTES = 256 << 20


class Chores:
    """One thread; what cannot be done now is tried again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kept = Kept(site.service.database)
        self.rounds = Rounds(
            "modelarts-chores", self.do, EVERY_S, trouble="not done for ModelArts now", end_s=30
        )
        self._forgot_at = 0.0

    def do(self) -> None:
        """All that can be done now."""
        if time.monotonic() - self._forgot_at > _FORGET_EVERY_S:
            self._kept.forget_old(time.time())
            self._forgot_at = time.monotonic()
        for kept in self._kept.to_do():
            if self.rounds.ending.is_set():
                return
            try:
                self._do(kept)
            except JumarError as error:
                # The store may be away; a job may have results that are not sent yet.
                log.info("job %s: %s", kept.job_id, error)

    def _do(self, kept: KeptJob) -> None:
        service = self._site.service
        try:
            job = service.glance(kept.job_id)
            if not job.state.is_final:
                return
            if kept.log_url is not None:
                self._try_to_send(kept.job_id, job.user, kept.log_url)
            if kept.is_deleted:
                service.remove(kept.job_id)
        except (JobNotFound, Conflict):
            return

    def _try_to_send(self, job_id: str, user: str, url: str) -> None:
        try:
            self._send_logs(job_id, user, url)
        except JumarError as error:
            if error.is_passing:
                raise
            # It would never work: a wrong bucket, or no right to write there.
            log.warning("job %s: its logs cannot be sent to %s: %s", job_id, url, error)
        self._kept.logs_sent(job_id)

    def _send_logs(self, job_id: str, user: str, url: str) -> None:
        """Each rank's log, named as ModelArts names them."""
        service = self._site.service
        config = self._site.stores.job_config(user)
        place = open_place(url if url.endswith("/") else f"{url}/", config)
        place.store.make_ready()
        for file in service.log_files(job_id):
            with service.open_log(job_id, file.node, file.rank) as source:
                source.seek(max(0, file.size - _MOST_LOG_BYTES))
                text = source.read(_MOST_LOG_BYTES)
            rank = "" if file.rank == file.node else f"-rank-{file.rank}"
            name = f"modelarts-job-{job_id}-worker-{file.node}{rank}.log"
            place.store.write(f"{place.prefix}{name}", text or b"")
