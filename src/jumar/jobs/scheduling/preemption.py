"""Which running jobs give way to one that cannot otherwise start: a pure function."""

from collections import Counter
from collections.abc import Iterable, Mapping

from jumar.jobs.scheduling.records import QueuedJob, RunningJob


def victims(
    head: QueuedJob, free: Mapping[str, int], running: Iterable[RunningJob], now: float
) -> tuple[str, ...]:
    """The jobs to ask so that `head` fits once they are gone; none if none is needed or none suffice.

    `free`: free cards of the head's kind, by node. The cards of jobs that leave already count as free."""
    have = Counter(free)
    able: list[RunningJob] = []
    for job in running:
        if job.kind == head.kind and job.leaves:
            have.update(card.node for card in job.cards)
        elif job.kind == head.kind and job.preemptible and not job.is_spared:
            able.append(job)
    if head.preemptible or _fits(head, have):
        return ()
    chosen: list[RunningJob] = []
    for job in sorted(able, key=lambda job: (-len(job.cards), job.lost_card_s(now))):
        if not _fits(head, have):
            chosen.append(job)
            have.update(card.node for card in job.cards)
    if not _fits(head, have):
        return ()
    for job in reversed(list(chosen)):
        without = have - Counter(card.node for card in job.cards)
        if _fits(head, without):
            chosen.remove(job)
            have = without
    return tuple(sorted(job.job_id for job in chosen))


def _fits(head: QueuedJob, have: Mapping[str, int]) -> bool:
    return sum(count >= head.count for count in have.values()) >= head.nodes
