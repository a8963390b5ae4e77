"""The part of `Client` about the server itself: maintenance, and where it tells people of their jobs."""

from collections.abc import Sequence

from jumar.client.connection import Call, Connection, decode, part
from jumar.spec.draining import DrainReport
from jumar.spec.webhooks import EVENTS, WebhookRecord


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
