"""What kind of device a job asks for and what a card is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

MOST_DEVICES = 1024
LOCAL_NODE = "local"
"""The machine that the server runs on."""
_REQUEST = re.compile(r"([a-z]+)(?::(-?\d{1,9}))?", re.ASCII)


class DeviceKind(StrEnum):
    """What computes: `cpu` counts slots, the others count cards."""

    NPU = "npu"
    GPU = "gpu"
    SIM = "sim"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """How many devices of one kind a job holds on each node."""

    kind: DeviceKind
    count: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}"

    @classmethod
    def parse(cls, text: str) -> "DeviceRequest":
        """`npu:2`, `gpu` (one), `cpu`; raises ValueError in words."""
        match = _REQUEST.fullmatch(text.strip().lower())
        if match is None or match[1] not in set(DeviceKind):
            raise ValueError(f"{text!r} is not a device; write npu:2, gpu:1, sim:8 or cpu")
        count = int(match[2] or 1)
        if not 1 <= count <= MOST_DEVICES:
            raise ValueError(f"{text!r}: the count must be 1 to {MOST_DEVICES}")
        return cls(DeviceKind(match[1]), count)


@dataclass(frozen=True, slots=True, order=True)
class CardRef:
    """One card (or CPU slot) of one node; its kind is known from where it stands."""

    node: str
    id: int


def card_names(cards: Iterable[CardRef]) -> list[str]:
    """What people call them: by their ids, with the node unless it is the server's own."""
    return [str(card.id) if card.node == LOCAL_NODE else f"{card.node}/{card.id}" for card in cards]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardHold:
    """Why a card is not given out, and who said so."""

    by: str
    why: str = ""
    since: float


@dataclass(frozen=True, slots=True)
class CardProcess:
    """One process seen on a card."""

    pid: int
    name: str = ""
    memory_mb: int | None = None
    user: str | None = None
    job_id: str | None = None
    container_pid: int | None = None
    """The same process as seen from inside its container, where the tool tells it."""
    own_pid: int | None = None
    """Its pid as we see it; None for one that cannot be inspected."""


@dataclass(frozen=True, slots=True)
class Card:
    """One chip of this machine as it is now. None means: not told by the source.

    `id` of an NPU is the physical one: N of /dev/davinciN, what rank tables and hccn.conf use.
    Visible-devices variables want `logical_id`, which counts only the cards this process can see;
    the two differ in a container that was given some of the cards."""

    kind: DeviceKind
    id: int
    name: str = ""
    generation: str | None = None
    health: str | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    utilisation_pct: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    bus_id: str | None = None
    device_ip: str | None = None
    cpu_affinity: str | None = None
    numa_node: int | None = None
    processes: tuple[CardProcess, ...] = field(default=())
    logical_id: int | None = None
    npu_id: int | None = None
    """The board's number in npu-smi; several chips may share it."""
    chip_id: int | None = None
    """The chip's number on its board."""
    node: str = LOCAL_NODE
    """Where it is, as its engine calls that node."""

    @property
    def ref(self) -> CardRef:
        """Its name among all cards of its kind."""
        return CardRef(self.node, self.id)
