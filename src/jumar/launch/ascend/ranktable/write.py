"""A `RankTable` to JSON in any format that can express it."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from jumar.launch.ascend.ranktable.records import (
    FORMATS,
    LAB,
    TEMPLATE_2,
    V1_0,
    V1_2,
    V2_0,
    NotExpressible,
    RankDevice,
    RankServer,
    RankTable,
)

Document = Dict[str, Any]


def document(table: RankTable, form: Optional[str] = None) -> Document:
    """The table as JSON values; in its own format unless another is asked for."""
    wanted = table.format if form is None else form
    if wanted == "":
        return {"status": table.status}
    if wanted not in FORMATS:
        raise NotExpressible(
            f"{wanted!r} is not a rank table format", "known: " + ", ".join(FORMATS)
        )
    writers = {LAB: _lab, TEMPLATE_2: _template_2, V1_0: _v1_0, V1_2: _v1_2, V2_0: _v2}
    return writers[wanted](table)


def dumps(table: RankTable, form: Optional[str] = None) -> str:
    """The table as text, indented for people."""
    return json.dumps(document(table, form), indent=2, ensure_ascii=False) + "\n"


def _lab(table: RankTable) -> Document:
    _need_addresses(table, LAB)
    extras = dict(table.extras) if table.format == LAB else {}
    group_name = extras.pop("group_name", "")
    names = extras.pop("para_plane_nic_name", None)
    if names is None:
        used = sorted({device.device_id for _, device in table.devices})
        names = [f"eth{number}" for number in used]
    instances = [
        {
            "devices": [_plain_device(device)],
            "rank_id": str(device.rank),
            "server_id": server.server_id,
        }
        for server, device in table.devices
    ]
    group = {
        "device_num": str(table.rank_count),
        "server_num": str(len(table.servers)),
        "group_name": group_name,
        "instance_count": str(table.rank_count),
        "instance_list": instances,
    }
    arm = os.uname().machine in ("aarch64", "arm64")
    return {
        "board_id": extras.pop("board_id", "0x0020" if arm else "0x0000"),
        "chip_info": extras.pop("chip_info", "910"),
        "deploy_mode": extras.pop("deploy_mode", "lab"),
        "group_count": "1",
        "group_list": [group],
        "para_plane_nic_location": extras.pop("para_plane_nic_location", "device"),
        "para_plane_nic_name": names,
        "para_plane_nic_num": str(len(names)),
        "status": table.status,
        **extras,
    }


def _template_2(table: RankTable) -> Document:
    _need_addresses(table, TEMPLATE_2)
    extras = dict(table.extras) if table.format == TEMPLATE_2 else {}
    group_name = extras.pop("group_name", "hccl_world_group")
    instances = [
        {
            "pod_name": server.pod_name or f"worker-{place}",
            "server_id": server.server_id,
            "devices": [_plain_device(device) for device in server.devices],
            **(server.extras if table.format == TEMPLATE_2 else {}),
        }
        for place, server in enumerate(table.servers)
    ]
    group = {
        "group_name": group_name,
        "instance_count": str(len(instances)),
        "device_count": str(table.rank_count),
        "instance_list": instances,
    }
    return {"status": table.status, "group_count": "1", "group_list": [group], **extras}


def _v1_0(table: RankTable) -> Document:
    if len(table.super_pods) > 1:
        raise NotExpressible(f"1.0 has no place for {len(table.super_pods)} superpods")
    return _version_1(table, V1_0, without=("super_device_id",))


def _v1_2(table: RankTable) -> Document:
    if not table.super_pods:
        raise NotExpressible("1.2 needs super_pod_list, which the table does not tell")
    for server, device in table.devices:
        if "super_device_id" not in device.extras:
            raise NotExpressible(
                f"1.2 needs super_device_id, which device {device.device_id} of {server.server_id} lacks"
            )
    written = _version_1(table, V1_2)
    written["super_pod_list"] = [
        {
            "super_pod_id": pod.super_pod_id,
            "server_list": [{"server_id": name} for name in pod.server_ids],
        }
        for pod in table.super_pods
    ]
    return written


def _version_1(table: RankTable, version: str, without: Tuple[str, ...] = ()) -> Document:
    keep = table.format in (V1_0, V1_2)
    return {
        "version": version,
        "server_count": str(len(table.servers)),
        "server_list": [_server(server, keep, without) for server in table.servers],
        "status": table.status,
        **(table.extras if keep else {}),
    }


def _server(server: RankServer, keep: bool, without: Tuple[str, ...]) -> Document:
    devices: List[Document] = []
    for device in server.devices:
        extras = {name: value for name, value in device.extras.items() if name not in without}
        written = {**_plain_device(device), "rank_id": str(device.rank)}
        devices.append({**written, **(_as_text(extras) if keep else {})})
    return {
        "server_id": server.server_id,
        "device": devices,
        **(server.extras if keep else {}),
    }


def _v2(table: RankTable) -> Document:
    ranks: List[Document] = []
    for server in table.servers:
        for place, device in enumerate(server.devices):
            local_id = place if device.local_id is None else device.local_id
            ranks.append(
                {
                    "rank_id": device.rank,
                    "local_id": local_id,
                    "device_id": device.device_id,
                    **(device.extras if table.format == V2_0 else {}),
                    "level_list": [dict(level) for level in device.levels]
                    or [_level(server, device)],
                }
            )
    return {
        "version": V2_0,
        "status": table.status,
        "rank_count": len(ranks),
        "rank_list": ranks,
        **(table.extras if table.format == V2_0 else {}),
    }


def _level(server: RankServer, device: RankDevice) -> Document:
    if device.device_ip is None:
        raise NotExpressible(
            f"2.0 needs an address: device {device.device_id} of {server.server_id} has none"
        )
    return {
        "net_layer": 0,
        "net_instance_id": server.server_id,
        "net_type": "TOPO_FILE_DESC",
        "net_attr": "",
        "rank_addr_list": [{"addr_type": "IPV4", "addr": device.device_ip, "ports": []}],
    }


def _plain_device(device: RankDevice) -> Document:
    plain: Document = {"device_id": str(device.device_id)}
    if device.device_ip is not None:
        plain["device_ip"] = device.device_ip
    return plain


def _as_text(extras: Mapping[str, Any]) -> Document:
    return {
        name: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in extras.items()
    }


def _need_addresses(table: RankTable, form: str) -> None:
    for server, device in table.devices:
        if device.device_ip is None:
            raise NotExpressible(
                f"{form} needs device_ip: device {device.device_id} of {server.server_id} has none",
                "addresses are in /etc/hccn.conf, or ask: hccn_tool -i N -ip -g",
            )
