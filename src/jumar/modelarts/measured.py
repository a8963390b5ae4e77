"""What a job uses, in ModelArts' words: percentages, a value per minute."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.spec.devices import Card, DeviceKind
from jumar.spec.records import JobSummary
from jumar.spec.usage import JobUsage, UsageCurve

NOTHING = -1
"""What ModelArts says of a minute in which nothing was measured."""
_MINUTE_S = 60
_CARDS = {DeviceKind.GPU: "gpu", DeviceKind.NPU: "npu", DeviceKind.SIM: "npu"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What all is measured against."""

    cores: int
    memory_gb: float
    card_gb: dict[DeviceKind, float]


def machine_of(cards: Iterable[Card]) -> Machine:
    """This machine, with these cards."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    sizes = {card.kind: card.memory_total_mb / 1000 for card in cards if card.memory_total_mb}
    return Machine(os.cpu_count() or 1, pages / 1e9, sizes)


def metrics_of(
    usage: JobUsage, job: JobSummary, node: int, machine: Machine
) -> list[dict[str, Any]]:
    """The curves of one node of a job."""
    kind = DeviceKind(job.device.partition(":")[0])
    cards = list(dict.fromkeys(one.card for one in usage.curves if one.card is not None))
    each = len(cards) // job.nodes
    own = cards[node * each : (node + 1) * each] if each else cards
    # Processes are seen on the machine of the server only.
    cpu = [one for one in usage.curves if one.card is None and node == 0]
    found: dict[str, list[float | int]] = {
        "cpuUsage": _series(usage, cpu, "cpu_cores", machine.cores),
        "memUsage": _series(usage, cpu, "memory_gb", machine.memory_gb),
    }
    on_cards = [one for one in usage.curves if one.card in own]
    for name in ("gpu", "npu"):
        curves = on_cards if _CARDS.get(kind) == name else []
        found[f"{name}Util"] = _series(usage, curves, "use_pct", 100)
        whole = machine.card_gb.get(kind, 0)
        found[f"{name}MemUsage"] = _series(usage, curves if whole else [], "memory_gb", whole)
    return [{"metric": name, "value": values} for name, values in found.items()]


def _series(
    usage: JobUsage, curves: Sequence[UsageCurve], name: str, whole: float
) -> list[float | int]:
    """Of all curves of a name together: their mean in each minute, in percent of `whole`."""
    minutes: dict[int, list[float]] = {}
    for curve in curves:
        if curve.name == name:
            for at, value in zip(usage.times, curve.y, strict=True):
                if value is not None:
                    minutes.setdefault(int(at - usage.times[0]) // _MINUTE_S, []).append(value)
    if not minutes:
        return []
    return [
        round(100 * sum(minutes[one]) / len(minutes[one]) / whole, 2) if one in minutes else NOTHING
        for one in range(max(minutes) + 1)
    ]
