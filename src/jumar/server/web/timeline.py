"""A job's life as a bar: when it waited, started and ran, attempt by attempt, and what recovering cost."""

from dataclasses import dataclass
from itertools import pairwise

from jumar.spec.records import AttemptRecord, JobRecord

WIDTH = 1000.0
_LEAST = 3.0
"""So wide is even the shortest part, to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One part of the bar."""

    state: str
    attempt: int
    start: float
    end: float
    x: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The whole bar."""

    spans: tuple[Span, ...]
    lost_s: float
    """From the first signs of an end to the first steps of the next attempts."""
    lost_more: bool
    """Whether it is not known of each attempt when it made its first step."""


def timeline(job: JobRecord, now: float) -> Timeline | None:
    """None while nothing has started."""
    if not job.attempts:
        return None
    end = job.finished_at or now
    spans = [span for span in _spans(job, end) if span.end > span.start]
    lost = [_lost(*pair) for pair in pairwise(job.attempts)]
    loads = [after.recovery.load_s if after.recovery else None for after in job.attempts[1:]]
    return Timeline(
        spans=tuple(_placed(spans)),
        lost_s=sum(lost) + sum(load_s or 0.0 for load_s in loads),
        lost_more=None in loads,
    )


def _spans(job: JobRecord, end: float) -> list[Span]:
    spans: list[Span] = []
    idle_since = job.created_at
    for one in job.attempts:
        began = one.started_at or one.finished_at or end
        over = one.finished_at or end
        spans.append(_span("queued", one, idle_since, one.created_at))
        spans.append(_span("starting", one, one.created_at, began))
        spans.append(_span(str(one.state), one, began, over))
        idle_since = over
    last = job.attempts[-1]
    if last.finished_at is not None and not job.state.is_final:
        spans.append(_span("queued", last, idle_since, end))
    return spans


def _span(state: str, attempt: AttemptRecord, start: float, end: float) -> Span:
    return Span(state=state, attempt=attempt.number, start=start, end=end)


def _placed(spans: list[Span]) -> list[Span]:
    whole = sum(span.end - span.start for span in spans) or 1.0
    widths = [max(_LEAST, WIDTH * (span.end - span.start) / whole) for span in spans]
    scale, x, placed = WIDTH / (sum(widths) or 1.0), 0.0, list[Span]()
    for span, width in zip(spans, widths, strict=True):
        placed.append(
            Span(
                state=span.state,
                attempt=span.attempt,
                start=span.start,
                end=span.end,
                x=round(x, 2),
                width=round(width * scale, 2),
            )
        )
        x += width * scale
    return placed


def _lost(before: AttemptRecord, after: AttemptRecord) -> float:
    """Up to the start of the next attempt."""
    end = before.ending_at or before.finished_at
    return 0.0 if end is None else max(0.0, (after.started_at or after.created_at) - end)
