"""The NPUs of a machine, from the best available source: DCMI, npu-smi, or the device files.

A card's id is the physical one, N of /dev/davinciN: Phy-ID on A3, the Device column on 310 and
310P, the NPU id elsewhere. This is an assumption: no NPU was available to verify it."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jumar.devices import nodes
from jumar.devices.dcmi import dcmi_cards
from jumar.devices.generation import generation_of
from jumar.devices.hccn import read_ip
from jumar.devices.machine import Machine
from jumar.devices.smi_info import SmiChip, SmiInfo, Usage, read_info
from jumar.devices.smi_maps import MappedChip, read_map, read_topology
from jumar.devices.text import CannotRead
from jumar.launch.ascend.hccn import read_conf
from jumar.launch.ranks.binding import Topology
from jumar.spec.devices import Card, CardProcess, DeviceKind

_log = logging.getLogger(__name__)

INFO_LIMIT_S = 20.0
QUERY_LIMIT_S = 10.0
_PCI_NAMES = {
    "0xd100": "310",
    "0xd105": "310B",
    "0xd500": "310P",
    "0xd801": "910",
    "0xd802": "910B",
    "0xd803": "Ascend910",
    "0xd806": "Ascend950",
}
_PCI_GENERATIONS = {"0xd802": "A2", "0xd803": "A3", "0xd806": "A5"}


def npu_cards(machine: Machine) -> tuple[Card, ...]:
    """One card per chip, by ascending id; empty if there is none."""
    cards = dcmi_cards(machine) or _smi_cards(machine) or _node_cards(machine)
    ordered = sorted(cards, key=lambda card: card.id)
    return tuple(replace(card, logical_id=place) for place, card in enumerate(ordered))


def with_surroundings(cards: tuple[Card, ...], machine: Machine) -> tuple[Card, ...]:
    """The cards with their device address, NUMA node and nearby CPUs."""
    ports = read_conf(machine.text("etc/hccn.conf") or "")
    topology = _topology(machine) if any(not card.cpu_affinity for card in cards) else None
    return tuple(
        replace(
            card,
            device_ip=card.device_ip or (ports[card.id].address if card.id in ports else None),
            numa_node=nodes.numa_node(card.bus_id, machine.root) if card.bus_id else None,
            cpu_affinity=card.cpu_affinity or _affinity(card, topology),
        )
        for card in cards
    )


def device_addresses(ids: Iterable[int], machine: Machine) -> dict[int, str]:
    """The network address of each device that has one: from hccn.conf, otherwise from hccn_tool."""
    ports = read_conf(machine.text("etc/hccn.conf") or "")
    found: dict[int, str] = {}
    for number in ids:
        address = ports[number].address if number in ports else None
        address = address or _asked_address(number, machine)
        if address is not None:
            found[number] = address
    return found


def smi_to_cards(info: SmiInfo, mapped: Sequence[MappedChip] = ()) -> tuple[Card, ...]:
    """The chips of a table as cards; a chip listed twice with one Phy-ID is one card."""
    by_place: dict[tuple[int, int | None], MappedChip] = {
        (chip.npu_id, chip.chip_id): chip for chip in mapped
    }
    cards: dict[int, Card] = {}
    for number, chip in zip(_ids(info.chips, by_place), info.chips, strict=True):
        if number not in cards:
            cards[number] = _card(number, chip, info.has_phy_ids)
    return tuple(cards.values())


def _smi_cards(machine: Machine) -> tuple[Card, ...]:
    tool = machine.tool("npu-smi")
    if tool is None:
        return ()
    answer = machine.ask([tool, "info"], timeout_s=INFO_LIMIT_S)
    try:
        info = read_info(answer.output)
    except CannotRead as error:
        _log.warning("%s", answer.trouble or error)
        return ()
    mapped: Sequence[MappedChip] = ()
    if _is_ambiguous(info.chips):
        mapped = _mapped(tool, machine)
    return smi_to_cards(info, mapped)


def _is_ambiguous(chips: Sequence[SmiChip]) -> bool:
    """Whether the table has no physical ids although boards have several chips."""
    boards = {chip.npu_id for chip in chips}
    untold = any(chip.phy_id is None and chip.device_id is None for chip in chips)
    return untold and len(boards) < len(chips)


def _mapped(tool: str, machine: Machine) -> Sequence[MappedChip]:
    try:
        return read_map(machine.ask([tool, "info", "-m"], timeout_s=QUERY_LIMIT_S).output)
    except CannotRead as error:
        _log.warning("%s", error)
        return ()


def _ids(
    chips: Sequence[SmiChip], mapped: Mapping[tuple[int, int | None], MappedChip]
) -> list[int]:
    known = [_id(chip, mapped.get((chip.npu_id, chip.chip_id))) for chip in chips]
    if all(number is not None for number in known):
        return [number for number in known if number is not None]
    boards = [chip.npu_id for chip in chips]
    return boards if len(set(boards)) == len(boards) else list(range(len(chips)))


def _id(chip: SmiChip, mapped: MappedChip | None) -> int | None:
    told = (
        mapped.phy_id if mapped else None,
        chip.phy_id,
        chip.device_id,
        mapped.logic_id if mapped else None,
    )
    return next((number for number in told if number is not None), None)


def _card(number: int, chip: SmiChip, has_phy_ids: bool) -> Card:
    memory = _memory(chip)
    return Card(
        DeviceKind.NPU,
        number,
        chip.name,
        generation=generation_of(chip.name, has_phy_ids=has_phy_ids),
        health=chip.health,
        memory_used_mb=memory.used if memory else None,
        memory_total_mb=memory.total if memory else None,
        utilisation_pct=chip.utilisation_pct,
        power_w=chip.power_w,
        temperature_c=chip.temperature_c,
        bus_id=chip.bus_id,
        processes=tuple(
            CardProcess(
                process.pid, process.name, process.memory_mb, container_pid=process.container_pid
            )
            for process in chip.processes
        ),
        npu_id=chip.npu_id,
        chip_id=chip.chip_id,
    )


def _memory(chip: SmiChip) -> Usage | None:
    """HBM if the chip has any, otherwise the other memory; 0 of 0 there says nothing about HBM that
    the table leaves out."""
    has_hbm = chip.hbm is not None and chip.hbm.total > 0
    has_other = chip.memory is not None and chip.memory.total > 0
    return chip.memory if has_other and not has_hbm else chip.hbm


def _node_cards(machine: Machine) -> tuple[Card, ...]:
    numbers = nodes.davinci_ids(machine.root)
    if not numbers:
        return ()
    models = {device.device.lower() for device in nodes.accelerators(machine.root)}
    model = models.pop() if len(models) == 1 else ""
    name = _PCI_NAMES.get(model, "")
    generation = _PCI_GENERATIONS.get(model) or generation_of(name)
    return tuple(Card(DeviceKind.NPU, number, name, generation=generation) for number in numbers)


def _topology(machine: Machine) -> Topology | None:
    tool = machine.tool("npu-smi")
    if tool is None:
        return None
    answer = machine.ask([tool, "info", "-t", "topo"], timeout_s=QUERY_LIMIT_S)
    try:
        return read_topology(answer.output)
    except CannotRead as error:
        _log.info("no CPU affinity from npu-smi: %s", answer.trouble or error)
        return None


def _affinity(card: Card, topology: Topology | None) -> str | None:
    if topology is None:
        return None
    number = card.id if topology.by_phy_id or card.npu_id is None else card.npu_id
    row = topology.rows.get(number)
    return row.cpu_affinity if row else None


def _asked_address(number: int, machine: Machine) -> str | None:
    tool = machine.tool("hccn_tool")
    if tool is None:
        return None
    answer = machine.ask([tool, "-i", str(number), "-ip", "-g"], timeout_s=QUERY_LIMIT_S)
    try:
        return read_ip(answer.output)[0]
    except CannotRead as error:
        _log.info("device %d has no address: %s", number, answer.trouble or error)
        return None
