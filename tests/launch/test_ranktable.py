"""Formats: what is read is written again, and what fits is converted."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.launch.ascend.ranktable import (
    FORMATS,
    NotExpressible,
    RankTable,
    RankTableError,
    Unreadable,
    check,
    document,
    dumps,
    format_for,
    make,
    merge,
    parse,
    read_table,
)
from jumar.launch.ascend.ranktable.make import NodeDevice
from jumar.launch.nodes.team import host_address

LAB: dict[str, Any] = {
    "board_id": "0x0000",
    "chip_info": "910",
    "deploy_mode": "lab",
    "group_count": "1",
    "group_list": [
        {
            "device_num": "3",
            "server_num": "2",
            "group_name": "g",
            "instance_count": "3",
            "instance_list": [
                {
                    "devices": [{"device_id": "4", "device_ip": "10.1.0.4"}],
                    "rank_id": "0",
                    "server_id": "10.0.0.1",
                },
                {
                    "devices": [{"device_id": "5", "device_ip": "10.1.0.5"}],
                    "rank_id": "1",
                    "server_id": "10.0.0.1",
                },
                {
                    "devices": [{"device_id": "0", "device_ip": "10.2.0.1"}],
                    "rank_id": "2",
                    "server_id": "10.0.0.2",
                },
            ],
        }
    ],
    "para_plane_nic_location": "device",
    "para_plane_nic_name": ["eth4", "eth5", "eth0"],
    "para_plane_nic_num": "3",
    "status": "completed",
}
TEMPLATE_2: dict[str, Any] = {
    "status": "completed",
    "group_count": "1",
    "group_list": [
        {
            "group_name": "world",
            "instance_count": "2",
            "device_count": "3",
            "instance_list": [
                {
                    "pod_name": "ann-0",
                    "server_id": "alpha",
                    "devices": [
                        {"device_id": "0", "device_ip": "10.3.0.1"},
                        {"device_id": "1", "device_ip": "10.3.0.2"},
                    ],
                },
                {
                    "pod_name": "ann-1",
                    "server_id": "beta",
                    "devices": [{"device_id": "7", "device_ip": "10.3.0.3"}],
                },
            ],
        }
    ],
}
V1_0: dict[str, Any] = {
    "status": "completed",
    "version": "1.0",
    "server_count": "2",
    "server_list": [
        {
            "server_id": "alpha",
            "host_ip": "10.0.0.1",
            "device": [
                {"device_id": "2", "device_ip": "10.4.0.1", "device_port": "16667", "rank_id": "0"},
                {"device_id": "3", "device_ip": "10.4.0.2", "device_port": "16667", "rank_id": "1"},
            ],
        },
        {
            "server_id": "beta",
            "host_nic_ip": "reserve",
            "device": [{"device_id": "2", "device_ip": "10.4.0.3", "rank_id": "2"}],
        },
    ],
    "cluster_list": [{"cluster_id": "c0", "server_list": [{"server_id": "alpha"}]}],
}
V1_2: dict[str, Any] = {
    "status": "completed",
    "version": "1.2",
    "server_count": "3",
    "server_list": [
        {
            "server_id": name,
            "host_ip": f"10.0.0.{at}",
            "device": [
                {
                    "device_id": "9",
                    "super_device_id": number,
                    "device_ip": f"10.5.0.{at}",
                    "backup_device_ip": f"10.6.0.{at}",
                    "host_port": "16665",
                    "rank_id": str(at),
                }
            ],
        }
        for at, (name, number) in enumerate([("n0", "0"), ("n1", "1"), ("n2", "0")])
    ],
    "super_pod_list": [
        {"super_pod_id": "11", "server_list": [{"server_id": "n0"}, {"server_id": "n1"}]},
        {"super_pod_id": "12", "server_list": [{"server_id": "n2"}]},
    ],
}
V2_0: dict[str, Any] = {
    "status": "completed",
    "version": "2.0",
    "rank_count": 3,
    "rank_list": [
        {
            "rank_id": rank,
            "local_id": device,
            "device_id": device,
            "device_port": 16666 + rank,
            "level_list": [
                {
                    "net_layer": 0,
                    "net_instance_id": pod,
                    "net_type": "TOPO_FILE_DESC",
                    "net_attr": "",
                    "rank_addr_list": [
                        {"addr_type": "EID", "addr": f"{rank:032x}", "ports": ["0/1"]}
                    ],
                },
                {
                    "net_layer": 1,
                    "net_instance_id": "zone",
                    "net_type": "CLOS",
                    "net_attr": "",
                    "rank_addr_list": [
                        {
                            "addr_type": "IPV4",
                            "addr": f"10.7.0.{rank}",
                            "ports": ["1/2"],
                            "plane_id": "p",
                        }
                    ],
                },
            ],
        }
        for rank, (device, pod) in enumerate([(0, "pod0"), (1, "pod0"), (0, "pod1")])
    ],
}
TABLES = {"lab": LAB, "template2": TEMPLATE_2, "1.0": V1_0, "1.2": V1_2, "2.0": V2_0}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_comes_back_as_it_was(form: str):
    table = parse(TABLES[form])
    assert table.format == form
    assert document(table) == TABLES[form]
    assert check(table) == []


def test_what_the_formats_say_is_the_same_record():
    lab = parse(LAB)
    assert [
        (server.server_id, device.device_id, device.rank, device.device_ip)
        for server, device in lab.devices
    ] == [
        ("10.0.0.1", 4, 0, "10.1.0.4"),
        ("10.0.0.1", 5, 1, "10.1.0.5"),
        ("10.0.0.2", 0, 2, "10.2.0.1"),
    ]
    pods = parse(TEMPLATE_2)
    assert [device.rank for _, device in pods.devices] == [0, 1, 2]
    assert [server.pod_name for server in pods.servers] == ["ann-0", "ann-1"]
    superpods = parse(V1_2)
    assert [(pod.super_pod_id, pod.server_ids) for pod in superpods.super_pods] == [
        ("11", ("n0", "n1")),
        ("12", ("n2",)),
    ]
    a5 = parse(V2_0)
    assert [(server.server_id, len(server.devices)) for server in a5.servers] == [
        ("pod0", 2),
        ("pod1", 1),
    ]
    assert [device.device_ip for _, device in a5.devices] == ["10.7.0.0", "10.7.0.1", "10.7.0.2"]


@pytest.mark.parametrize("form", ["lab", "template2", "1.0", "2.0"])
@pytest.mark.parametrize("source", ["lab", "template2", "1.0", "2.0"])
def test_what_a_format_can_express_is_converted(source: str, form: str):
    table = parse(TABLES[source])
    other = parse(document(table, form))
    assert other.format == form
    assert [(d.device_id, d.rank, d.device_ip) for _, d in other.devices] == [
        (d.device_id, d.rank, d.device_ip) for _, d in table.devices
    ]
    assert check(other) == []


def test_superpods_fit_nowhere_else_and_need_their_own_ids():
    with pytest.raises(NotExpressible, match="2 superpods"):
        document(parse(V1_2), "1.0")
    with pytest.raises(NotExpressible, match="super_pod_list"):
        document(parse(V1_0), "1.2")
    with pytest.raises(NotExpressible, match="not a rank table format"):
        document(parse(V1_0), "3.0")


def test_a_table_without_addresses_cannot_be_for_the_first_generation():
    table = make("alpha", [NodeDevice(0), NodeDevice(1)])
    for form in ("lab", "template2", "2.0"):
        with pytest.raises(NotExpressible, match="device 0 of alpha"):
            document(table, form)
    assert "device_ip" not in document(table)["server_list"][0]["device"][0]


def test_writers_that_used_numbers_or_left_out_the_list_are_read():
    odd = json.loads(json.dumps(LAB))
    group = odd["group_list"][0]
    group["device_num"] = 3
    odd["para_plane_nic_num"] = 3
    for instance in group["instance_list"]:
        instance["devices"] = instance["devices"][0]
        instance["rank_id"] = int(instance["rank_id"])
    assert document(parse(odd)) == LAB


def test_a_table_being_made_has_only_a_status():
    table = parse({"status": "initializing"})
    assert (table.format, table.status, table.servers) == ("", "initializing", ())
    assert document(table) == {"status": "initializing"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not a rank table"),
        ('{"version": "9.9"}', "version '9.9'"),
        ('{"version": "1.0", "server_list": 3}', "server_list is missing or not a list"),
        ('{"version": "1.0", "server_list": [{"device": []}]}', "server_list[0]: server_id"),
        (
            '{"version": "1.0", "server_list": [{"server_id": "a", "device": [{"device_id": "x", "rank_id": "0"}]}]}',
            "device[0]: device_id is 'x'",
        ),
        ('{"group_list": []}', "0 groups"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(tmp_path: Path, text: str, words: str):
    path = tmp_path / "hccl.json"
    path.write_text(text)
    with pytest.raises(Unreadable) as caught:
        read_table(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path):
    with pytest.raises(Unreadable, match="No such file"):
        read_table(tmp_path / "none.json")


def test_what_is_written_is_read_again_the_same(tmp_path: Path):
    path = tmp_path / "hccl.json"
    path.write_text(dumps(parse(V1_0)))
    assert read_table(path) == parse(V1_0)
    with pytest.raises(NotExpressible):
        dumps(parse(V1_0), "1.2")


def test_the_format_follows_the_chip():
    assert [format_for(chip) for chip in ("910", "A2", "A3", "A5", None)] == [
        "1.0",
        "1.0",
        "1.0",
        "2.0",
        "1.0",
    ]
    assert format_for("A3", super_pod_id="3") == "1.2"


def test_more_than_ten_devices_are_in_number_order():
    table = make("alpha", [NodeDevice(n, f"10.0.0.{n}") for n in (10, 2, 15, 0)])
    assert [(d.device_id, d.rank) for _, d in table.devices] == [(0, 0), (2, 1), (10, 2), (15, 3)]


def test_merging_counts_ranks_through():
    parts = [
        make(name, [NodeDevice(0, f"10.0.{at}.1"), NodeDevice(1, f"10.0.{at}.2")])
        for at, name in enumerate(["b", "a"])
    ]
    merged = merge(parts)
    assert [(s.server_id, d.rank) for s, d in merged.devices] == [
        ("b", 0),
        ("b", 1),
        ("a", 2),
        ("a", 3),
    ]
    assert [finding.name for finding in check(merged)] == ["server-order"]
    assert check(merge(parts, by_server_id=True)) == []


def test_merging_brings_servers_of_a_superpod_together():
    parts = [
        make(
            name,
            [NodeDevice(0, f"10.0.{at}.1", super_device_id=str(at))],
            form="1.2",
            super_pod_id=pod,
        )
        for at, (name, pod) in enumerate([("a", "1"), ("b", "2"), ("c", "1")])
    ]
    merged = merge(parts)
    assert [server.server_id for server in merged.servers] == ["a", "c", "b"]
    assert [pod.server_ids for pod in merged.super_pods] == [("a", "c"), ("b",)]
    assert not [finding for finding in check(merged, "A3") if finding.severity == "error"]


def one_of_a_network(node: int) -> RankTable:
    """A5 servers on one network: 2.0 names the network only."""
    ranks = [
        {
            "rank_id": n,
            "device_id": n,
            "level_list": [
                {
                    "net_layer": 0,
                    "net_instance_id": "rack7",
                    "rank_addr_list": [{"addr_type": "EID", "addr": f"00{node}a{n}"}],
                }
            ],
        }
        for n in range(2)
    ]
    return parse({"version": "2.0", "status": "completed", "rank_count": 2, "rank_list": ranks})


def test_merging_keeps_servers_on_one_network_apart():
    table = merge([one_of_a_network(node) for node in range(3)])
    assert check(table, "A5") == []
    assert [device.rank for _, device in table.devices] == list(range(6))
    again = parse(document(table))
    assert [len(server.devices) for server in again.servers] == [2, 2, 2]
    longer = merge([again, one_of_a_network(3)])
    assert len({server.server_id for server in longer.servers}) == 4
    twice = merge([one_of_a_network(0), one_of_a_network(0)])
    assert {finding.name for finding in check(twice)} == {"duplicate-address"}


def test_parts_that_do_not_go_together_are_refused():
    with pytest.raises(RankTableError, match="different formats"):
        merge([parse(V1_0), parse(LAB)])
    with pytest.raises(RankTableError, match="initializing"):
        merge([parse({**V1_0, "status": "initializing"})])
    with pytest.raises(RankTableError, match="nothing"):
        merge([])


def test_the_hosts_address_is_not_loopback():
    assert host_address(environ={"HCCL_IF_IP": "10.9.9.9"}) == "10.9.9.9"
    assert not host_address("127.0.0.1", environ={}).startswith("127.")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rank = 0
    servers: list[dict[str, Any]] = []
    for at, size in enumerate(sizes):
        devices: list[dict[str, str]] = []
        for number in sorted(draw(st.sets(st.integers(0, 15), min_size=size, max_size=size))):
            devices.append(
                {"device_id": str(number), "device_ip": f"10.{at}.0.{number}", "rank_id": str(rank)}
            )
            rank += 1
        servers.append({"server_id": f"node{at}", "device": devices})
    return {
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": servers,
        "status": "completed",
    }


@settings(max_examples=100, deadline=None)
@given(tables(), st.sampled_from(["lab", "template2", "1.0", "2.0"]))
def test_any_table_goes_through_any_format_and_back(found: dict[str, Any], form: str):
    table = parse(found)
    assert check(table) == []
    assert document(parse(document(table, form)), "1.0") == found


def slots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document that holds a value: its container and its key."""
    is_object = hasattr(value, "items")
    keys: list[Any] = list(value) if is_object else list(range(len(value)))
    deeper = [
        value[key] for key in keys if hasattr(value[key], "append") or hasattr(value[key], "items")
    ]
    return [(value, key) for key in keys] + [slot for inner in deeper for slot in slots(inner)]


ODD: list[Any] = [None, [], {}, "x", "", -1, 1.5, True, 999_999_999, "999999999", [[]]]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A table with some values dropped, doubled or replaced."""
    found: Any = json.loads(json.dumps(TABLES[draw(st.sampled_from(FORMATS))]))
    for _ in range(draw(st.integers(1, 4))):
        places = slots(found)
        if not places:
            break
        container, key = places[draw(st.integers(0, len(places) - 1))]
        kind = draw(st.sampled_from(["drop", "double", "replace"]))
        if kind == "drop":
            del container[key]
        elif kind == "double" and hasattr(container, "append"):
            container.append(json.loads(json.dumps(container[key])))
        else:
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return found


@settings(max_examples=400, deadline=None)
@given(damaged())
def test_damage_is_refused_or_found_never_a_crash(found: Any):
    try:
        table = parse(found)
    except Unreadable as error:
        assert error.message
        return
    for chip in (None, "910", "A2", "A3", "A5"):
        assert all(finding.text for finding in check(table, chip))
    for form in FORMATS:
        try:
            json.dumps(document(table, form))
        except NotExpressible as error:
            assert error.message
