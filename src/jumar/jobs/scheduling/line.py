"""The line of waiting jobs: by priority, then first come. In memory; knows nothing of cards."""

from bisect import bisect_left
from collections.abc import Iterator

from jumar.jobs.scheduling.records import QueuedJob

_Place = tuple[int, int, str]


def place_of(job: QueuedJob) -> _Place:
    """Sorts jobs into the order of the line."""
    return (-job.priority, job.order, job.job_id)


class Line:
    """Jobs in the order in which they are to start.

    Adding and removing move at most one pointer a waiting job; finding a place is a bisection."""

    def __init__(self) -> None:
        # Two lists side by side: bisection compares the places, iteration gives the jobs.
        self._places: list[_Place] = []
        self._jobs: list[QueuedJob] = []
        self._by_id: dict[str, QueuedJob] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._by_id

    def __iter__(self) -> Iterator[QueuedJob]:
        """The jobs as they stand now; the line may change meanwhile."""
        return iter(tuple(self._jobs))

    def get(self, job_id: str) -> QueuedJob | None:
        """The job, if it waits here."""
        return self._by_id.get(job_id)

    def add(self, job: QueuedJob) -> None:
        """Put a job in its place; one that waits already is moved there."""
        self.discard(job.job_id)
        place = place_of(job)
        index = bisect_left(self._places, place)
        self._places.insert(index, place)
        self._jobs.insert(index, job)
        self._by_id[job.job_id] = job

    def remove(self, job_id: str) -> QueuedJob:
        """Take a job out; KeyError if it is not there."""
        job = self._by_id.pop(job_id)
        index = bisect_left(self._places, place_of(job))
        del self._places[index], self._jobs[index]
        return job

    def discard(self, job_id: str) -> None:
        """Take a job out if it is there."""
        if job_id in self._by_id:
            self.remove(job_id)

    def position(self, job_id: str) -> int:
        """1 for the first in line; KeyError if it is not there."""
        return bisect_left(self._places, place_of(self._by_id[job_id])) + 1
