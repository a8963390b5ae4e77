"""What the ranks of one node need where its cards are NPUs: CANN, the rank table, free ports.

Works without any library of the vendor. What it reads: /etc/hccn.conf, and the list of cards
where one was given. Nobody has run it on an NPU yet; the formats are those of the documents."""

import socket
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from jumar.launch.ascend import ranktable
from jumar.launch.ascend.facts import CardFacts, generation_of
from jumar.launch.ascend.hccn import read_conf
from jumar.launch.ascend.places import may_have_cann
from jumar.launch.ascend.ranktable import RankTable, RankTableError, dumps
from jumar.launch.ascend.ranktable.make import NodeDevice
from jumar.launch.ascend.ranktable.records import INITIALIZING

__all__ = ["RankTableError", "dumps"]

_HCCL_BASE = 60000
_HCCL_PORTS = 32
_MOST_BASE = 60000 + 64 * _HCCL_PORTS
_LOOKS = 10
_LOOK_S = 0.1


def cann_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """What CANN's set_env.sh would set; nothing where it was sourced or there is none."""
    if not may_have_cann("/", environ):
        return {}
    # Late: jobs without NPUs need none of it.
    from pathlib import Path

    from jumar.launch.ascend.cann import cann_environment, find_cann

    found = find_cann(Path("/"), environ)
    return {} if found is None else cann_environment(found, environ).variables


def hccl_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Defaults for the collective library; what the shell has set stays."""
    # Ranks that compile their graphs first meet later than the 120 s that HCCL waits by itself.
    made = {"HCCL_CONNECT_TIMEOUT": "1800", "HCCL_WHITELIST_DISABLE": "1"}
    base = _free_base_port()
    if base != _HCCL_BASE:
        made["HCCL_IF_BASE_PORT"] = str(base)
    return {name: value for name, value in made.items() if not environ.get(name)}


def table_part(address: str, cards: Sequence[CardFacts]) -> Dict[str, Any]:
    """This node's part of the rank table, as JSON values; raises RankTableError."""
    addresses = _device_addresses()
    devices = [
        NodeDevice(
            card.id,
            card.device_ip or addresses.get(card.id),
            card.super_device_id,
            card.levels,
        )
        for card in cards
    ]
    pod = _super_pod(cards)
    form = ranktable.format_for(generation_of(cards), pod)
    return ranktable.document(
        ranktable.make(address, devices, form=form, super_pod_id=pod if form == "1.2" else None)
    )


def _super_pod(cards: Sequence[CardFacts]) -> Optional[str]:
    """Where all the cards are in one; with a gap in what is known they are taken as in none."""
    pods = {card.super_pod_id if card.super_device_id else None for card in cards}
    return pods.pop() if len(pods) == 1 else None


def merge_parts(parts: Sequence[Optional[Mapping[str, Any]]]) -> RankTable:
    """The table of all nodes, from their parts; raises RankTableError."""
    return ranktable.merge([ranktable.parse(part) for part in parts if part is not None])


def faults_in(table: RankTable, cards: Sequence[CardFacts]) -> List[str]:
    """Why the cards cannot work with it, in words."""
    found = ranktable.check(table, generation_of(cards))
    return [
        f"the rank table is wrong: {fault.text}" for fault in found if fault.severity == "error"
    ]


def use_rank_table(path: str, *, limit_s: float, pause: Callable[[float], None]) -> RankTable:
    """A table that somebody else makes, once it is completed; raises RankTableError."""
    table = _read_written(path, pause)
    if table.status == INITIALIZING:
        table = ranktable.wait_for_table(path, timeout_s=limit_s, pause=pause)
    return table


def server_of(table: RankTable, address: str) -> Optional[ranktable.RankServer]:
    """The node with this address; the only one there is may be called anything."""
    servers = [server for server in table.servers if server.server_id == address]
    if not servers and len(table.servers) == 1:
        servers = list(table.servers)
    return servers[0] if servers else None


def ranks_of_cards(table: RankTable, address: str, cards: Sequence[CardFacts]) -> List[int]:
    """The numbers of a node's ranks in the table."""
    server = server_of(table, address)
    ranks = {device.device_id: device.rank for device in server.devices} if server else {}
    return [ranks[card.id] for card in cards if card.id in ranks]


def _read_written(path: str, pause: Callable[[float], None]) -> RankTable:
    """Not every platform writes aside and renames: what is half written is looked at again."""
    for _ in range(_LOOKS):
        try:
            return ranktable.read_table(path)
        except ranktable.Unreadable:
            pause(_LOOK_S)
    return ranktable.read_table(path)


def _device_addresses() -> Dict[int, str]:
    try:
        with open("/etc/hccn.conf", encoding="utf-8", errors="replace") as file:
            ports = read_conf(file.read())
    except OSError:
        return {}
    return {device: port.address for device, port in ports.items() if port.address}


def _free_base_port() -> int:
    base = _HCCL_BASE
    while base < _MOST_BASE and not _all_free(range(base, base + _HCCL_PORTS)):
        base += _HCCL_PORTS
    return base


def _all_free(ports: Sequence[int]) -> bool:
    sockets: List[socket.socket] = []
    try:
        for port in ports:
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sockets.append(probe)
            probe.bind(("", port))
    except OSError:
        return False
    finally:
        for one in sockets:
            one.close()
    return True
