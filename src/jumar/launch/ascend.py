"""What the ranks of one node need where its cards are NPUs: CANN, the rank table, free ports.

Works without any library of the vendor. What it reads: /etc/hccn.conf, and the list of cards
where one was given. Nobody has run it on an NPU yet; the formats are those of the documents."""

import os
import re
import socket
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from jumar.launch import ranktable
from jumar.launch.cann import cann_environment, find_cann
from jumar.launch.ranktable.make import NodeDevice

_ADDRESS = re.compile(r"^\s*address_(\d+)\s*=\s*([0-9A-Fa-f.:]+)\s*$", re.M)
_HCCL_BASE = 60000
_HCCL_PORTS = 32
_MOST_BASE = 60000 + 64 * _HCCL_PORTS

Card = Dict[str, Any]


class Table(NamedTuple):
    """A rank table that was written for the ranks, and their numbers in it."""

    path: str
    rank_of_card: Dict[int, int]


def cann_variables(environ: Mapping[str, str], root: str = "/") -> Dict[str, str]:
    """What CANN's set_env.sh would set; nothing where it was sourced or there is none."""
    found = find_cann(Path(root), environ)
    return {} if found is None else cann_environment(found, environ, root=Path(root)).variables


def hccl_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Defaults for the collective library; what the shell has set stays."""
    # Ranks that compile their graphs first meet later than the 120 s that HCCL waits by itself.
    made = {"HCCL_CONNECT_TIMEOUT": "1800", "HCCL_WHITELIST_DISABLE": "1"}
    base = _free_base_port()
    if base != _HCCL_BASE:
        made["HCCL_IF_BASE_PORT"] = str(base)
    return {name: value for name, value in made.items() if not environ.get(name)}


def table_part(
    address: str, cards: Sequence[int], known: Sequence[Card], root: str = "/"
) -> Dict[str, Any]:
    """This node's part of the rank table, as JSON values."""
    told = {int(card["id"]): card for card in known}
    addresses = device_addresses(root)
    devices = [
        NodeDevice(number, told.get(number, {}).get("device_ip") or addresses.get(number))
        for number in cards
    ]
    chip = next((card.get("generation") for card in told.values() if card.get("generation")), None)
    made = ranktable.make(address, devices, form=ranktable.format_for(chip))
    return ranktable.document(made)


def write_rank_table(
    parts: Sequence[Mapping[str, Any]], path: str, address: str, chip: Optional[str] = None
) -> Table:
    """Merge the nodes' parts, check and write them; raises RankTableError."""
    whole = ranktable.merge([ranktable.parse(part) for part in parts])
    faults = [fault for fault in ranktable.check(whole, chip) if fault.severity == "error"]
    if faults:
        raise ranktable.RankTableError(f"the rank table is wrong: {faults[0].text}")
    ranktable.write_table(path, whole)
    return Table(path, _ranks_on(whole, address))


def use_rank_table(path: str, address: str) -> Table:
    """A table that somebody else has made; raises RankTableError."""
    return Table(path, _ranks_on(ranktable.read_table(path), address))


def device_addresses(root: str = "/") -> Dict[int, str]:
    """Physical device to its address, from the file that the network tool keeps."""
    try:
        with open(os.path.join(root, "etc/hccn.conf"), encoding="utf-8", errors="replace") as file:
            return {int(match[1]): match[2] for match in _ADDRESS.finditer(file.read())}
    except OSError:
        return {}


def _ranks_on(table: ranktable.RankTable, address: str) -> Dict[int, int]:
    servers = [server for server in table.servers if server.server_id == address]
    if not servers and len(table.servers) == 1:
        servers = list(table.servers)
    return {device.device_id: device.rank for server in servers for device in server.devices}


def _free_base_port() -> int:
    base = _HCCL_BASE
    while base < _MOST_BASE and not _all_free(range(base, base + _HCCL_PORTS)):
        base += _HCCL_PORTS
    return base


def _all_free(ports: Sequence[int]) -> bool:
    doors: List[socket.socket] = []
    try:
        for port in ports:
            door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            doors.append(door)
            door.bind(("", port))
    except OSError:
        return False
    finally:
        for door in doors:
            door.close()
    return True
