"""The part of `Client` about the server itself: maintenance, backup and repair, and where it tells people of their jobs."""

from collections.abc import Sequence
from pathlib import Path

from jumar.client.connection import Call, Connection, decode, part
from jumar.errors import BadInput
from jumar.spec.draining import DrainReport
from jumar.spec.repairs import RepairReport, RestoreReport
from jumar.spec.webhooks import EVENTS, WebhookRecord

_RECOVERY_LIMIT_S = 1800.0


class UpkeepCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def drain_report(self) -> DrainReport:
        """Whether jobs are started, and how many still run."""
        return decode(DrainReport, self._call("GET", "/drain", repeatable=True))

    def begin_drain(
        self, *, why: str = "", until: float | None = None, requeue: bool = False
    ) -> DrainReport:
        """Start no more jobs, for admins; `requeue`: running jobs save and go back in line."""
        body = {"why": why, "until": until, "requeue": requeue}
        return decode(DrainReport, self._call("PUT", "/drain", body, repeatable=True))

    def end_drain(self) -> DrainReport:
        """Start jobs again, for admins."""
        return decode(DrainReport, self._call("DELETE", "/drain", repeatable=True))

    def backup(self, path: Path, *, replace: bool = False) -> int:
        """Write all that the server's database has into a file; its size.

        The file is there whole or not at all; Conflict if there is one and not `replace`."""
        from jumar.client.download import download

        call = Call(method="GET", path="/backup", repeatable=True, answer_limit_s=_RECOVERY_LIMIT_S)
        with self._connection.stream(call) as response:
            return download(response, path, replace=replace)

    def restore(self, path: Path) -> RestoreReport:
        """Go back to a backup. Jobs that have begun since are found by their folders."""
        try:
            with path.open("rb") as file:
                call = Call(
                    method="PUT",
                    path="/restore",
                    upload=file,
                    upload_size=path.stat().st_size,
                    answer_limit_s=_RECOVERY_LIMIT_S,
                )
                return decode(RestoreReport, self._connection.json(call))
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from error

    def repair(self, *, dry: bool = False) -> RepairReport:
        """Put a lost database back and into its list what only the job folders know; `dry`: say
        what would be done."""
        call = Call(
            method="GET" if dry else "POST",
            path="/repair",
            repeatable=True,
            answer_limit_s=_RECOVERY_LIMIT_S,
        )
        return decode(RepairReport, self._connection.json(call))

    def webhooks(self) -> tuple[WebhookRecord, ...]:
        """Where this user is told of their jobs; never the addresses themselves."""
        return decode(tuple[WebhookRecord, ...], self._call("GET", "/webhooks", repeatable=True))

    def add_webhook(
        self,
        kind: str,
        url: str,
        *,
        secret: str = "",
        events: Sequence[str] = EVENTS,
        language: str = "",
    ) -> WebhookRecord:
        """Tell this user there, in a chat of this kind."""
        body = {"kind": kind, "url": url, "secret": secret, "events": list(events)}
        answer = self._call("POST", "/webhooks", {**body, "language": language})
        return decode(WebhookRecord, answer)

    def remove_webhook(self, webhook: str) -> None:
        """Tell this user there no more."""
        self._call("DELETE", f"/webhooks/{part(webhook)}")

    def try_webhook(self, webhook: str) -> None:
        """Send a message there now; an error says why it did not arrive."""
        self._call("POST", f"/webhooks/{part(webhook)}/test")

    def _call(
        self, method: str, path: str, body: object = None, *, repeatable: bool = False
    ) -> object:
        return self._connection.json(
            Call(method=method, path=path, body=body, repeatable=repeatable)
        )
