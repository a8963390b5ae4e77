"""What each rank is given, seen through --dry-run and through ranks that print it."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.launch.conftest import Launcher
from tests.waiting import wait_for

CARDS: list[dict[str, Any]] = [
    {"kind": "npu", "id": 0, "generation": "A2", "device_ip": "10.30.0.10", "processes": []},
    {
        "kind": "npu",
        "id": 1,
        "generation": "A2",
        "device_ip": "10.30.0.11",
        "processes": [{"pid": 9}],
    },
    {"kind": "npu", "id": 4, "generation": "A2", "device_ip": "10.30.0.14"},
    {"kind": "npu", "id": 5, "generation": "A2", "device_ip": "10.30.0.15"},
    {"kind": "gpu", "id": 0},
]
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def cards(tmp_path: Path) -> str:
    path = tmp_path / "cards.json"
    path.write_text(json.dumps(CARDS))
    return str(path)


def ranks(
    launcher: Launcher, *arguments: str, environ: dict[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Each process of a run with its variables."""
    ended = launcher.run(*arguments, launcher.script(SHOW, "show.py"), environ=environ)
    assert ended.code == 0, ended.errors
    lines = (re.fullmatch(r"\[(.*?)\] (.*)", line) for line in ended.output.splitlines())
    return {match[1]: json.loads(match[2]) for match in lines if match}


def test_torch_variables(launcher: Launcher) -> None:
    found = ranks(launcher, "--devices", "cpu:2", "--master_port", "29533", "--rdzv-id", "r1")
    one = found["rank 1"]
    wanted = {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "0",
        "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "TORCHELASTIC_RUN_ID": "r1",
        "ROLE_RANK": "1", "ROLE_WORLD_SIZE": "2",
    }  # fmt: skip
    assert {name: one[name] for name in wanted} == wanted
    assert "RANK_TABLE_FILE" not in one
    assert not any(name.startswith("MS_") for name in one)


def test_a_master_port_is_found_and_is_the_same_for_all(launcher: Launcher) -> None:
    found = ranks(launcher, "--devices", "cpu:3")
    assert len({rank["MASTER_PORT"] for rank in found.values()}) == 1
    assert int(found["rank 0"]["MASTER_PORT"]) > 0


def test_free_npus_are_picked_and_made_visible_in_order(launcher: Launcher, cards: str) -> None:
    found = ranks(launcher, "--cards", cards, "--devices", "npu:2")
    assert {rank["ASCEND_RT_VISIBLE_DEVICES"] for rank in found.values()} == {"0,4"}
    assert found["rank 0"]["HCCL_CONNECT_TIMEOUT"] == "1800"
    found = ranks(launcher, "--cards", cards, "--devices", "auto", "--bind", "none")
    assert {rank["ASCEND_RT_VISIBLE_DEVICES"] for rank in found.values()} == {"0,4,5"}


def test_a_visible_list_limits_the_choice_and_settings_of_the_shell_stay(
    launcher: Launcher, cards: str
) -> None:
    environ = {"ASCEND_RT_VISIBLE_DEVICES": "5, 4", "HCCL_CONNECT_TIMEOUT": "600"}
    found = ranks(launcher, "--cards", cards, "--devices", "2", environ=environ)
    assert found["rank 0"]["ASCEND_RT_VISIBLE_DEVICES"] == "4,5"
    assert found["rank 0"]["HCCL_CONNECT_TIMEOUT"] == "600"
    ended = launcher.run("--cards", cards, "--devices", "npu:3", "true", environ=environ)
    assert (ended.code, "2 free (of 2 visible)" in ended.errors) == (2, True)
    ended = launcher.run("--devices", "npu:1", "true", environ={"ASCEND_RT_VISIBLE_DEVICES": "a"})
    assert ended.code == 2


@pytest.mark.parametrize("nothing", ["", "-1"])
def test_cards_that_the_shell_hides_are_not_used(
    launcher: Launcher, tmp_path: Path, nothing: str
) -> None:
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps([{"kind": "gpu", "id": 0}, {"kind": "gpu", "id": 1}]))
    environ = {"CUDA_VISIBLE_DEVICES": nothing}
    found = ranks(launcher, "--cards", str(path), "--nproc_per_node=2", environ=environ)
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in found.values()] == [nothing, nothing]
    ended = launcher.run("--cards", str(path), "--devices", "gpu:1", "true", environ=environ)
    assert (ended.code, "0 free (of 0 visible)" in ended.errors) == (2, True)


def test_other_kinds_get_their_own_variable(launcher: Launcher, cards: str) -> None:
    found = ranks(launcher, "--cards", cards, "--devices", "gpu:1")
    assert found["rank 0"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert ranks(launcher, "--devices", "sim:2")["rank 1"]["JUMAR_SIM_DEVICES"] == "2"


def test_inside_a_job_all_its_devices_can_be_used(launcher: Launcher) -> None:
    environ = {"JUMAR_SIM_DEVICES": "2"}
    assert sorted(ranks(launcher, "--devices", "auto", environ=environ)) == ["rank 0", "rank 1"]
    one = ranks(launcher, "--devices", "1", environ=environ)
    assert [rank["JUMAR_SIM_DEVICES"] for rank in one.values()] == ["1"]
    assert "inject/sim_path" in one["rank 0"]["PYTHONPATH"]


@pytest.mark.parametrize(("devices", "there"), [("sim:3", "2"), ("sim:1", "0,1")])
def test_simulated_devices_that_are_not_there_are_refused(
    launcher: Launcher, devices: str, there: str
) -> None:
    ended = launcher.run("--devices", devices, "true", environ={"JUMAR_SIM_DEVICES": there})
    assert ended.code == 2
    assert "JUMAR_SIM_DEVICES" in ended.errors


def test_torchrun_counts_by_kind(launcher: Launcher, cards: str) -> None:
    found = ranks(launcher, "--cards", cards, "--nproc_per_node=npu", "--bind", "none")
    assert len(found) == 3
    assert len(ranks(launcher, "--nproc-per-node", "cpu")) == len(os.sched_getaffinity(0))
    assert len(ranks(launcher, "--nproc-per-node", "auto")) == len(os.sched_getaffinity(0))
    assert len(ranks(launcher, "--nproc-per-node", "2")) == 2


def test_tensorflow_gets_a_rank_table(launcher: Launcher, cards: str) -> None:
    found = ranks(
        launcher, "--cards", cards, "--devices", "npu:2", "--framework", "tensorflow",
        "--log-dir", "logs", "--rdzv-id", "tf7",
    )  # fmt: skip
    one = found["rank 1"]
    wanted = {
        "RANK_ID": "1",
        "RANK_SIZE": "2",
        "DEVICE_ID": "1",
        "ASCEND_DEVICE_ID": "1",
        "JOB_ID": "tf7",
    }
    assert {name: one[name] for name in wanted} == wanted
    table = json.loads(Path(one["RANK_TABLE_FILE"]).read_text())
    (server,) = table["server_list"]
    assert (table["version"], table["status"]) == ("1.0", "completed")
    assert not server["server_id"].startswith("127.")
    assert server["device"] == [
        {"device_id": "0", "device_ip": "10.30.0.10", "rank_id": "0"},
        {"device_id": "4", "device_ip": "10.30.0.14", "rank_id": "1"},
    ]


def test_mindspore_forms_a_cluster_with_a_scheduler(launcher: Launcher, cards: str) -> None:
    found = ranks(launcher, "--cards", cards, "--devices", "npu:2", "--framework", "mindspore")
    assert sorted(found) == ["rank 0", "rank 1", "scheduler"]
    assert found["scheduler"]["MS_ROLE"] == "MS_SCHED"
    one = found["rank 1"]
    assert (one["MS_ROLE"], one["MS_WORKER_NUM"], one["MS_NODE_ID"]) == ("MS_WORKER", "2", "1")
    assert one["MS_SCHED_PORT"] == found["scheduler"]["MS_SCHED_PORT"]
    assert "RANK_TABLE_FILE" not in one


def test_mindspore_uses_a_rank_table_that_is_given(
    launcher: Launcher, cards: str, tmp_path: Path
) -> None:
    table = {
        "version": "1.0", "server_count": "1", "status": "completed",
        "server_list": [{"server_id": "10.30.9.9", "device": [
            {"device_id": "0", "device_ip": "10.30.0.10", "rank_id": "0"},
            {"device_id": "4", "device_ip": "10.30.0.14", "rank_id": "1"}]}],
    }  # fmt: skip
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(table))
    arguments = ("--cards", cards, "--devices", "npu:2", "--framework", "mindspore")
    found = ranks(launcher, *arguments, environ={"RANK_TABLE_FILE": str(path)})
    assert sorted(found) == ["rank 0", "rank 1"]
    assert found["rank 1"]["RANK_TABLE_FILE"] == str(path)
    assert not any(name.startswith("MS_") for name in found["rank 1"])
    path.write_text('{"status": "initializing"}')
    running = launcher.start(
        *arguments, "--log-dir", "waits", "--rank-table", str(path), launcher.script(SHOW)
    )
    wait_for(lambda: (tmp_path / "waits").exists(), "it runs")
    (tmp_path / "whole.json").write_text(json.dumps(table))
    (tmp_path / "whole.json").replace(path)
    assert launcher.end(running).code == 0
    path.write_text('{"status": "initializing"}')
    ended = launcher.run(*arguments, "--join-limit", "0", "--rank-table", str(path), "true")
    assert (ended.code, "still initializing" in ended.errors) == (121, True)
    path.write_text("{}")
    ended = launcher.run(*arguments, "--rank-table", str(path), launcher.script(SHOW))
    assert ended.code == 121
    assert launcher.run(*arguments, "--rank-table", "/no/table", "true").code == 2


def test_a_scheduler_that_waits_is_ended_when_the_workers_are_done(launcher: Launcher) -> None:
    ended = launcher.run(
        "--devices", "cpu:2", "--framework", "mindspore", "sh", "-c", "test $MS_ROLE = MS_WORKER || sleep 60",
    )  # fmt: skip
    assert ended.code == 0, ended.errors


def test_the_framework_is_read_from_the_script(launcher: Launcher) -> None:
    script = launcher.script("import numpy\nimport mindspore as ms\n")
    assert "framework mindspore" in launcher.run("--dry-run", "--devices", "cpu:1", script).output
    script = launcher.script("from torch import nn\n")
    assert "framework torch" in launcher.run("--dry-run", "--devices", "cpu:1", script).output


@pytest.mark.parametrize("way", [["-m", "my.train"], ["-m", "my"], ["python3", "my/train.py"]])
def test_the_framework_is_read_from_the_module_or_script_that_is_run(
    launcher: Launcher, tmp_path: Path, way: list[str]
) -> None:
    (tmp_path / "my").mkdir()
    for name in ("__init__.py", "__main__.py", "train.py"):
        launcher.script("import mindspore as ms\n", f"my/{name}")
    ended = launcher.run("--dry-run", "--devices", "cpu:1", *way, "--config", "a.py")
    assert "framework mindspore" in ended.output


def test_a_dry_run_shows_ranks_cores_and_commands_and_starts_nothing(
    launcher: Launcher, cards: str, tmp_path: Path
) -> None:
    script = launcher.script("raise SystemExit('ran')")
    before = set(tmp_path.iterdir())
    ended = launcher.run("--cards", cards, "--devices", "npu:1", "--dry-run", script, "--lr", "a b")
    assert ended.code == 0
    assert "1 x npu on cards 0" in ended.output
    assert re.search(r"rank 0 on card 0: CPUs", ended.output)
    assert "  RANK=0\n" in ended.output
    assert ended.output.rstrip().endswith(f"{script} --lr 'a b'")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("content", ["[", "{}", "[1]", '[{"id": "x"}]', "3"])
def test_a_list_of_cards_that_is_none_is_refused(
    launcher: Launcher, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    assert launcher.run("--cards", str(path), "--devices", "npu:1", "true").code == 2


def test_cann_is_applied_when_the_shell_has_not_sourced_it(
    launcher: Launcher, cards: str, tmp_path: Path
) -> None:
    home = tmp_path / "Ascend" / "ascend-toolkit" / "latest"
    (home / "opp").mkdir(parents=True)
    environ = {"HOME": str(tmp_path), "ASCEND_HOME_PATH": "", "LD_LIBRARY_PATH": "/mine"}
    found = ranks(launcher, "--cards", cards, "--devices", "npu:1", environ=environ)
    one = found["rank 0"]
    assert one["ASCEND_OPP_PATH"] == str(home / "opp")
    assert one["LD_LIBRARY_PATH"].endswith(":/mine")
    assert str(home) in one["PYTHONPATH"]


CONTAINER: list[dict[str, Any]] = [
    {"kind": "npu", "id": number, "logical_id": place, "generation": "A3", "super_device_id": str(40 + place), "super_pod_id": "6"}
    for place, number in enumerate(range(12, 16))
]  # fmt: skip


def test_visible_devices_count_what_is_visible_and_rank_tables_what_is_built_in(
    launcher: Launcher, tmp_path: Path
) -> None:
    path = tmp_path / "container.json"
    path.write_text(json.dumps(CONTAINER))
    arguments = (
        "--cards",
        str(path),
        "--devices",
        "2",
        "--framework",
        "tensorflow",
        "--log-dir",
        "l",
    )
    environ = {"ASCEND_RT_VISIBLE_DEVICES": "1,2,3"}
    found = ranks(launcher, *arguments, environ=environ)["rank 1"]
    assert found["ASCEND_RT_VISIBLE_DEVICES"] == "1,2"
    assert found["ASCEND_DEVICE_ID"] == "1"
    table = json.loads(Path(found["RANK_TABLE_FILE"]).read_text())
    assert table["version"] == "1.2"
    assert table["server_list"][0]["device"] == [
        {"device_id": "13", "rank_id": "0", "super_device_id": "41"},
        {"device_id": "14", "rank_id": "1", "super_device_id": "42"},
    ]
    assert table["super_pod_list"][0]["super_pod_id"] == "6"


def test_a_rank_table_that_lacks_what_the_chip_needs_is_refused(
    launcher: Launcher, tmp_path: Path
) -> None:
    for generation, lacks in (("A5", "2.0 needs an address"), ("910", "device_ip")):
        path = tmp_path / f"{generation}.json"
        path.write_text(json.dumps([{"kind": "npu", "id": 0, "generation": generation}]))
        script = launcher.script(SHOW, "show.py")
        ended = launcher.run(
            "--cards", str(path), "--devices", "npu:1", "--rank-table", "make", script
        )
        assert ended.code == 121
        assert lacks in ended.errors
        assert "Traceback" not in ended.errors
