"""This machine's part of a rank table, on made-up machines."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from jumar.devices.machine import Machine
from jumar.devices.rank_part import PartRequest, parse_ids, part_here
from jumar.errors import BadInput, NotFound
from jumar.launch.ascend.ranktable import document
from jumar.launch.processes.probe import Answer

SAMPLES = Path(__file__).parent / "samples"
HERE = {"HCCL_IF_IP": "10.0.0.7"}


def made_up(root: Path, answers: dict[str, str], **files: str) -> Machine:
    tool = root / "usr/local/bin/npu-smi"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (root / "etc").mkdir()
    for name, text in files.items():
        (root / "etc" / name.replace("_json", ".json").replace("_conf", ".conf")).write_text(text)

    def answer(command: Sequence[str], *, timeout_s: float) -> Answer:
        words = " ".join(command[1:])
        return Answer(0, answers[words]) if words in answers else Answer(1, "not supported")

    return Machine(root, answer, HERE)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("5,1", (1, 5)),
        ("[0,16)", tuple(range(16))),
        ("12", (12,)),
        ("0-1, 8-9", (0, 1, 8, 9)),
    ],
)
def test_ids(text: str, ids: tuple[int, ...]):
    assert parse_ids(text) == ids


@pytest.mark.parametrize("text", ["", "a", "3-1", "0,0", "[4,4)", "0-", "-1"])
def test_ids_that_are_none(text: str):
    with pytest.raises(BadInput):
        parse_ids(text)


def test_the_devices_of_a_container_have_the_addresses_of_their_physical_ids(tmp_path: Path):
    machine = made_up(
        tmp_path,
        {"info": sample("info_a2_container.txt")},
        hccn_conf="address_0=10.1.0.1\naddress_9=10.1.0.9\naddress_10=10.1.0.10\n",
    )
    part = part_here(PartRequest(), machine)
    assert part.chip == "A2"
    assert document(part.table) == {
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "10.0.0.7",
                "device": [
                    {"device_id": "9", "device_ip": "10.1.0.9", "rank_id": "0"},
                    {"device_id": "10", "device_ip": "10.1.0.10", "rank_id": "1"},
                ],
            }
        ],
        "status": "completed",
    }


def test_a3_in_a_superpod_is_of_version_1_2(tmp_path: Path):
    answers = {"info": sample("info_a3.txt")}
    for npu, chip, sdid in ((5, 0, 40), (5, 1, 41)):
        answers[f"info -t spod-info -i {npu} -c {chip}"] = (
            f"SDID              : {sdid}\nSuper Pod Size    : 384\nSuper Pod ID      : 6\nServer Index : 2\n"
        )
    part = part_here(PartRequest(ids=(10, 11)), made_up(tmp_path, answers))
    found = document(part.table)
    assert (part.chip, found["version"]) == ("A3", "1.2")
    assert [device["super_device_id"] for device in found["server_list"][0]["device"]] == [
        "40",
        "41",
    ]
    assert found["super_pod_list"] == [
        {"super_pod_id": "6", "server_list": [{"server_id": "10.0.0.7"}]}
    ]


def test_a3_outside_a_superpod_is_of_version_1_0(tmp_path: Path):
    part = part_here(PartRequest(), made_up(tmp_path, {"info": sample("info_a3.txt")}))
    assert (part.chip, part.table.format, part.table.rank_count) == ("A3", "1.0", 4)


def test_a5_takes_the_addresses_that_the_driver_wrote_down(tmp_path: Path):
    levels = [
        {
            "net_layer": 0,
            "net_instance_id": "pod9",
            "net_type": "TOPO_FILE_DESC",
            "net_attr": "",
            "rank_addr_list": [{"addr_type": "EID", "addr": "ab", "ports": ["0/1"]}],
        }
    ]
    ranks = [
        {"rank_id": n, "device_id": n + 3, "local_id": n, "level_list": levels} for n in range(2)
    ]
    root_info = json.dumps({"version": "2.0", "rank_count": 2, "rank_list": ranks})
    machine = made_up(tmp_path, {"info": sample("info_a5.txt")}, hccl_rootinfo_json=root_info)
    found = document(part_here(PartRequest(ids=(4,)), machine).table)
    assert (found["version"], found["rank_count"]) == ("2.0", 1)
    assert found["rank_list"][0]["device_id"] == 4
    assert found["rank_list"][0]["level_list"] == levels


def test_a_damaged_file_of_the_driver_is_said_to_be_so(tmp_path: Path):
    machine = made_up(tmp_path, {"info": sample("info_a5.txt")}, hccl_rootinfo_json="[1]")
    with pytest.raises(BadInput, match="rootinfo"):
        part_here(PartRequest(), machine)


def test_a_machine_without_npus_makes_a_table_only_of_named_devices(tmp_path: Path):
    machine = Machine(tmp_path, environ=HERE)
    with pytest.raises(NotFound, match="no NPU"):
        part_here(PartRequest(), machine)
    part = part_here(PartRequest(ids=(0, 1), chip="A2", server_id="node7"), machine)
    assert [(s.server_id, d.device_id) for s, d in part.table.devices] == [
        ("node7", 0),
        ("node7", 1),
    ]


def test_a_device_that_is_not_here_is_refused(tmp_path: Path):
    machine = made_up(tmp_path, {"info": sample("info_a3.txt")})
    with pytest.raises(BadInput, match="this machine has no NPU 3"):
        part_here(PartRequest(ids=(3,)), machine)
