"""The part of `Client` about the server itself: maintenance."""

from typing import Any

from jumar.client.connection import Call, Connection, decode
from jumar.spec.draining import DrainReport


class UpkeepCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def drain_report(self) -> DrainReport:
        """Whether jobs are started, and how many still run."""
        return decode(DrainReport, self._repeatable("GET"))

    def begin_drain(
        self, *, why: str = "", until: float | None = None, requeue: bool = False
    ) -> DrainReport:
        """Start no more jobs, for admins; `requeue`: running jobs save and go back in line."""
        body = {"why": why, "until": until, "requeue": requeue}
        return decode(DrainReport, self._repeatable("PUT", body))

    def end_drain(self) -> DrainReport:
        """Start jobs again, for admins."""
        return decode(DrainReport, self._repeatable("DELETE"))

    def _repeatable(self, method: str, body: Any = None) -> Any:
        call = Call(method=method, path="/drain", body=body, repeatable=True)
        return self._connection.json(call)
