"""One node's part of a rank table, and several parts made one."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.ascend.ranktable.records import (
    COMPLETED,
    NOTHING,
    V1_0,
    V1_2,
    V2_0,
    RankDevice,
    RankServer,
    RankTable,
    RankTableError,
    SuperPod,
    unlike_names,
)

_FORMAT_OF_CHIP = {"A5": V2_0}


class NodeDevice(NamedTuple):
    """What a node knows of one of its devices."""

    device_id: int
    device_ip: Optional[str] = None
    super_device_id: Optional[str] = None
    levels: Tuple[Mapping[str, Any], ...] = ()


def format_for(chip: Optional[str], super_pod_id: Optional[str] = None) -> str:
    """The format that fits the chip; A3 has its own inside a superpod."""
    if chip == "A3" and super_pod_id is not None:
        return V1_2
    return _FORMAT_OF_CHIP.get(chip or "", V1_0)


def make(
    server_id: str,
    devices: Sequence[NodeDevice],
    *,
    form: str = V1_0,
    first_rank: int = 0,
    super_pod_id: Optional[str] = None,
) -> RankTable:
    """The table of one node, ranks by ascending device."""
    ordered = sorted(devices, key=lambda device: device.device_id)
    found = tuple(
        RankDevice(
            device.device_id,
            first_rank + place,
            device.device_ip,
            None,
            device.levels,
            {"super_device_id": device.super_device_id}
            if device.super_device_id is not None
            else NOTHING,
        )
        for place, device in enumerate(ordered)
    )
    pods = () if super_pod_id is None else (SuperPod(super_pod_id, (server_id,)),)
    return RankTable(form, COMPLETED, (RankServer(server_id, found),), pods)


def merge(parts: Sequence[RankTable], *, by_server_id: bool = False) -> RankTable:
    """One table of several, ranks counted through in the order given (or of the server ids).

    Servers of one superpod are brought together, as the collective library wants them."""
    if not parts:
        raise RankTableError("there is nothing to merge")
    for part in parts:
        if part.status != COMPLETED:
            raise RankTableError(f"a part is {part.status!r}, not completed")
    formats = sorted({part.format for part in parts})
    if len(formats) > 1:
        raise RankTableError(
            "the parts are in different formats: {}".format(", ".join(formats) or "none"),
            "convert them first with: jumar ranktable show --format 1.0 -o FILE",
        )
    servers = [server for part in parts for server in part.servers]
    if formats[0] == V2_0:
        names = unlike_names(server.server_id for server in servers)
        servers = [server._replace(server_id=name) for server, name in zip(servers, names)]
    if by_server_id:
        servers.sort(key=lambda server: server.server_id)
    pods = _joined_pods(parts)
    place = {name: at for at, pod in enumerate(pods) for name in pod.server_ids}
    servers.sort(key=lambda server: place.get(server.server_id, -1))
    return RankTable(
        formats[0],
        COMPLETED,
        tuple(_numbered(servers)),
        tuple(_in_order(pod, servers) for pod in pods),
        parts[0].extras,
    )


def _joined_pods(parts: Sequence[RankTable]) -> List[SuperPod]:
    names: Dict[str, List[str]] = {}
    for part in parts:
        for pod in part.super_pods:
            known = names.setdefault(pod.super_pod_id, [])
            known += [name for name in pod.server_ids if name not in known]
    return [SuperPod(pod, tuple(servers)) for pod, servers in names.items()]


def _in_order(pod: SuperPod, servers: Sequence[RankServer]) -> SuperPod:
    inside = [server.server_id for server in servers if server.server_id in pod.server_ids]
    return SuperPod(pod.super_pod_id, tuple(inside))


def _numbered(servers: Sequence[RankServer]) -> List[RankServer]:
    rank = 0
    numbered: List[RankServer] = []
    for server in servers:
        devices: List[RankDevice] = []
        for device in server.devices:
            devices.append(device._replace(rank=rank))
            rank += 1
        numbered.append(server._replace(devices=tuple(devices)))
    return numbered
