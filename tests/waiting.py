"""Wait for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from jumar.jobs.service import JobService
    from jumar.spec.records import JobRecord

T = TypeVar("T")
PATIENCE_S = 180.0


def wait_for(condition: Callable[[], T], what: str = "", limit_s: float = PATIENCE_S) -> T:
    """What the condition gives once that is something."""
    give_up_at = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"not within {limit_s} s: {what}"
        time.sleep(0.01)
    return found


def wait_for_job(
    service: "JobService",
    job: str,
    is_so: "Callable[[JobRecord], bool]",
    limit_s: float = PATIENCE_S,
) -> "JobRecord":
    """The job once it is so."""
    give_up_at = time.monotonic() + limit_s
    while not is_so(record := service.get(job)):
        assert time.monotonic() < give_up_at, record
        time.sleep(0.01)
    return record
