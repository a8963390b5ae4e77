"""Whether a job that no server looks after is due another attempt: the table of a server's queue
(`jobs/observed.py`), as the batch step applies it. Pure."""

from typing import NamedTuple, Optional, Sequence, Union

from jumar.launch.verdict import FAULTS, whose

_MOST_STALE = 2


class Terms(NamedTuple):
    """What its spec says."""

    segments: Union[int, str] = 1
    retries: int = 0
    fault_retries: int = 3


class Told(NamedTuple):
    """One attempt that has ended."""

    state: str
    segment: int = 1
    cause: Optional[str] = None
    tail: str = ""
    advanced: Optional[bool] = None


def next_segment(terms: Terms, ended: Sequence[Told]) -> Optional[int]:
    """The segment of the next attempt; None where there is none. `ended`: oldest first."""
    last = ended[-1]
    if last.state == "preempted":
        return last.segment
    if last.state == "timed-out":
        return _after_segment(terms, ended)
    if last.state in ("failed", "lost") and _retries_left(terms, ended) > 0:
        return last.segment
    return None


def _after_segment(terms: Terms, ended: Sequence[Told]) -> Optional[int]:
    over = [one for one in ended if one.state == "timed-out"][-_MOST_STALE:]
    if len(over) == _MOST_STALE and all(one.advanced is False for one in over):
        return None
    wanted = ended[-1].segment + 1
    return wanted if terms.segments == "auto" or wanted <= int(terms.segments) else None


def _retries_left(terms: Terms, ended: Sequence[Told]) -> int:
    guilty = [whose(one.state, one.cause, one.tail) for one in ended]
    if guilty[-1] not in FAULTS:
        return terms.retries + 1 - sum(one is not None for one in guilty)
    count = 0
    for one, who in zip(reversed(ended), reversed(guilty)):
        count += who in FAULTS
        if one.advanced:
            break
    return max(terms.fault_retries, terms.retries) + 1 - count
