"""What jobs may hold on a machine, and the current state of its cards."""

import os

from jumar.devices.machine import Machine
from jumar.devices.npu import npu_cards, with_surroundings
from jumar.devices.nvidia import nvidia_cards
from jumar.devices.owners import with_owners
from jumar.spec.devices import Card, DeviceKind

LEAST_CPU_SLOTS = 4


def inventory(
    *, cpu_slots: int, sim_cards: int, machine: Machine | None = None
) -> tuple[Card, ...]:
    """NPUs, GPUs, simulated cards and CPU slots (0 slots: the cores, at least four).

    Never raises, and asks no tool on a machine that shows no card."""
    here = machine or Machine()
    return (
        *npu_cards(here),
        *nvidia_cards(here),
        *simulated_cards(sim_cards),
        *(Card(DeviceKind.CPU, number, "cpu slot") for number in range(cpu_slots or _cores())),
    )


def cards(machine: Machine | None = None, *, surroundings: bool = True) -> tuple[Card, ...]:
    """The real cards in their current state, and who owns the processes on them.

    `surroundings` adds addresses, NUMA nodes and nearby CPUs, which do not change."""
    here = machine or Machine()
    npus = npu_cards(here)
    if surroundings:
        npus = with_surroundings(npus, here)
    return with_owners((*npus, *nvidia_cards(here)), here.root)


def simulated_cards(count: int) -> tuple[Card, ...]:
    """Cards without hardware, to rehearse jobs on."""
    return tuple(
        Card(DeviceKind.SIM, number, "simulated", health="OK", logical_id=number)
        for number in range(count)
    )


def _cores() -> int:
    return max(LEAST_CPU_SLOTS, len(os.sched_getaffinity(0)))
