"""JSON to a `RankTable`, whatever the format. Numbers may be text or numbers, as writers differ."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from jumar.launch.ascend.ranktable.records import (
    INITIALIZING,
    LAB,
    NOTHING,
    TEMPLATE_2,
    V1_0,
    V1_2,
    V2_0,
    RankDevice,
    RankServer,
    RankTable,
    SuperPod,
    Unreadable,
    unlike_names,
)

MOST_BYTES = 64 << 20
Json = Mapping[str, Any]


def read_table(path: "Union[str, os.PathLike[str]]") -> RankTable:
    """The table in a file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise Unreadable(f"{path} is larger than {MOST_BYTES} bytes: not a rank table")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is not JSON: {error}") from error
    try:
        return parse(found)
    except Unreadable as error:
        raise Unreadable(f"{path}: {error.message}", error.hint) from error


def parse(found: Any) -> RankTable:
    """The table that JSON values describe."""
    table = _mapping(found, "the table")
    if table.get("status") == INITIALIZING:
        # Platforms fill the rest in bit by bit; until then it means nothing.
        return RankTable("", INITIALIZING)
    form = detect(table)
    if form == "":
        return RankTable("", _text(table, "status", "the table"))
    readers = {LAB: _lab, TEMPLATE_2: _template_2, V1_0: _version_1, V1_2: _version_1, V2_0: _v2}
    return readers[form](table, form)


def detect(table: Json) -> str:
    """Which format the table is in; empty for one that has a status and nothing else."""
    if "edge_list" in table:
        raise Unreadable("this is a topology file, not a rank table")
    version = table.get("version")
    if version is not None:
        if str(version) not in (V1_0, V1_2, V2_0):
            raise Unreadable(f"version {version!r} is not known", "known versions: 1.0, 1.2, 2.0")
        return str(version)
    if "group_list" in table:
        return LAB if _has_ranks(table) or "deploy_mode" in table else TEMPLATE_2
    if "rank_list" in table:
        return V2_0
    if "server_list" in table:
        return V1_2 if "super_pod_list" in table else V1_0
    if set(table) == {"status"}:
        return ""
    raise Unreadable(
        "this is not a rank table: no version, server_list, group_list or rank_list",
        "make one with: jumar ranktable make",
    )


def _has_ranks(table: Json) -> bool:
    for group in _list(table, "group_list", "the table"):
        for instance in _list(_mapping(group, "group_list"), "instance_list", "group_list"):
            return "rank_id" in _mapping(instance, "instance_list")
    return False


def _lab(table: Json, form: str) -> RankTable:
    group = _only_group(table)
    devices: Dict[str, List[RankDevice]] = {}
    for at, item in enumerate(_list(group, "instance_list", "group_list[0]")):
        place = f"group_list[0].instance_list[{at}]"
        instance = _mapping(item, place)
        server_id = _text(instance, "server_id", place)
        for device in _devices(instance, place):
            devices.setdefault(server_id, []).append(
                _device(device, place, rank=_whole(instance, "rank_id", place))
            )
    servers = tuple(RankServer(name, tuple(found)) for name, found in devices.items())
    extras = _rest(table, "group_list", "status", "group_count", "para_plane_nic_num")
    extras["group_name"] = group.get("group_name", "")
    if "para_plane_nic_name" in table:
        extras["para_plane_nic_name"] = _list(table, "para_plane_nic_name", "the table")
    return RankTable(form, _status(table), servers, (), extras, _declared(table, group))


def _template_2(table: Json, form: str) -> RankTable:
    group = _only_group(table)
    servers: List[RankServer] = []
    rank = 0
    for at, item in enumerate(_list(group, "instance_list", "group_list[0]")):
        place = f"group_list[0].instance_list[{at}]"
        instance = _mapping(item, place)
        found: List[RankDevice] = []
        for device in _devices(instance, place):
            found.append(_device(device, place, rank=rank))
            rank += 1
        servers.append(
            RankServer(
                _text(instance, "server_id", place),
                tuple(found),
                _text(instance, "pod_name", place),
                _rest(instance, "pod_name", "server_id", "devices"),
            )
        )
    extras = _rest(table, "group_list", "status", "group_count")
    extras["group_name"] = group.get("group_name", "")
    return RankTable(form, _status(table), tuple(servers), (), extras, _declared(table, group))


def _version_1(table: Json, form: str) -> RankTable:
    servers: List[RankServer] = []
    for at, item in enumerate(_list(table, "server_list", "the table")):
        place = f"server_list[{at}]"
        server = _mapping(item, place)
        found = tuple(
            _device(
                device,
                f"{place}.device[{number}]",
                rank=_whole(_mapping(device, place), "rank_id", f"{place}.device[{number}]"),
            )
            for number, device in enumerate(_list(server, "device", place))
        )
        rest = _rest(server, "server_id", "device")
        servers.append(RankServer(_text(server, "server_id", place), found, None, rest))
    return RankTable(
        form,
        _status(table),
        tuple(servers),
        _super_pods(table),
        _rest(table, "version", "status", "server_count", "server_list", "super_pod_list"),
        _declared(table),
    )


def _super_pods(table: Json) -> Tuple[SuperPod, ...]:
    if "super_pod_list" not in table:
        return ()
    pods: List[SuperPod] = []
    for at, item in enumerate(_list(table, "super_pod_list", "the table")):
        place = f"super_pod_list[{at}]"
        pod = _mapping(item, place)
        servers = _list(pod, "server_list", place)
        names = tuple(_text(_mapping(server, place), "server_id", place) for server in servers)
        pods.append(SuperPod(_text(pod, "super_pod_id", place), names))
    return tuple(pods)


def _v2(table: Json, form: str) -> RankTable:
    grouped: List[Tuple[str, List[RankDevice]]] = []
    for at, item in enumerate(_list(table, "rank_list", "the table")):
        place = f"rank_list[{at}]"
        rank = _mapping(item, place)
        levels = tuple(_mapping(level, place) for level in _list(rank, "level_list", place))
        device = _device(rank, place, rank=_whole(rank, "rank_id", place), levels=levels)
        name = str(levels[0].get("net_instance_id", "")) if levels else ""
        if not grouped or grouped[-1][0] != name or _is_in(device, grouped[-1][1]):
            grouped.append((name, []))
        grouped[-1][1].append(device)
    names = unlike_names(name for name, _ in grouped)
    servers = tuple(RankServer(name, tuple(found)) for name, (_, found) in zip(names, grouped))
    rest = _rest(table, "version", "status", "rank_count", "rank_list")
    return RankTable(form, _status(table), servers, (), rest, _declared(table))


def _is_in(device: RankDevice, devices: List[RankDevice]) -> bool:
    # 2.0 does not name servers: the next one begins where a device number comes again.
    return any(other.device_id == device.device_id for other in devices)


def _device(found: Any, place: str, *, rank: int, levels: Tuple[Json, ...] = ()) -> RankDevice:
    device = _mapping(found, place)
    address = device.get("device_ip") or _first_address(levels)
    return RankDevice(
        _whole(device, "device_id", place),
        rank,
        str(address) if address else None,
        _whole(device, "local_id", place) if "local_id" in device else None,
        levels,
        _rest(device, "device_id", "device_ip", "rank_id", "local_id", "level_list"),
    )


def _first_address(levels: Tuple[Json, ...]) -> Optional[str]:
    addresses = [
        _mapping(item, "rank_addr_list")
        for level in levels
        for item in _list(level, "rank_addr_list", "level_list")
    ]
    for address in addresses:
        if str(address.get("addr_type", "")).upper() == "IPV4":
            return _text(address, "addr", "rank_addr_list")
    return None


def _only_group(table: Json) -> Json:
    groups = _list(table, "group_list", "the table")
    if len(groups) != 1:
        raise Unreadable(f"group_list has {len(groups)} groups, one is known")
    return _mapping(groups[0], "group_list[0]")


def _devices(instance: Json, place: str) -> List[Any]:
    # An early generator wrote the single device without the list around it.
    devices = instance.get("devices")
    return [devices] if isinstance(devices, dict) else _list(instance, "devices", place)


def _declared(*parts: Json) -> Mapping[str, int]:
    names = ("server_count", "group_count", "instance_count", "device_count", "device_num")
    names += ("server_num", "rank_count", "para_plane_nic_num")
    return {
        name: _whole(part, name, "the table") for part in parts for name in names if name in part
    } or NOTHING


def _status(table: Json) -> str:
    return str(table.get("status", ""))


def _rest(found: Json, *known: str) -> Dict[str, Any]:
    return {name: value for name, value in found.items() if name not in known}


def _mapping(found: Any, place: str) -> Json:
    if not isinstance(found, dict):
        raise Unreadable(f"{place} is not an object")
    return found  # pyright: ignore[reportUnknownVariableType]


def _list(found: Json, name: str, place: str) -> List[Any]:
    value = found.get(name)
    if not isinstance(value, list):
        raise Unreadable(f"{place}: {name} is missing or not a list")
    return value  # pyright: ignore[reportUnknownVariableType]


def _text(found: Json, name: str, place: str) -> str:
    value = found.get(name)
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise Unreadable(f"{place}: {name} is missing")
    return str(value)


def _whole(found: Json, name: str, place: str) -> int:
    text = _text(found, name, place).strip()
    if not (text.isdigit() and text.isascii() and len(text) <= 9):
        raise Unreadable(f"{place}: {name} is {text!r}, not a number")
    return int(text)
