"""The plan of a self-test: how many jobs of which kinds, and which faults, from a seed.

Pure: the same size and seed give the same plan."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jumar.spec.states import AttemptState


class Kind(StrEnum):
    """What a job does."""

    QUICK = "quick"
    LINES = "lines"
    FAILS = "fails"
    FLAKY = "flaky"
    STOPPED = "stopped"
    CHILDREN = "children"
    TIMED = "timed"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How jobs of one kind are submitted, and how one ends if no fault hits it."""

    weight: int
    lines: int
    pause_ms: int = 0
    retries: int = 0
    request: tuple[tuple[str, object], ...] = ()
    ranks: int = 1
    ends: AttemptState = AttemptState.SUCCEEDED
    first_attempt_fails: bool = False


# With retries, some jobs survive a killed supervisor.
BEHAVIOURS: dict[Kind, Behaviour] = {
    Kind.QUICK: Behaviour(weight=6, lines=5, retries=1),
    Kind.LINES: Behaviour(weight=4, lines=60, pause_ms=50),
    Kind.FAILS: Behaviour(weight=2, lines=3, ends=AttemptState.FAILED),
    Kind.FLAKY: Behaviour(weight=2, lines=8, pause_ms=20, retries=2, first_attempt_fails=True),
    Kind.STOPPED: Behaviour(weight=2, lines=2, ends=AttemptState.STOPPED),
    Kind.CHILDREN: Behaviour(weight=1, lines=3),
    Kind.TIMED: Behaviour(
        weight=1, lines=2, request=(("time_limit", 2),), ends=AttemptState.TIMED_OUT
    ),
    Kind.SIMULATED: Behaviour(
        weight=2, lines=20, pause_ms=20, request=(("device", "sim:2"), ("ranks", "device")), ranks=2
    ),
}


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job; its name is also its idempotency key."""

    name: str
    kind: Kind

    @property
    def behaviour(self) -> Behaviour:
        """What to expect of it."""
        return BEHAVIOURS[self.kind]

    def request(self, program: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
        """What is submitted."""
        wanted = self.behaviour
        return {
            "name": self.name,
            "command": [*program, self.kind, str(wanted.lines), str(wanted.pause_ms)],
            "environment": environment,
            "retries": wanted.retries,
            "fault_retries": wanted.retries,
            "grace": 5,
            **dict(wanted.request),
        }


def plan_jobs(count: int, seed: int) -> tuple[PlannedJob, ...]:
    """Jobs of all kinds, mixed."""
    turn = [kind for kind, behaviour in BEHAVIOURS.items() for _ in range(behaviour.weight)]
    # Each kind comes first once, so that a small run has all of them.
    order = [*BEHAVIOURS, *turn * (count // len(turn) + 1)][:count]
    random.Random(seed).shuffle(order)
    return tuple(PlannedJob(f"job-{number:04}", kind) for number, kind in enumerate(order))


class Fault(StrEnum):
    """What is done to the platform, one at a time."""

    SERVER = "server"
    SUPERVISOR = "supervisor"
    KEEPER = "keeper"
    WARM = "warm"
    BOTH = "keeper-and-supervisor"
    FREEZE = "freeze"
    POSTGRES = "postgres"
    DESCRIPTORS = "descriptors"
    DISK = "disk"
    CLOCK = "clock"


KILLS = (
    Fault.SERVER,
    Fault.SUPERVISOR,
    Fault.KEEPER,
    Fault.POSTGRES,
    Fault.WARM,
    Fault.BOTH,
    Fault.FREEZE,
)
_MANY = 10


def plan_faults(count: int, seed: int, available: Iterable[Fault]) -> tuple[Fault, ...]:
    """`count` kills, restarts and freezes, plus exhaustion faults (twice in a large run), shuffled."""
    possible = set(available)
    kills = [fault for fault in KILLS if fault in possible]
    order = (kills * (count // max(1, len(kills)) + 1))[:count]
    times = 0 if not count else 1 if count < _MANY else 2
    order += [fault for fault in (Fault.DESCRIPTORS, Fault.DISK) if fault in possible] * times
    if count and Fault.CLOCK in possible:
        order.append(Fault.CLOCK)
    random.Random(seed).shuffle(order)
    return tuple(order)
