"""A workload: who came when, wanting what, for how long. Pure data, and a generated week of a lab."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from jumar.errors import BadInput

DAY_S = 86_400.0
HOUR_S = 3600.0
_ASKED = (1.1, 1.5, 2.0, 3.0, 5.0)
"""How many times longer than it runs a job asks for, where the trace does not say."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    job_id: str
    user: str
    submitted: float
    cards: int
    """Over all nodes."""
    runs_s: float
    limit_s: float | None = None
    """The time limit that it was given; None: the trace does not say."""
    nodes: int | None = None
    """None: as few as its cards need."""
    preemptible: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs by time, and what had to be assumed or left out."""

    jobs: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()


def settled(
    jobs: Iterable[TraceJob], *, cards_per_node: int, total_cards: int, seed: int
) -> Workload:
    """The jobs by time, each with a time limit and nodes, without those that can never run."""
    chance = random.Random(seed)
    notes: list[str] = []
    fitting: list[TraceJob] = []
    too_large = guessed = 0
    for job in sorted(jobs, key=lambda job: (job.submitted, job.job_id)):
        nodes = job.nodes or math.ceil(job.cards / cards_per_node)
        # Cards are handed out evenly over nodes, as training wants them.
        per_node = math.ceil(job.cards / nodes)
        if per_node > cards_per_node or nodes * cards_per_node > total_cards:
            too_large += 1
            continue
        limit_s = job.limit_s
        if limit_s is None:
            guessed += 1
            limit_s = job.runs_s * chance.choice(_ASKED)
        runs_s = min(job.runs_s, limit_s)
        fitting.append(
            replace(job, nodes=nodes, cards=per_node * nodes, limit_s=limit_s, runs_s=runs_s)
        )
    if not fitting:
        raise BadInput(
            "the workload has no job that fits the cards",
            hint="more --cards, or a larger --cards-per-node",
        )
    if too_large:
        notes.append(
            "1 job needs more cards than there are and is left out"
            if too_large == 1
            else f"{too_large} jobs need more cards than there are and are left out"
        )
    if guessed:
        notes.append(
            f"1 job has no time limit in the trace; it is given 1.1 to 5 times what it ran (seed {seed})"
            if guessed == 1
            else f"{guessed} jobs have no time limit in the trace; they are given 1.1 to 5 times "
            f"what they ran (seed {seed})"
        )
    return Workload(tuple(fitting), tuple(notes))


def with_preemptible(jobs: Iterable[TraceJob], part: float, seed: int) -> list[TraceJob]:
    """Some of the jobs, chosen by chance, give way to others."""
    chance = random.Random(seed)
    return [replace(job, preemptible=job.preemptible or chance.random() < part) for job in jobs]


def lab_week(count: int, cards: int, *, load: float, seed: int) -> list[TraceJob]:
    """A week of a lab: a few people with most of the jobs, quiet nights, many short runs and a few
    very long ones. `load`: what the jobs want, as a part of what the cards could give."""
    chance = random.Random(seed)
    users = [f"user{n:02}" for n in range(max(4, min(80, count // 50)))]
    weights = [1.0 / (n + 1) for n in range(len(users))]
    sizes, size_weights = (1, 2, 4, 8, 16, 32, 64), (50, 16, 14, 14, 3, 2, 1)
    able = [
        (size, weight) for size, weight in zip(sizes, size_weights, strict=True) if size <= cards
    ]
    drawn = [
        TraceJob(
            job_id=f"j{number:06}",
            user=chance.choices(users, weights)[0],
            submitted=_working_time(chance),
            cards=chance.choices([size for size, _ in able], [weight for _, weight in able])[0],
            runs_s=min(4 * DAY_S, max(20.0, chance.lognormvariate(math.log(1200.0), 1.6))),
        )
        for number in range(count)
    ]
    wanted = sum(job.cards * job.runs_s for job in drawn)
    factor = load * cards * 7 * DAY_S / wanted
    return [replace(job, runs_s=max(1.0, job.runs_s * factor)) for job in drawn]


def _working_time(chance: random.Random) -> float:
    """Three of four jobs come between 9 and 21 o'clock; half as many at weekends."""
    day = chance.choices(range(7), (2, 2, 2, 2, 2, 1, 1))[0]
    hour = chance.uniform(9, 21) if chance.random() < 0.75 else chance.uniform(0, 24)
    return day * DAY_S + hour * HOUR_S
