"""Behind the head, larger jobs go first: a small one does not break up a hole that a larger one fills."""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Protocol

from jumar.jobs.scheduling.records import QueuedJob, Shape


class Holes(Protocol):
    """What is free, as a pass has it at the moment."""

    def hole_for(self, job: QueuedJob) -> int:
        """How many cards are free where the job would go; 0 if it stands back for nobody."""
        ...

    def is_kept_from(self, shape: Shape) -> bool:
        """Whether no larger job of this shape is to be expected."""
        ...


class LargerFirst:
    """The line of one pass: behind the head, larger jobs first. A small one would leave of a large hole a part
    that only other small ones fill.

    The order of turns is kept up to the head and for the head, which is all that the promises of `schedule` and
    above speak of. Behind it jobs start where they are in nobody's way, and whoever does not has lost nothing but
    that chance. Nothing stays free for it: who has stood back, in order, is asked again when no larger one takes
    the hole."""

    def __init__(self, holes: Holes, line: Iterable[QueuedJob]) -> None:
        self._holes = holes
        self._line = iter(line)
        self._back = deque[QueuedJob]()
        self._hole_of: dict[Shape, int] = {}
        """As the first of its shape found it since the last start."""

    def next(self, fitting: Collection[Shape]) -> QueuedJob | None:
        """Whose turn it is, if any is left. `fitting`: shapes of those who wait that would find their cards free."""
        if self._back and not self._stands_back(self._back[0], fitting):
            return self._back.popleft()
        for job in self._line:
            if not self._stands_back(job, fitting):
                return job
            self._back.append(job)
        return self._back.popleft() if self._back else None

    def changed(self) -> None:
        """A job has taken its cards."""
        self._hole_of.clear()

    def _stands_back(self, job: QueuedJob, fitting: Collection[Shape]) -> bool:
        larger = [
            shape
            for shape in fitting
            if shape[0] == job.kind and shape[1] > job.count and not self._holes.is_kept_from(shape)
        ]
        if not larger:
            return False
        hole = self._hole_of.get(job.shape) or self._holes.hole_for(job)
        if hole:
            self._hole_of[job.shape] = hole
        return any(count <= hole for _, count, _ in larger)
