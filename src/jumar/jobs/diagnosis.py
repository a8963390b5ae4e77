"""Why a job failed, by its logs and by what the platform saw."""

from collections import OrderedDict
from functools import partial
from os import dup
from threading import Lock

from jumar.engine.files import JobFiles
from jumar.errors import NotFound
from jumar.spec.records import JobFile, JobRecord
from jumar.spec.verdicts import Verdict
from jumar.why.gather import rank_of
from jumar.why.judging import Source, judge

_LOGS = "logs"
_MOST_LOGS = 10_000
_QUICK_BYTES = 16 << 20
_KEPT = 256


class Diagnoses:
    """The verdicts on jobs; those on jobs that have ended are kept for a while."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._kept: OrderedDict[tuple[str, float | None], Verdict] = OrderedDict()
        self._lock = Lock()

    def of(self, job: JobRecord) -> Verdict:
        """The first fault of a job."""
        found = self._known(job)
        return self._judge(job, self._logs(job.id)) if found is None else found

    def quick(self, job: JobRecord) -> Verdict | None:
        """The same where it takes no time: None for logs that take long to read."""
        found = self._known(job)
        if found is not None:
            return found
        logs = self._logs(job.id)
        if sum(entry.size for entry in logs) > _QUICK_BYTES:
            return None
        return self._judge(job, logs)

    def _known(self, job: JobRecord) -> Verdict | None:
        with self._lock:
            return self._kept.get((job.id, job.finished_at)) if job.state.is_final else None

    def _logs(self, job_id: str) -> tuple[JobFile, ...]:
        """All that lies beside the ranks' logs: also what pip, git and CANN wrote there."""
        try:
            page = self._files.entries(job_id, _LOGS, elsewhere={}, after="", limit=_MOST_LOGS)
        except NotFound:
            return ()
        return tuple(entry for entry in page.files if entry.kind == "file")

    def _judge(self, job: JobRecord, logs: tuple[JobFile, ...]) -> Verdict:
        last = job.attempts[-1] if job.attempts else None
        accused = None if last is None else last.values.get("rank")
        sources = [
            Source(
                entry.path,
                partial(self._open, job.id, entry.path),
                rank=rank_of(entry.path),
                is_accused=accused is not None and rank_of(entry.path) == accused,
            )
            for entry in logs
        ]
        verdict = judge(sources, platform=job.cause if last is None else last.cause)
        if job.state.is_final:
            with self._lock:
                self._kept[job.id, job.finished_at] = verdict
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return verdict

    def _open(self, job_id: str, path: str) -> int:
        with self._files.open_file(job_id, path, elsewhere={}) as opened:
            return dup(opened.fileno())
