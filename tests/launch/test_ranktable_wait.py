import json
import subprocess
from pathlib import Path

import pytest

from jumar.launch.ascend.apply import ranks_of_cards, use_rank_table
from jumar.launch.ascend.facts import CardFacts
from jumar.launch.ascend.ranktable import (
    RankTable,
    TableTimeout,
    Unreadable,
    document,
    make,
    wait_for_table,
)
from jumar.launch.ascend.ranktable.make import NodeDevice
from jumar.launch.prepare.platform_files import Pod, pod_variables, render


def part(node: int) -> RankTable:
    devices = [NodeDevice(n, f"10.0.{node}.{n + 1}") for n in range(2)]
    return make(f"10.0.0.{node + 1}", devices)


def test_waiting_for_a_table_has_a_limit(tmp_path: Path):
    with pytest.raises(TableTimeout, match="does not exist"):
        wait_for_table(str(tmp_path / "hccl.json"), timeout_s=0.1)
    (tmp_path / "hccl.json").write_text('{"status": "initializing"}')
    with pytest.raises(TableTimeout, match="still initializing"):
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


def test_pod_env_is_what_a_script_of_the_platform_sources(tmp_path: Path):
    pod = Pod("k7x2m9q4tb", "ann", 1, 2, ("10.0.0.1", "10.0.0.2"), "/job/hccl.json")
    variables = pod_variables(pod, part(1).servers[0])
    path = tmp_path / "pod.env"
    path.write_text(render(variables, {"ODD": "it's; $(x)\n2", "PATH": "/a b", "PWD": "/"}))
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
