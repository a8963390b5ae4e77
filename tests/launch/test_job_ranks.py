"""What the ranks of a job are given, by kind of device and framework."""

from pathlib import Path
from typing import Any

import pytest

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request
from jumar.launch.node.given import Given
from jumar.launch.nodes.team import group_of
from jumar.launch.prepare.platform_files import JobTable
from jumar.launch.processes.supervise import SCHEDULER, Rank

TABLE = "/jobs/j1/hccl.json"


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "job_id": "j1", "name": "digits", "user": "ann", "command": ["python", "train.py"],
        "code": "none", "workdir": None, "git_url": None, "git_commit": None, "device_kind": "npu",
        "device_count": 2, "ranks": "device", "framework": None, "environment": {}, "inputs": {},
        "outputs": {}, "requirements": None, "endpoints": (), "grace_s": 1.0, "env_cache": "/nowhere",
    }  # fmt: skip
    return Job(**{**given, **fields})


def planned(folder: Path, made: Job, table: str | None = TABLE) -> dict[int, Rank]:
    given = Given(
        JobDir(str(folder / "job"), 1),
        made,
        Request(tuple(range(made.device_count)), None, None, None),
    )
    plan = given.plan(str(folder), given.environment(), JobTable(path=table))
    group = group_of(given.meeting, 0, [given.size], 29500, "127.0.0.1")
    return {rank.rank: rank for rank in plan.ranks(group)}


@pytest.mark.parametrize("framework", ["MindSpore 2.6", "tensorflow-1.15"])
def test_mindspore_and_tensorflow_use_the_rank_table_on_npus(
    tmp_path: Path, framework: str
) -> None:
    ranks = planned(tmp_path, job(framework=framework))
    assert sorted(ranks) == [0, 1]
    found = ranks[1].program.environment
    wanted = {
        "RANK_TABLE_FILE": TABLE, "RANK_ID": "1", "RANK_SIZE": "2", "DEVICE_ID": "1",
        "ASCEND_DEVICE_ID": "1", "JOB_ID": "j1", "ASCEND_RT_VISIBLE_DEVICES": "0,1",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert not any(name.startswith("MS_") for name in found)


def test_a_table_that_the_job_names_is_used(tmp_path: Path) -> None:
    made = job(framework="mindspore", environment={"RANK_TABLE_FILE": "/mine.json"})
    assert planned(tmp_path, made)[0].program.environment["RANK_TABLE_FILE"] == "/mine.json"


@pytest.mark.parametrize(("kind", "table"), [("cpu", None), ("gpu", None), ("npu", None)])
def test_mindspore_without_a_table_forms_a_cluster(
    tmp_path: Path, kind: str, table: str | None
) -> None:
    ranks = planned(tmp_path, job(framework="mindspore", device_kind=kind), table)
    assert sorted(ranks) == [SCHEDULER, 0, 1]
    scheduler, one = (ranks[rank].program.environment for rank in (SCHEDULER, 1))
    assert (scheduler["MS_ROLE"], one["MS_ROLE"]) == ("MS_SCHED", "MS_WORKER")
    assert scheduler["MS_SCHED_PORT"] == one["MS_SCHED_PORT"]
    assert ranks[SCHEDULER].program.log == str(tmp_path / "job/logs/node0/scheduler.log")


def test_torch_needs_no_table(tmp_path: Path) -> None:
    found = planned(tmp_path, job(framework="PyTorch"))[1].program.environment
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("1", "2", "127.0.0.1")
    assert "RANK_TABLE_FILE" not in found
    assert "RANK_ID" not in found


def test_a_framework_that_is_not_named_is_read_from_the_boot_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import mindspore as ms\n")
    assert SCHEDULER in planned(tmp_path, job(device_kind="cpu"), None)
    assert SCHEDULER in planned(tmp_path, job(device_kind="cpu", framework="paddle 3"), None)
    assert SCHEDULER not in planned(tmp_path, job(device_kind="cpu", framework="torch"), None)


def test_a_command_that_starts_its_ranks_itself_gets_what_platforms_give(tmp_path: Path) -> None:
    ranks = planned(tmp_path, job(ranks="node", command="bash run.sh"))
    assert list(ranks) == [0]
    found = ranks[0].program.environment
    wanted = {"RANK_TABLE_FILE": TABLE, "RANK_SIZE": "2", "DEVICE_ID": "0"}
    assert {name: found[name] for name in wanted} == wanted
    assert not {"RANK_ID", "RANK", "WORLD_SIZE"} & set(found)
    assert "RANK_SIZE" not in planned(
        tmp_path, job(ranks="node", device_kind="gpu", device_count=1), None
    )[0].program.environment  # fmt: skip


def test_local_rank_goes_right_behind_a_script_that_declares_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    made = job(device_kind="cpu", command=["python", "-u", "train.py", "fit", "--lr", "1"])
    script.write_text("import torch\n")
    assert planned(tmp_path, made, None)[1].program.argv == made.command
    script.write_text("parser.add_argument('--local-rank', type=int)\n")
    argv = planned(tmp_path, made, None)[1].program.argv
    assert argv == ["python", "-u", "train.py", "--local-rank=1", "fit", "--lr", "1"]
    line = job(device_kind="cpu", command="python train.py && echo done")
    assert planned(tmp_path, line, None)[1].program.argv[1:] == ["-c", line.command]


def test_what_comes_later_in_the_environment_overrides_what_comes_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_SHELL", "shell")
    monkeypatch.setenv("BOTH", "shell")
    monkeypatch.setenv("MY_TOKEN", "of the server")
    own = {"BOTH": "job", "JUMAR_JOB_ID": "forged", "RANK": "99", "HCCL_CONNECT_TIMEOUT": "600"}
    found = planned(tmp_path, job(environment=own))[1].program.environment
    wanted = {
        "FROM_SHELL": "shell", "BOTH": "job", "JUMAR_JOB_ID": "j1", "RANK": "1",
        "HCCL_CONNECT_TIMEOUT": "600", "HCCL_WHITELIST_DISABLE": "1",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert "MY_TOKEN" not in found
