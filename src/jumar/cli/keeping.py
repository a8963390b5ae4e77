"""When the server removes jobs that have ended."""

from collections.abc import Sequence

from jumar.client import Client
from jumar.spec.records import JobSummary


def leaves_at(client: Client, found: Sequence[JobSummary]) -> float | None:
    """When the first of these goes; None while none does."""
    ended = [job.finished_at for job in found if job.state.is_final and job.finished_at is not None]
    keeping = client.server().keeping if ended else None
    return None if keeping is None else min(map(keeping.until, ended))
