"""Several machines and one queue: a server whose jobs go to Slurm, on four nodes of this machine."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller
from tests.cli.sshd import running_sshd
from tests.rows.conftest import LIMIT_S, write
from tests.slurm import Cluster

from jumar.server.home import server_process

RANKS = """
import os
import torch
import torch.distributed as group

group.init_process_group("gloo")
total = torch.ones(1)
group.all_reduce(total)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
print(*(os.environ[name] for name in names), int(total.item()), flush=True)
"""


@pytest.fixture(scope="module")
def variables(slurm_cluster: Cluster) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    conf = slurm_cluster.environ["SLURM_CONF"]
    return {"JUMAR_ENGINE": "slurm,local", "SLURM_CONF": conf, "PATH": path}


@pytest.fixture(scope="module")
def home(
    jumar_program: str, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Generator[Path]:
    """Of a server on the cluster."""
    home = tmp_path_factory.mktemp("slurm") / "home"
    call = caller(jumar_program, home, home.parent)
    call("up", "--detach", **variables)
    yield home
    call("down", **variables)


@pytest.fixture
def cluster(jumar_program: str, home: Path, tmp_path: Path) -> Jumar:
    return caller(jumar_program, home, tmp_path)


def test_row_51_a_distributed_job_of_several_nodes_is_queued(
    cluster: Jumar, variables: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path, {"train.py": RANKS})
    words = ("run", "--nodes", "2", "--device", "sim:4", "--distributed", "--follow", "--json")
    job = json.loads(cluster(*words, "--", "python", "train.py", **variables).stdout)
    assert (job["state"], job["engine"], job["nodes"]) == ("succeeded", "slurm", 2)
    logs = Path(job["directory"]) / "logs"
    for rank in range(8):
        log = logs / f"node{rank // 4}" / f"rank{rank}.log"
        assert log.read_text() == f"{rank} {rank % 4} 8 127.0.1.1 8\n"


def test_row_52_the_platform_makes_the_table_of_several_nodes(
    cluster: Jumar, tmp_path: Path
) -> None:
    words = ("run", "--nodes", "2", "--device", "sim:2", "--distributed", "--ranks", "node")
    show = "cp $RANK_TABLE_FILE table-$JUMAR_NODE.json"
    cluster(*words, "--workdir", str(tmp_path), "--follow", "--", "sh", "-c", show)
    tables = [(tmp_path / f"table-{node}.json").read_text() for node in range(2)]
    assert tables[0] == tables[1]
    cluster("ranktable", "check", str(tmp_path / "table-0.json"))
    servers = json.loads(tables[0])["server_list"]
    assert [server["server_id"] for server in servers] == ["127.0.1.1", "127.0.1.2"]
    ranks = [[device["rank_id"] for device in server["device"]] for server in servers]
    assert ranks == [["0", "1"], ["2", "3"]]


def test_one_server_has_a_machine_and_a_cluster(
    cluster: Jumar, home: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    """Each job runs where it says; both outlive the server, and the next one finds both."""
    said = 'test -n "$SLURM_JOB_ID" && echo slurm || echo local'
    jobs: dict[str, str] = {}
    for engine in ("local", "slurm"):
        words = ("run", "--engine", engine, "--device", "sim:1", "--workdir", str(tmp_path))
        hold = f"{said}; touch began-{engine}; until test -e go; do sleep 0.1; done"
        jobs[engine] = cluster(*words, "--", "sh", "-c", hold, **variables).stdout.strip()
    _until(lambda: all((tmp_path / f"began-{engine}").exists() for engine in jobs))
    refused = cluster("run", "--engine", "modelarts", "--", "true", rc=2, **variables).stderr
    assert "runs jobs on slurm, local, not on modelarts" in refused
    server = server_process(home)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    cluster("up", "--detach", **variables)
    (tmp_path / "go").touch()
    for engine, job in jobs.items():
        assert cluster("logs", "-f", job).stdout == f"{engine}\n"
        shown = json.loads(cluster("show", job, "--json").stdout)
        assert (shown["engine"], shown["state"], shown["attempt"]) == (engine, "succeeded", 1)


def _until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_row_18_two_hosts_have_one_queue_over_ssh(
    jumar_program: str, home: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    """From a laptop, through a real sshd: a job that no host has room for twice runs on each."""
    far = tmp_path / "far-jumar"
    exports = " ".join(f"{name}={value}" for name, value in variables.items())
    far.write_text(f'#!/bin/sh\nJUMAR_HOME={home} {exports} exec {jumar_program} "$@"\n')
    far.chmod(0o755)
    near = caller(jumar_program, tmp_path / "near", tmp_path)
    # Each waits for the other, which therefore runs at the same time, elsewhere.
    meet = "touch {0}/$SLURMD_NODENAME; until [ $(ls {0} | wc -l) = 2 ]; do sleep 0.1; done".format(
        tmp_path / "met"
    )
    (tmp_path / "met").mkdir()
    with running_sshd(tmp_path / "sshd") as sshd:
        near("login", f"ssh://{sshd.user}@127.0.0.1:{sshd.port}{far}", PATH=sshd.path)
        ids: list[str] = []
        for node in ("node2", "node3"):
            spec = {
                "name": "meet",
                "command": meet,
                "device": "npu:8",
                "workdir": str(tmp_path),
                "slurm": {"extra": [f"--nodelist={node}"]},
            }
            write(tmp_path, {f"{node}.yaml": json.dumps(spec)})
            ids.append(near("run", "-f", f"{node}.yaml", PATH=sshd.path).stdout.strip())
        for job in ids:
            near("logs", "--follow", job, PATH=sshd.path)
            shown = json.loads(near("show", job, "--json", PATH=sshd.path).stdout)
            assert shown["state"] == "succeeded"
    assert sorted(path.name for path in (tmp_path / "met").iterdir()) == ["node2", "node3"]
