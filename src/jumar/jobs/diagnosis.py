"""Why a job failed, by its logs and by what the platform saw."""

from collections.abc import Mapping
from functools import partial
from os import dup
from threading import BoundedSemaphore, Lock
from types import MappingProxyType

from jumar.engine.files import JobFiles, OffersFiles
from jumar.errors import JumarError, NotFound, Unavailable
from jumar.jobs.engines import Engines
from jumar.jobs.known_ends import believes_logs, platform_cause, with_known_end
from jumar.latest import Latest
from jumar.spec.records import JobFile, JobRecord
from jumar.spec.verdicts import Verdict
from jumar.why.apart import JobCode, judge_apart
from jumar.why.gather import rank_of
from jumar.why.script.code import is_read
from jumar.why.signs import Source

_LOGS, _CODE = "logs", "code"
_MOST_LOGS, _MOST_CODE = 10_000, 5_000
_LONGEST_PATH = 500
"""Of what is told of the code: thousands of paths as long as a job can make them would fill the memory."""
# What stands behind all names that begin with a dot: a history has more files than what is looked for.
_HIDDEN = ".\U0010ffff"
_NOWHERE_ELSE: Mapping[str, str] = MappingProxyType({})
_QUICK_BYTES = 16 << 20
_KEPT = 256
_AT_ONCE = 4
_PATIENCE_S = 60.0


def _words(command: str | list[str]) -> list[str]:
    return command.split() if isinstance(command, str) else command


class Diagnoses:
    """The verdicts on jobs; those on jobs that have ended are kept for a while."""

    def __init__(self, files: JobFiles, engines: Engines) -> None:
        self._files, self._engines = files, engines
        self._kept: Latest[tuple[str, float | None, bool], Verdict] = Latest(_KEPT)
        self._lock = Lock()
        self._places = BoundedSemaphore(_AT_ONCE)

    def of(self, job: JobRecord, *, with_code: bool) -> Verdict:
        """The first fault of a job; `with_code` for those alone who may see its files."""
        found = self._known(job, with_code=with_code)
        if found is not None:
            return found
        logs = self._logs(job.id)
        return self._judge(job, logs, with_code=with_code, patience_s=_PATIENCE_S)

    def quick(self, job: JobRecord, *, with_code: bool) -> Verdict | None:
        """The same where it takes no time: None for logs that take long to read, and while none can be."""
        found = self._known(job, with_code=with_code)
        if found is not None:
            return found
        logs = self._logs(job.id)
        if sum(entry.size for entry in logs) > _QUICK_BYTES:
            return None
        try:
            return self._judge(job, logs, with_code=with_code, patience_s=0)
        except Unavailable:
            return None

    def _known(self, job: JobRecord, *, with_code: bool) -> Verdict | None:
        if not job.state.is_final:
            return None
        with self._lock:
            return self._kept.get((job.id, job.finished_at, with_code))

    def _logs(self, job_id: str) -> tuple[JobFile, ...]:
        """All that lies beside the ranks' logs: also what pip, git and CANN wrote there."""
        try:
            page = self._files.entries(job_id, _LOGS, elsewhere={}, after="", limit=_MOST_LOGS)
        except NotFound:
            return ()
        return tuple(entry for entry in page.files if entry.kind == "file")

    def _judge(
        self, job: JobRecord, logs: tuple[JobFile, ...], *, with_code: bool, patience_s: float
    ) -> Verdict:
        last = job.attempts[-1] if job.attempts else None
        accused = None if last is None else last.values.get("rank")
        sources = [
            Source(
                entry.path,
                partial(_opened, self._files, job.id, entry.path, _NOWHERE_ELSE),
                rank=rank_of(entry.path),
                is_accused=accused is not None and rank_of(entry.path) == accused,
            )
            for entry in logs
        ]
        if not self._places.acquire(timeout=patience_s):
            raise Unavailable("too many logs are being read now", hint="try again later")
        try:
            platform = platform_cause(job) if believes_logs(job) else None
            code = self._code(job) if with_code else None
            verdict = with_known_end(job, judge_apart(sources, platform=platform, code=code))
        except OSError as error:
            # No room for its files, or for one more process: nothing that is so of the job.
            why = error.strerror or str(error)
            raise Unavailable(
                f"the logs cannot be read now: {why}", hint="try again later"
            ) from error
        finally:
            self._places.release()
        if job.state.is_final:
            with self._lock:
                self._kept.keep((job.id, job.finished_at, with_code), verdict)
        return verdict

    def _code(self, job: JobRecord) -> JobCode | None:
        """The copy that the job ran, or the folder that it ran in."""
        workdir = job.spec.get("workdir")
        if workdir is not None and job.spec.get("image") is not None:
            # What a container may have put there is for its own eyes.
            return None
        # A folder that is not copied is looked at in the place of the job's own.
        inside, elsewhere = (_CODE, {}) if workdir is None else ("", {"": str(workdir)})
        try:
            files = self._files if workdir is None else self._files_where_it_ran(job)
            page = files.entries(
                *(job.id, inside),
                elsewhere=elsewhere,
                after=f"{inside}/{_HIDDEN}",
                limit=_MOST_CODE,
            )
        except (JumarError, OSError):
            # Its logs tell something without it.
            return None
        paths = (entry.path for entry in page.files if entry.kind == "file")
        read = [path for path in paths if is_read(path) and len(path) <= _LONGEST_PATH]
        return JobCode(
            [path.removeprefix(f"{_CODE}/") if inside else path for path in read],
            str(workdir or f"{job.directory}/{_CODE}"),
            _words(job.spec["command"]),
            lambda path: _opened(files, job.id, f"{inside}/{path}", elsewhere),
        )

    def _files_where_it_ran(self, job: JobRecord) -> JobFiles:
        """Its own engine knows what else than its folder the job was given."""
        engine = self._engines.of(job.engine)
        return engine.files if isinstance(engine, OffersFiles) else self._files


def _opened(files: JobFiles, job_id: str, path: str, elsewhere: Mapping[str, str]) -> int:
    with files.open_file(job_id, path, elsewhere=elsewhere) as opened:
        return dup(opened.fileno())
