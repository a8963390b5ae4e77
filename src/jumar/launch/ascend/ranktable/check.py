"""What is wrong with a rank table, each fault by name.

Errors make the collective library refuse the table or hang; warnings are what only some readers
mind. Rules follow the vendor's documents; where they depend on the chip and none is told, the
mildest applies."""

from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from jumar.launch.ascend.ranktable.records import (
    COMPLETED,
    INITIALIZING,
    LAB,
    TEMPLATE_2,
    V1_0,
    V1_2,
    V2_0,
    RankDevice,
    RankServer,
    RankTable,
)

LONGEST_SERVER_ID = 64
ERROR = "error"
WARNING = "warning"
_FORMATS_OF_CHIP = {
    "910": (V1_0, LAB, TEMPLATE_2),
    "A2": (V1_0,),
    "A3": (V1_2, V1_0),
    "A5": (V2_0,),
}
_ADDRESS_EXTRAS = ("backup_device_ip",)


class Finding(NamedTuple):
    """One fault: its name, how bad it is, and where in words."""

    name: str
    severity: str
    text: str


def check(table: RankTable, chip: Optional[str] = None) -> List[Finding]:
    """All faults, errors first; `chip` is 910, A2, A3, A5 or None."""
    rules: Sequence[Callable[[RankTable, Optional[str]], Iterator[Finding]]] = (
        _status,
        _version,
        _counts,
        _empty_servers,
        _server_ids,
        _ranks,
        _rank_order,
        _devices,
        _addresses,
        _missing_addresses,
        _super_pods,
        _super_devices,
        _lexical_order,
        _rings,
    )
    found = [finding for rule in rules for finding in rule(table, chip)]
    return sorted(found, key=lambda finding: finding.severity != ERROR)


def _status(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    if table.status == INITIALIZING:
        yield Finding("status", ERROR, "the table is still being made (initializing)")
    elif table.status != COMPLETED:
        yield Finding("status", ERROR, f"status is {table.status!r}, not completed")
    elif not table.rank_count:
        yield Finding("empty", ERROR, "there is no device in the table")


def _version(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    fitting = _FORMATS_OF_CHIP.get(chip or "")
    if table.format and fitting and table.format not in fitting:
        yield Finding(
            "wrong-version",
            ERROR,
            "{} does not read {} tables but {} (EI0014)".format(
                chip, table.format, " or ".join(fitting)
            ),
        )


def _counts(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    nics: Any = table.extras.get("para_plane_nic_name")
    instances = table.rank_count if table.format == LAB else len(table.servers)
    actual = {
        "server_count": len(table.servers),
        "server_num": len(table.servers),
        "device_num": table.rank_count,
        "device_count": table.rank_count,
        "rank_count": table.rank_count,
        "instance_count": instances,
        "group_count": 1,
        "para_plane_nic_num": len(nics) if hasattr(nics, "__len__") else 0,
    }
    for name, stated in table.declared.items():
        if stated != actual[name]:
            text = f"{name} says {stated}, there are {actual[name]}"
            yield Finding("count", ERROR, text)


def _empty_servers(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    for server in table.servers if table.rank_count else ():
        if not server.devices:
            yield Finding("empty", ERROR, f"server {server.server_id} has no device")


def _server_ids(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    seen: Set[str] = set()
    for server in table.servers:
        name = server.server_id
        if not name:
            yield Finding("empty-server-id", ERROR, "a server has an empty server_id")
        elif len(name) > LONGEST_SERVER_ID:
            yield Finding(
                "server-id-too-long",
                ERROR,
                f"server_id {name[:16]}… has {len(name)} characters, {LONGEST_SERVER_ID} are allowed",
            )
        elif name.startswith("127."):
            text = f"server_id {name} is this machine to every machine"
            yield Finding("loopback-server-id", WARNING, text)
        if name in seen and table.format != TEMPLATE_2:
            yield Finding("duplicate-server", ERROR, f"server {name} is listed twice")
        seen.add(name)


def _ranks(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    counts = Counter(device.rank for _, device in table.devices)
    for rank in sorted(rank for rank, times in counts.items() if times > 1):
        yield Finding("duplicate-rank", ERROR, f"rank {rank} is given twice")
    last = max(counts, default=-1)
    if last >= len(counts):
        first_missing = next(rank for rank in range(last) if rank not in counts)
        text = f"ranks run to {last} but {first_missing} is missing"
        yield Finding("rank-gap", ERROR, text)


def _rank_order(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    for server in table.servers:
        ranks = [device.rank for device in server.devices]
        if ranks != sorted(ranks):
            text = f"ranks of server {server.server_id} are not in ascending order"
            yield Finding("rank-order", ERROR, text)
        elif ranks and ranks[-1] - ranks[0] != len(ranks) - 1 and len(set(ranks)) == len(ranks):
            text = f"ranks of server {server.server_id} are not contiguous"
            yield Finding("rank-order", ERROR, text)
    firsts = [server.devices[0].rank for server in table.servers if server.devices]
    if firsts != sorted(firsts):
        yield Finding("rank-order", ERROR, "servers are not in the order of their ranks")


def _devices(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    seen: Set[Tuple[str, int]] = set()
    for server, device in table.devices:
        key = (server.server_id, device.device_id)
        if key in seen:
            text = f"device {device.device_id} of server {server.server_id} is given twice"
            yield Finding("duplicate-device", ERROR, text)
        seen.add(key)


def _addresses(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    seen: Dict[str, str] = {}
    for server, device in table.devices:
        place = f"device {device.device_id} of server {server.server_id}"
        told: List[Tuple[str, object]] = [("device_ip", device.device_ip)]
        told += [(name, device.extras.get(name)) for name in _ADDRESS_EXTRAS]
        for name, address in told:
            if address and not _is_address(str(address)):
                text = f"{name} {address!r} of {place} is not an address"
                yield Finding("bad-address", ERROR, text)
        for own in _own_addresses(device):
            if seen.setdefault(own, place) != place:
                text = f"{seen[own]} and {place} share the address {own}"
                yield Finding("duplicate-address", ERROR, text)


def _own_addresses(device: RankDevice) -> Set[str]:
    """What only this device can have: its address, or in 2.0 those of the lowest layer."""
    found = {device.device_ip or ""}
    for level in device.levels[:1]:
        found.update(str(address.get("addr", "")) for address in level["rank_addr_list"])
    return found - {""}


def _is_address(text: str) -> bool:
    # Late: the table of one server often has none.
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _missing_addresses(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    is_910 = chip == "910" or (chip is None and table.format in (LAB, TEMPLATE_2))
    for server, device in table.devices:
        if device.device_ip or device.levels:
            continue
        place = f"device {device.device_id} of server {server.server_id} has no device_ip"
        if is_910:
            yield Finding("missing-device-ip", ERROR, place + ", which a 910 needs")
        elif len(table.servers) > 1:
            text = place + ", which more than one server needs"
            yield Finding("missing-device-ip", ERROR, text)
        elif chip is None:
            yield Finding("missing-device-ip", WARNING, place + ", which a 910 would need")


def _super_pods(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    if table.format != V1_2:
        return
    servers = [server.server_id for server in table.servers]
    pod_of = {name: pod.super_pod_id for pod in table.super_pods for name in pod.server_ids}
    listed = [name for pod in table.super_pods for name in pod.server_ids]
    for name in sorted(set(servers) - set(listed)):
        yield Finding("superpod-missing", ERROR, f"server {name} is in no superpod")
    for name in sorted(set(listed) - set(servers)):
        text = f"superpod {pod_of[name]} names server {name}, which is not in the table"
        yield Finding("superpod-unknown-server", ERROR, text)
    for name in sorted(name for name, times in Counter(listed).items() if times > 1):
        yield Finding("superpod-twice", ERROR, f"server {name} is in two superpods")
    closed: List[Optional[str]] = []
    for name in servers:
        pod = pod_of.get(name)
        if pod in closed and closed[-1] != pod:
            text = f"servers of superpod {pod} are not adjacent: {name}"
            yield Finding("superpod-order", ERROR, text)
        closed.append(pod)


def _super_devices(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    if table.format != V1_2:
        return
    pod_of = {name: pod.super_pod_id for pod in table.super_pods for name in pod.server_ids}
    seen: Set[Tuple[Optional[str], str]] = set()
    for server, device in table.devices:
        number = device.extras.get("super_device_id")
        place = f"device {device.device_id} of server {server.server_id}"
        if number is None:
            yield Finding("missing-super-device-id", ERROR, place + " has no super_device_id")
            continue
        key = (pod_of.get(server.server_id), str(number))
        if key in seen:
            text = f"super_device_id {number} comes twice in superpod {key[0]}"
            yield Finding("duplicate-super-device", ERROR, text)
        seen.add(key)


def _lexical_order(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    names = [server.server_id for server in table.servers]
    if table.format != V2_0 and names != sorted(names):
        yield Finding(
            "server-order",
            WARNING,
            "servers are not in the lexical order of server_id, which MindSpore expects",
        )


def _rings(table: RankTable, chip: Optional[str]) -> Iterator[Finding]:
    if chip != "910":
        return
    for server in table.servers:
        if not _is_ring(server):
            yield Finding(
                "ring",
                WARNING,
                f"server {server.server_id}: a 910 runs 1, 2, 4 or 8 devices, fewer than 8 all within 0-3 or "
                "4-7",
            )


def _is_ring(server: RankServer) -> bool:
    numbers = [device.device_id for device in server.devices]
    if len(numbers) not in (1, 2, 4, 8):
        return False
    return len(numbers) == 8 or len({number // 4 for number in numbers}) == 1
