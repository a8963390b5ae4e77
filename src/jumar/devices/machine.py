"""What jobs may hold on this machine."""

import os
from pathlib import Path

from jumar.devices.nodes import davinci_ids, nvidia_ids
from jumar.spec.devices import Card, DeviceKind

LEAST_CPU_SLOTS = 4


def inventory(*, cpu_slots: int, sim_cards: int, root: Path = Path("/")) -> tuple[Card, ...]:
    """NPUs, GPUs, simulated cards and CPU slots (0 slots: the cores, at least four)."""
    return (
        *(Card(DeviceKind.NPU, number) for number in davinci_ids(root)),
        *(Card(DeviceKind.GPU, number) for number in nvidia_ids(root)),
        *(Card(DeviceKind.SIM, number, "simulated") for number in range(sim_cards)),
        *(Card(DeviceKind.CPU, number, "cpu slot") for number in range(cpu_slots or _cores())),
    )


def _cores() -> int:
    return max(LEAST_CPU_SLOTS, len(os.sched_getaffinity(0)))
