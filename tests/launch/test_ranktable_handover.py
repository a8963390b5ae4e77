import json
import multiprocessing
import subprocess
import time
from pathlib import Path
from threading import Thread

import pytest

from jumar.launch.ascend.apply import ranks_of_cards, use_rank_table
from jumar.launch.ascend.facts import CardFacts
from jumar.launch.ascend.ranktable import (
    HandOverTimeout,
    RankTable,
    RankTableError,
    Unreadable,
    document,
    hand_over,
    make,
    wait_for_table,
)
from jumar.launch.ascend.ranktable.make import NodeDevice
from jumar.launch.ascend.ranktable.podenv import Pod, pod_variables, render, write_pod_env


def part(node: int) -> RankTable:
    devices = [NodeDevice(n, f"10.0.{node}.{n + 1}") for n in range(2)]
    return make(f"10.0.0.{node + 1}", devices)


def bring(folder: str, node: int, nodes: int) -> None:
    table = hand_over(folder, part(node), node=node, nodes=nodes, timeout_s=180)
    Path(folder, f"seen{node}").write_text(str(table.rank_count))


def test_every_node_gets_the_whole_table_whoever_comes_first(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    folder = str(tmp_path / "table")
    nodes = [context.Process(target=bring, args=(folder, node, 3)) for node in (2, 1, 0)]
    for process in nodes:
        process.start()
    for process in nodes:
        process.join(240)
        assert process.exitcode == 0
    assert [Path(folder, f"seen{node}").read_text() for node in range(3)] == ["6"] * 3
    found = json.loads(Path(folder, "hccl.json").read_text())
    assert found["status"] == "completed"
    assert [server["server_id"] for server in found["server_list"]] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ]


def test_until_all_parts_are_there_the_table_is_initializing(tmp_path: Path):
    leader = Thread(
        target=lambda: hand_over(str(tmp_path), part(0), node=0, nodes=2, timeout_s=180),
        daemon=True,
    )
    leader.start()
    deadline = time.monotonic() + 180
    while not (tmp_path / "hccl.node0.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert json.loads((tmp_path / "hccl.json").read_text()) == {"status": "initializing"}
    table = hand_over(str(tmp_path), part(1), node=1, nodes=2, timeout_s=180)
    leader.join(180)
    assert table.rank_count == 4


def test_the_nodes_that_did_not_come_are_named(tmp_path: Path):
    with pytest.raises(HandOverTimeout, match="node 1, 2"):
        hand_over(str(tmp_path), part(0), node=0, nodes=3, timeout_s=0.1)


def test_waiting_for_a_table_has_a_limit(tmp_path: Path):
    with pytest.raises(HandOverTimeout, match="is not there"):
        wait_for_table(str(tmp_path / "hccl.json"), timeout_s=0.1)
    (tmp_path / "hccl.json").write_text('{"status": "initializing"}')
    with pytest.raises(HandOverTimeout, match="still initializing"):
        wait_for_table(str(tmp_path / "hccl.json"), timeout_s=0.1)


def test_a_platform_that_fills_its_table_in_bit_by_bit_is_waited_for(tmp_path: Path):
    path = tmp_path / "hccl.json"
    whole = json.dumps(document(part(0)))
    states = iter(
        [
            '{"status": "initializing", "version": "1.0"}',
            '{"status": "initializing", "group_list": [{"device_count": "", "instance_list": null}]}',
            "",
            whole[:40],
            whole,
        ]
    )
    path.write_text('{"status": "initializing"}')

    def go_on(_: float) -> None:
        path.write_text(next(states))

    table = wait_for_table(str(path), timeout_s=180, pause=go_on)
    assert table.servers == part(0).servers
    path.write_text(whole[:40])
    with pytest.raises(Unreadable, match="not JSON"):
        wait_for_table(str(path), timeout_s=0.1)


def test_a_table_that_is_being_written_is_looked_at_again(tmp_path: Path):
    path = tmp_path / "hccl.json"
    whole = json.dumps(document(part(0)))
    states = iter([whole[:40], '{"status": "initializing"}', whole])
    path.touch()

    def go_on(_: float) -> None:
        path.write_text(next(states, "{"))

    found = use_rank_table(str(path), limit_s=180, pause=go_on)
    assert ranks_of_cards(found, "10.0.0.1", [CardFacts(1), CardFacts(0)]) == [1, 0]
    path.write_text("{")
    with pytest.raises(Unreadable, match="not JSON"):
        use_rank_table(str(path), limit_s=180, pause=go_on)


def test_a_wrong_whole_is_refused_on_all_nodes(tmp_path: Path):
    from jumar.launch.ascend.ranktable import write_table

    write_table(tmp_path / "hccl.node1.json", part(0))
    with pytest.raises(RankTableError, match="wrong"):
        hand_over(str(tmp_path), part(0), node=0, nodes=2, timeout_s=180)
    with pytest.raises(RankTableError, match="node 0 found"):
        wait_for_table(str(tmp_path / "hccl.json"), timeout_s=180)


def test_pod_env_is_what_a_script_of_the_platform_sources(tmp_path: Path):
    pod = Pod("k7x2m9q4tb", "ann", 1, 2, ("10.0.0.1", "10.0.0.2"), "/job/hccl.json")
    variables = pod_variables(pod, part(1).servers[0])
    path = tmp_path / "pod.env"
    write_pod_env(
        str(path), render(variables, {"ODD": "it's; $(x)\n2", "PATH": "/a b", "PWD": "/"})
    )
    assert path.stat().st_mode & 0o777 == 0o600
    script = (
        '. "$1" && IFS=, read -ra ids <<< "$VISIBLE_IDS" && printf "%s|" "${#ids[@]}" "$NPU_IPS" '
        '"$DLWS_ROLE_NAME" "$DLWS_ROLE_IDX" "$DLWS_NUM_WORKER" "$DLWS_JOB_ID" "$DLWS_USER_NAME" '
        '"$RANK_SIZE" "$RANK_TABLE_FILE" "$DLWS_SD_worker0_IP" "$DLWS_IS_NPU_JOB" "$ODD" "${PWD##*/}"'
    )
    answer = subprocess.run(
        ["bash", "-c", script, "bash", str(path)],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        check=True,
    )
    assert answer.stdout.split("|")[:-1] == [
        "2",
        "0:10.0.1.1,1:10.0.1.2",
        "worker",
        "1",
        "2",
        "k7x2m9q4tb",
        "ann",
        "4",
        "/job/hccl.json",
        "10.0.0.1",
        "true",
        "it's; $(x)\n2",
        tmp_path.name,
    ]


def test_pod_env_of_a_single_node_without_npus():
    variables = pod_variables(Pod("k7x2m9q4tb", "ann", 0, 1, ("10.0.0.1",)), None)
    assert (variables["DLWS_ROLE_NAME"], variables["DLWS_NUM_PS"]) == ("master", "0")
    assert variables["DLWS_IS_NPU_JOB"] == "false"
    assert "VISIBLE_IDS" not in variables
