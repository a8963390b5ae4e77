"""The part of `Client` about what trainings tell of themselves."""

from collections.abc import Sequence
from typing import TypeVar

from jumar.client.connection import Call, Connection, decode, job_call
from jumar.spec.metrics import Evaluation, JobMetrics
from jumar.spec.records import JobRecord

Read = TypeVar("Read", JobMetrics, Evaluation)
_MOST_ASKED = 1000


class MeasuringCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def metrics(self, job: str) -> JobMetrics:
        """The curves of a job, of its logs and of what it tracks itself."""
        call = job_call("GET", job, "/metrics", repeatable=True)
        return self._read(JobMetrics, call)

    def evaluation(self, jobs: Sequence[str] = (), *, project: str = "") -> Evaluation:
        """Best and last values of jobs, or of the latest ones of a project."""
        query = {"job": list(jobs), "project": project or None}
        call = Call(method="GET", path="/evaluation", query=query, repeatable=True)
        return self._read(Evaluation, call)

    def evaluate(
        self, job: str, command: Sequence[str], *, path: str = "", device: str = ""
    ) -> JobRecord:
        """Run a command on what a job has made, as a job of its own."""
        body = {"command": list(command), "path": path, "device": device}
        return decode(
            JobRecord, self._connection.json(job_call("POST", job, "/evaluate", body=body))
        )

    def _read(self, kind: type[Read], call: Call) -> Read:
        """Long logs are read over several questions; one that grows faster than that is left at some point."""
        found = decode(kind, self._connection.json(call))
        for _ in range(_MOST_ASKED):
            if found.is_complete:
                break
            found = decode(kind, self._connection.json(call))
        return found
