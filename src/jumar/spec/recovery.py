"""What it cost to go on after an attempt: seconds, by what they were spent on."""

from dataclasses import dataclass

from jumar.spec.records import AttemptRecord


@dataclass(frozen=True, slots=True)
class Recovery:
    """From the first sign of an end to the next attempt; None: nobody knows."""

    stop_s: float | None
    """Until all processes of the attempt before were gone."""
    detect_s: float | None
    """Until the server knew of that."""
    wait_s: float | None
    """In the line, until there were cards."""
    start_s: float | None
    """Until the new attempt ran."""


def recovery(before: AttemptRecord, after: AttemptRecord) -> Recovery:
    """Of two attempts in a row."""
    return Recovery(
        stop_s=_between(before.ending_at, before.finished_at),
        detect_s=_between(before.finished_at, before.noticed_at),
        wait_s=_between(before.noticed_at, after.created_at),
        start_s=_between(after.created_at, after.started_at),
    )


def _between(since: float | None, until: float | None) -> float | None:
    # Clocks of machines differ a little.
    return None if since is None or until is None else max(0.0, until - since)
