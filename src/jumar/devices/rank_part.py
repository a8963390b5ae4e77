"""This machine's part of a rank table: its NPUs, their addresses, its place in a superpod."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from jumar.devices.machine import Machine
from jumar.devices.npu import QUERY_LIMIT_S, device_addresses, npu_cards
from jumar.devices.smi_reports import Report, read_reports
from jumar.devices.text import CannotRead
from jumar.errors import BadInput, NotFound
from jumar.launch.ascend.ranktable import (
    RankTable,
    Unreadable,
    format_for,
    make,
    parse,
)
from jumar.launch.ascend.ranktable.make import NodeDevice
from jumar.launch.nodes.team import host_address
from jumar.spec.devices import Card

_ROOT_INFO = "etc/hccl_rootinfo.json"
_HALF_OPEN = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\)")
_RANGE = re.compile(r"(\d{1,4})(?:\s*-\s*(\d{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRequest:
    """What the user asks for; None means: whatever this machine has."""

    ids: tuple[int, ...] | None = None
    chip: str | None = None
    form: str | None = None
    server_id: str | None = None
    super_pod_id: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The table of one machine, and the chip it was made for if known."""

    table: RankTable
    chip: str | None


def parse_ids(text: str) -> tuple[int, ...]:
    """`0-7`, `0,2,5` or `[0,8)`."""
    half_open = _HALF_OPEN.fullmatch(text.strip())
    if half_open:
        ids = list(range(int(half_open[1]), int(half_open[2])))
    else:
        matches = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
        if not all(matches):
            raise BadInput(f"{text!r} is not a list of device ids", hint="write 0-7 or 0,2,5")
        ids = [n for m in matches if m for n in range(int(m[1]), int(m[2] or m[1]) + 1)]
    if not ids or len(set(ids)) != len(ids):
        raise BadInput(f"{text!r} lists no device, or lists one twice", hint="write 0-7 or 0,2,5")
    return tuple(sorted(ids))


def part_here(request: PartRequest, machine: Machine | None = None) -> Part:
    """The table of this machine alone, in the format that fits its chip."""
    here = machine or Machine()
    cards = {card.id: card for card in npu_cards(here)}
    ids = request.ids if request.ids is not None else tuple(sorted(cards))
    if not ids:
        raise NotFound(
            "no NPU found on this machine",
            hint="name the devices with --ids 0-7, or see: jumar doctor",
        )
    missing = [number for number in ids if cards and number not in cards]
    if missing:
        seen = ", ".join(map(str, sorted(cards)))
        raise BadInput(f"this machine has no NPU {missing[0]}", hint=f"it has: {seen}")
    chip = request.chip or next((card.generation for card in cards.values()), None)
    pods = _super_pod_reports([cards[n] for n in ids if n in cards], here) if chip == "A3" else {}
    pod_id = request.super_pod_id or _pod_id(pods.values())
    form = request.form or format_for(chip, pod_id)
    address = host_address(environ=here.environ)
    table = make(
        request.server_id or address,
        _devices(ids, pods, here, wants_levels=form == "2.0"),
        form=form,
        super_pod_id=pod_id if form == "1.2" else None,
    )
    return Part(table, chip)


def rank_facts(cards: Sequence[Card], machine: Machine | None = None) -> list[dict[str, Any]]:
    """What a launcher must know about NPUs to write a job's rank table; JSON values.

    Addresses are looked up only for chips that cannot do without them."""
    here = machine or Machine()
    chip = next((card.generation for card in cards if card.generation), None)
    pods = _super_pod_reports(cards, here) if chip == "A3" else {}
    levels = _levels(here) if chip == "A5" else {}
    addresses = _addresses(cards, here) if chip == "910" else {}
    pod_id = _pod_id(pods.values())
    return [
        {
            "id": card.id,
            "logical_id": card.logical_id,
            "generation": card.generation,
            "device_ip": card.device_ip or addresses.get(card.id),
            "super_device_id": pods[card.id].text("sdid") if card.id in pods else None,
            "super_pod_id": pod_id,
            "levels": [dict(level) for level in levels.get(card.id, ())],
        }
        for card in cards
    ]


def _addresses(cards: Iterable[Card], machine: Machine) -> dict[int, str]:
    found: dict[int, str] = {}
    for card in cards:
        told = device_addresses([card.id], machine)
        if not told:
            # A tool that hangs for one device would hang for each of them.
            return found
        found.update(told)
    return found


def _devices(
    ids: Iterable[int], pods: Mapping[int, Report], machine: Machine, *, wants_levels: bool
) -> list[NodeDevice]:
    wanted = tuple(ids)
    addresses = device_addresses(wanted, machine)
    levels = _levels(machine) if wants_levels else {}
    return [
        NodeDevice(
            number,
            addresses.get(number),
            pods[number].text("sdid") if number in pods else None,
            levels.get(number, ()),
        )
        for number in wanted
    ]


def _super_pod_reports(cards: Iterable[Card], machine: Machine) -> dict[int, Report]:
    tool = machine.tool("npu-smi")
    if tool is None:
        return {}
    found: dict[int, Report] = {}
    for card in cards:
        place = ["-i", str(card.npu_id), "-c", str(card.chip_id)]
        answer = machine.ask([tool, "info", "-t", "spod-info", *place], timeout_s=QUERY_LIMIT_S)
        try:
            report = read_reports(answer.output)[0]
        except CannotRead:
            # Not in a superpod, or a driver that does not support the query.
            return {}
        if report.text("sdid") is None or report.text("super pod id") is None:
            return {}
        found[card.id] = report
    return found


def _pod_id(reports: Iterable[Report]) -> str | None:
    return next((report.text("super pod id") for report in reports), None)


def _levels(machine: Machine) -> dict[int, tuple[Mapping[str, Any], ...]]:
    """A5: the addresses that the driver recorded for each local device."""
    text = machine.text(_ROOT_INFO)
    if text is None:
        return {}
    try:
        found = cast("dict[str, Any]", json.loads(text))
        table = parse({"version": "2.0", **found})
    except (ValueError, TypeError, Unreadable) as error:
        raise BadInput(f"/{_ROOT_INFO} cannot be read: {error}") from error
    return {device.device_id: device.levels for _, device in table.devices}
