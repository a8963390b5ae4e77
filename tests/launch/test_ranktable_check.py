"""Each kind of damage is found by its name."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from jumar.launch.ascend.ranktable import check, parse

Document = dict[str, Any]


def whole() -> Document:
    return {
        "version": "1.0",
        "server_count": "2",
        "status": "completed",
        "server_list": [
            {
                "server_id": name,
                "device": [
                    {"device_id": str(n), "device_ip": f"10.{at}.0.{n}", "rank_id": str(at * 4 + n)}
                    for n in range(4)
                ],
            }
            for at, name in enumerate(["alpha", "beta"])
        ],
    }


def pods() -> Document:
    found = whole()
    found["version"] = "1.2"
    for at, server in enumerate(found["server_list"]):
        for device in server["device"]:
            device["super_device_id"] = f"{at}{device['device_id']}"
    found["super_pod_list"] = [
        {"super_pod_id": "0", "server_list": [{"server_id": "alpha"}, {"server_id": "beta"}]}
    ]
    return found


def device(found: Document, server: int, at: int) -> Document:
    return found["server_list"][server]["device"][at]


def names(found: Document, chip: str | None = None, severity: str = "error") -> set[str]:
    return {finding.name for finding in check(parse(found), chip) if finding.severity == severity}


def test_a_whole_table_has_no_fault():
    assert check(parse(whole()), "910") == []
    assert check(parse(pods()), "A3") == []


def put(server: int, at: int, **fields: Any) -> Callable[[Document], None]:
    def damage(found: Document) -> None:
        device(found, server, at).update(fields)

    return damage


def put_top(**fields: Any) -> Callable[[Document], None]:
    return lambda found: found.update(fields)


def drop_status(found: Document) -> None:
    del found["status"]


def swap_devices(found: Document) -> None:
    devices = found["server_list"][0]["device"]
    devices[0], devices[1] = devices[1], devices[0]


def interleave(found: Document) -> None:
    one, two = device(found, 0, 3), device(found, 1, 0)
    one["rank_id"], two["rank_id"] = two["rank_id"], one["rank_id"]


def swap_servers(found: Document) -> None:
    found["server_list"].reverse()


def drop_address(found: Document) -> None:
    del device(found, 1, 2)["device_ip"]


def long_name(found: Document) -> None:
    found["server_list"][1]["server_id"] = "n" * 65


def same_server(found: Document) -> None:
    found["server_list"][1]["server_id"] = "alpha"


def no_devices_at_the_end(found: Document) -> None:
    found["server_list"][1]["device"] = []


def no_devices(found: Document) -> None:
    found.update(server_list=[], server_count="0")


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (put(1, 0, rank_id="3"), "duplicate-rank"),
        (put(1, 3, rank_id="9"), "rank-gap"),
        (swap_devices, "rank-order"),
        (interleave, "rank-order"),
        (swap_servers, "rank-order"),
        (drop_address, "missing-device-ip"),
        (long_name, "server-id-too-long"),
        (same_server, "duplicate-server"),
        (put(0, 1, device_id="0"), "duplicate-device"),
        (put(0, 1, device_ip="10.0.0.0"), "duplicate-address"),
        (put(0, 1, device_ip="192.1.*.6"), "bad-address"),
        (put(0, 1, backup_device_ip="10.0.0"), "bad-address"),
        (put_top(server_count="3"), "count"),
        (put_top(status="initializing"), "status"),
        (put_top(status="done"), "status"),
        (drop_status, "status"),
        (no_devices, "empty"),
        (no_devices_at_the_end, "empty"),
    ],
)
def test_damage_is_named(damage: Callable[[Document], object], name: str):
    found = whole()
    damage(found)
    assert name in names(found)


def test_64_characters_are_allowed():
    found = whole()
    found["server_list"][1]["server_id"] = "n" * 64
    assert names(found) == set()


@pytest.mark.parametrize(
    ("chip", "severity", "servers"),
    [("910", "error", 1), ("A2", "error", 2), ("A3", "error", 2), (None, "warning", 1)],
)
def test_an_address_is_needed_on_910_and_across_servers(
    chip: str | None, severity: str, servers: int
):
    found = whole()
    found["server_list"] = found["server_list"][:servers]
    found["server_count"] = str(servers)
    del device(found, 0, 2)["device_ip"]
    assert "missing-device-ip" in names(found, chip, severity)


def test_one_a2_server_needs_no_address():
    found = whole()
    found["server_list"].pop()
    found["server_count"] = "1"
    del device(found, 0, 2)["device_ip"]
    assert check(parse(found), "A2") == []


@pytest.mark.parametrize(
    ("chip", "fits"), [("910", True), ("A2", True), ("A3", True), ("A5", False)]
)
def test_the_version_must_fit_the_chip(chip: str, fits: bool):
    assert ("wrong-version" in names(whole(), chip)) is not fits


def test_superpods():
    apart = pods()
    third = copy.deepcopy(apart["server_list"][1])
    third["server_id"] = "gamma"
    for n, item in enumerate(third["device"]):
        item.update(rank_id=str(8 + n), device_ip=f"10.2.0.{n}", super_device_id=f"2{n}")
    apart["server_list"].append(third)
    apart["server_count"] = "3"
    apart["super_pod_list"] = [
        {"super_pod_id": "0", "server_list": [{"server_id": "alpha"}, {"server_id": "gamma"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "beta"}]},
    ]
    assert names(apart) == {"superpod-order"}

    lost = pods()
    lost["super_pod_list"][0]["server_list"][1]["server_id"] = "delta"
    assert names(lost) == {"superpod-missing", "superpod-unknown-server"}

    twice = pods()
    twice["super_pod_list"].append({"super_pod_id": "1", "server_list": [{"server_id": "beta"}]})
    assert "superpod-twice" in names(twice)

    bare = pods()
    del device(bare, 0, 0)["super_device_id"]
    device(bare, 1, 1)["super_device_id"] = device(bare, 1, 0)["super_device_id"]
    assert names(bare) == {"missing-super-device-id", "duplicate-super-device"}


def test_warnings_for_some_readers():
    found = whole()
    found["server_list"][0]["server_id"] = "zeta"
    assert names(found, severity="warning") == {"server-order"}
    found["server_list"][0]["server_id"] = "127.0.1.1"
    assert names(found, severity="warning") == {"loopback-server-id"}
    device(found, 1, 3)["device_id"] = "5"
    assert "ring" in names(found, "910", "warning")
    assert "ring" not in names(found, "A2", "warning")
