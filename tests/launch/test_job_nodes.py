"""A job on several nodes: one job directory, a launcher per node, one verdict for all."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.launch.conftest import Launcher, in_namespace
from tests.ports import free_port
from tests.waiting import wait_for

from jumar.launch.jobdir.files import JobDir
from jumar.launch.nodes.channel import PROTOCOL
from jumar.launch.processes import process

GRACE_S = 2.0
DAEMON = "setsid -f sh -c 'trap \"\" TERM HUP INT; exec sleep 300'"


class NodesJob:
    """One job directory, and the launchers of its nodes."""

    def __init__(self, launcher: Launcher, addresses: list[str], prefixes: list[list[str]]) -> None:
        self._launcher = launcher
        self._addresses = addresses
        self._prefixes = prefixes
        # The memory group of an attempt is named after its job: another run of these tests has its own.
        self.job_id = f"j{launcher.mark}"
        self.root = launcher.folder / "shared" / self.job_id
        self.started: list[subprocess.Popen[str]] = []

    def directory(self, node: int = 0) -> JobDir:
        return JobDir(str(self.root), 1, node)

    def write(
        self,
        command: list[str] | str,
        facts: list[list[dict[str, Any]]] | None = None,
        request: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        facts = facts or [[{"id": 0}, {"id": 1}] for _ in self._addresses]
        nodes = [
            {"name": f"n{n}", "address": address, "facts": own, "cards": [card["id"] for card in own]}
            for n, (address, own) in enumerate(zip(self._addresses, facts, strict=True))
        ]  # fmt: skip
        job = {
            "format": 1, "job_id": self.job_id, "name": "two", "user": "ann", "command": command, "code": "none",
            "workdir": None, "device": {"kind": "cpu", "count": 2}, "nodes": len(nodes), "ranks": "device",
            "environment": {}, "inputs": {}, "outputs": {"train_url": None}, "grace_s": GRACE_S,
            "env_cache": str(self.root.parent / "envs"), **fields,
        }  # fmt: skip
        Path(self.directory().attempt).mkdir(parents=True)
        Path(self.directory().job).write_text(json.dumps(job))
        given = {"nodes": nodes, "port": free_port(), **(request or {})}
        Path(self.directory().request).write_text(json.dumps(given))

    def start(self, *nodes: int) -> None:
        for node in nodes or range(len(self._addresses)):
            options = ("--attempt", "1", "--node", str(node))
            running = self._launcher.start(str(self.root), *options, prefix=self._prefixes[node])
            self.started.append(running)

    def run(self, command: list[str] | str, **fields: Any) -> dict[str, Any]:
        """To its end; the verdict."""
        self.write(command, **fields)
        self.start()
        for running in self.started:
            ended = self._launcher.end(running)
            assert ended.code == 0, ended.errors
        return self.verdict()

    def verdict(self) -> dict[str, Any]:
        return self.result(0)

    def result(self, node: int) -> dict[str, Any]:
        return json.loads(Path(self.directory(node).said).read_text())

    def log(self, rank: int) -> str:
        (found,) = self.root.glob(f"logs/node*/rank{rank}.log")
        return found.read_text()

    def is_up(self, ranks: int = 4) -> bool:
        logs = list(self.root.glob("logs/node*/rank*.log"))
        return len(logs) == ranks and all("up" in log.read_text() for log in logs)

    def claim(self, node: int) -> dict[str, Any]:
        return json.loads(Path(self.directory(node).claim).read_text())

    def kill(self, node: int, victims: list[str]) -> None:
        """With -9: `keeper` and `supervisor`."""
        claim = self.claim(node)
        pids = {"keeper": claim["keeper"]["pid"], "supervisor": claim["pid"]}
        for victim in victims:
            process.send(pids[victim], signal.SIGKILL)


@pytest.fixture
def pair(launcher: Launcher) -> NodesJob:
    """Two nodes on one machine."""
    return NodesJob(launcher, ["127.0.0.1", "127.0.0.1"], [[], []])


@pytest.fixture
def machines(launcher: Launcher, namespaces: list[str]) -> NodesJob:
    """Two nodes with a network of their own each, as two machines have."""
    prefixes = [in_namespace(name) for name in namespaces]
    return NodesJob(launcher, ["10.77.0.1", "10.77.0.2"], prefixes)


SHOW = "echo $NODE_RANK $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $JUMAR_JOB_ID"


def test_ranks_are_numbered_over_two_machines(machines: NodesJob) -> None:
    verdict = machines.run(SHOW)
    assert (verdict["state"], verdict["cause"], verdict["exit_code"]) == ("succeeded", "done", 0)
    for rank in range(4):
        node = rank // 2
        assert machines.log(rank) == f"{node} {rank} {rank % 2} 4 10.77.0.1 {machines.job_id}\n"
        log = Path(machines.directory().log(node, rank))
        assert log.exists()
    assert machines.result(1) == {
        **machines.result(0),
        "started_at": machines.result(1)["started_at"],
        "finished_at": machines.result(1)["finished_at"],
    }
    for node in (0, 1):
        events = Path(machines.directory(node).events).read_text()
        assert '"ranks-started", "ranks": 2' in events
        assert len(json.loads(Path(machines.directory(node).ranks).read_text())["pids"]) == 2
    assert machines.claim(0)["pid"] != machines.claim(1)["pid"]


def test_the_verdict_names_the_first_failing_rank_and_its_node(machines: NodesJob) -> None:
    verdict = machines.run("echo up; test $RANK = 3 && { echo broken >&2; exit 6; }; sleep 60")
    assert verdict["reason"] == "rank 3 on node 1 exited with code 6"
    assert (verdict["state"], verdict["cause"]) == ("failed", "exit-code")
    assert (verdict["node"], verdict["rank"], verdict["exit_code"]) == (1, 3, 6)
    assert "broken" in verdict["tail"]
    assert machines.result(1)["reason"] == verdict["reason"]


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("victims", [["keeper"], ["supervisor"], ["keeper", "supervisor"]])
def test_a_killed_launcher_is_a_lost_node(
    machines: NodesJob, launcher: Launcher, node: int, victims: list[str]
) -> None:
    machines.write(f"trap '' TERM; {DAEMON}; echo up; while :; do sleep 0.1; done")
    machines.start()
    wait_for(machines.is_up, "all ranks run")
    machines.kill(node, victims)
    for running in machines.started:
        # The ranks never end by themselves.
        launcher.end(running)
    wait_for(lambda: not launcher.left_over(), "nothing is left on either node")
    verdict = machines.verdict()
    assert (verdict["state"], verdict["cause"], verdict["node"]) == ("lost", "node-lost", node)
    assert f"lost contact with node {node} (10.77.0.{node + 1})" in verdict["reason"]
    assert machines.result(1 - node)["cause"] == "node-lost"


def test_without_cgroups_the_watcher_of_a_node_ends_that_node_alone(launcher: Launcher) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can take the cgroups away")
    prefix = ["unshare", "-m", "sh", "-c", 'umount -a -t cgroup,cgroup2; exec "$@"', "sh"]
    pair = NodesJob(launcher, ["127.0.0.1"] * 2, [prefix] * 2)
    pair.write(f"{DAEMON}; echo up; while :; do sleep 0.1; done")
    pair.start()
    wait_for(pair.is_up, "all ranks run")
    assert pair.claim(1)["cgroup"] is None
    pair.kill(1, ["keeper", "supervisor"])
    for running in pair.started:
        launcher.end(running)
    wait_for(lambda: not launcher.left_over(), "nothing is left on either node")
    # Not that its ranks were killed.
    assert (pair.verdict()["cause"], pair.verdict()["node"]) == ("node-lost", 1)


def test_a_stop_reaches_all_nodes(pair: NodesJob, launcher: Launcher) -> None:
    pair.write("trap 'exit 75' TERM; echo up; while :; do sleep 0.05; done")
    pair.start()
    wait_for(pair.is_up, "all ranks run")
    Path(pair.directory().stop).write_text('{"why": "preempted"}')
    assert [launcher.end(running).code for running in pair.started] == [0, 0]
    for node in (0, 1):
        assert (pair.result(node)["state"], pair.result(node)["cause"]) == (
            "preempted",
            "preempted",
        )


def test_a_signal_to_one_node_ends_all(pair: NodesJob, launcher: Launcher) -> None:
    pair.write("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    pair.start()
    wait_for(pair.is_up, "all ranks run")
    pair.started[1].terminate()
    assert [launcher.end(running).code for running in pair.started] == [0, 0]
    assert [pair.result(node)["state"] for node in (0, 1)] == ["stopped", "stopped"]


def test_nodes_that_do_not_meet_in_time_say_so(pair: NodesJob, launcher: Launcher) -> None:
    pair.write("echo up", request={"join_limit_s": 0.5})
    pair.start(0)
    assert launcher.end(pair.started[0]).code == 0
    verdict = pair.verdict()
    assert (verdict["state"], verdict["cause"]) == ("failed", "nodes-apart")
    assert verdict["reason"].endswith("node 1 did not join within 0.5 s")


def facts(node: int) -> list[dict[str, Any]]:
    return [
        {"id": card, "generation": "A2", "device_ip": f"10.30.{node}.{card + 10}"}
        for card in (0, 1)
    ]


def test_npus_get_one_rank_table_and_a_pod_env_per_node(machines: NodesJob) -> None:
    show = ["sh", "-c", "echo $RANK_ID $RANK_SIZE $RANK_TABLE_FILE; . $JUMAR_POD_ENV; echo $DLWS_ROLE_IDX $NPU_IPS; echo $ASCEND_PROCESS_LOG_PATH"]  # fmt: skip
    verdict = machines.run(
        show,
        facts=[facts(0), facts(1)],
        device={"kind": "npu", "count": 2},
        framework="tensorflow",
        outputs={},
    )
    assert verdict["state"] == "succeeded", verdict
    path = machines.root / "hccl.json"
    for rank in range(4):
        node = rank // 2
        ips = f"0:10.30.{node}.10,1:10.30.{node}.11"
        plog = machines.root / "logs" / f"node{node}" / "plog"
        said = machines.log(rank).splitlines()
        assert said == [f"{rank} 4 {path}", f"{node} {ips}", str(plog)]
    table = json.loads(path.read_text())
    assert [server["server_id"] for server in table["server_list"]] == ["10.77.0.1", "10.77.0.2"]
    assert [d["rank_id"] for s in table["server_list"] for d in s["device"]] == list("0123")


def test_what_is_shared_is_prepared_once_and_before_any_rank(
    pair: NodesJob, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    git = ["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@b"]
    origin.mkdir()
    (origin / "hello.sh").write_text("echo from git $RANK\n")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    verdict = pair.run(
        ["sh", "hello.sh"], code="git", git={"url": origin.as_uri(), "commit": commit}
    )
    assert verdict["state"] == "succeeded", verdict
    assert [pair.log(rank).split(" --")[0].strip() for rank in range(4)] == [
        f"from git {rank}" for rank in range(4)
    ]
    assert not Path(pair.directory().setup_log(1)).exists()


def test_a_preparation_that_fails_on_node_0_ends_all(pair: NodesJob, tmp_path: Path) -> None:
    verdict = pair.run("echo up", code="git", git={"url": (tmp_path / "no").as_uri(), "commit": "1" * 40})  # fmt: skip
    assert (verdict["state"], verdict["cause"], verdict["node"]) == ("failed", "code", 0)
    assert pair.result(1)["reason"] == verdict["reason"]
    assert not list(pair.root.glob("logs/node*/rank*.log"))


def test_data_is_carried_by_node_0_alone_around_the_ranks_of_all(pair: NodesJob) -> None:
    story = pair.root.parent / "story"
    says = {word: ["sh", "-c", f"echo {word} >> {story}"] for word in ("bring", "send")}
    staging = {**says, "keep": None, "status": "/nowhere", "send_limit_s": 60}
    verdict = pair.run(f"echo rank >> {story}", request={"staging": staging})
    assert verdict["state"] == "succeeded", verdict
    assert story.read_text().split() == ["bring", *["rank"] * 4, "send"]


def test_a_command_per_node_learns_where_the_nodes_meet(pair: NodesJob) -> None:
    show = "echo $PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR $NODE_RANK ${RANK-none}"
    assert pair.run(show, ranks="node")["state"] == "succeeded"
    assert [pair.log(node) for node in (0, 1)] == [
        "2 0 127.0.0.1 0 none\n",
        "2 1 127.0.0.1 1 none\n",
    ]


def test_a_dry_run_prints_plan_and_variables_and_changes_nothing(
    pair: NodesJob, launcher: Launcher
) -> None:
    pair.write(["python", "train.py"], environment={"MY_TOKEN": "s3cret", "LR": "0.1"})
    before = sorted(pair.root.rglob("*"))
    ended = launcher.run(str(pair.root), "--attempt", "1", "--node", "1", "--dry-run")
    assert ended.code == 0, ended.errors
    assert "2 x cpu on cards 0,1, framework torch" in ended.output
    for line in ("rank 3:", "  RANK=3", "  NODE_RANK=1", "  LR=0.1", "  MY_TOKEN=(hidden)"):
        assert f"\n{line}\n" in ended.output
    assert re.search(rf"python train.py --train_url={pair.root}/out/train_url$", ended.output, re.M)
    assert "s3cret" not in ended.output
    assert sorted(pair.root.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments", [["--attempt"], ["--attempt", "x"], ["--attempt", "1", "--node", "7"]]
)
def test_a_node_that_the_request_does_not_have_is_refused(
    pair: NodesJob, launcher: Launcher, arguments: list[str]
) -> None:
    pair.write("echo up")
    ended = launcher.run(str(pair.root), *arguments)
    assert (ended.code, ended.errors.count("\n")) == (2, 1)


def test_an_attempt_that_was_started_is_said_so(pair: NodesJob, launcher: Launcher) -> None:
    pair.run("true")
    ended = launcher.end(launcher.start(str(pair.root), "--attempt=1", "--node", "1"))
    words = f"attempt 1 of job {pair.job_id} was already started on node 1"
    assert (ended.code, words in ended.errors) == (3, True)


def test_a_node_that_the_job_does_not_have_is_refused(pair: NodesJob, launcher: Launcher) -> None:
    pair.write("true")
    for options in (("--dry-run",), ()):
        arguments = ("--node", "2", *options, "--attempt", "1")
        ended = launcher.end(launcher.start(str(pair.root), *arguments))
        assert (ended.code, "has no node 2" in ended.errors) == (2, True)


@contextmanager
def _stranger(pair: NodesJob) -> Generator[socket.socket]:
    """Somebody who says to node 0 that they are node 1, and knows the job's id, as all who see the queue do."""
    port = json.loads(Path(pair.directory().request).read_text())["port"]
    hello = {
        "jumar": PROTOCOL,
        "id": f"{pair.job_id}.1",
        "nodes": 2,
        "least": None,
        "node": 1,
        "size": 2,
        "part": None,
        "door": 0,
        "clock": 1.0,
    }

    def connected() -> bool:
        return stranger.connect_ex(("127.0.0.1", port)) in (0, errno.EISCONN)

    with socket.socket() as stranger:
        wait_for(connected, "node 0 listens")
        stranger.sendall(json.dumps(hello).encode() + b"\n")
        yield stranger


def test_who_knows_only_the_job_s_id_is_no_node_of_it(pair: NodesJob, launcher: Launcher) -> None:
    pair.write("echo up", request={"secret": "sesame"})
    pair.start(0)
    with _stranger(pair) as stranger:
        answer = stranger.makefile().readline()
    assert "another id" in answer
    assert "sesame" not in answer
    pair.start(1)
    for running in pair.started:
        assert launcher.end(running).code == 0
    assert pair.verdict()["state"] == "succeeded"


@pytest.mark.parametrize(
    "message", [{"failed": {"x": 1}}, {"stop": "x"}, {"summary": 5}, {"beat": []}]
)
def test_a_node_that_talks_nonsense_is_lost(pair: NodesJob, message: dict[str, Any]) -> None:
    pair.write("echo up; sleep 60")
    pair.start(0)
    with _stranger(pair) as stranger:
        stranger.sendall(json.dumps({"ready": True}).encode() + b"\n")
        wait_for(lambda: pair.is_up(ranks=2), "the ranks of node 0 are up")
        stranger.sendall(json.dumps(message).encode() + b"\n")
        (running,) = pair.started
        wait_for(lambda: running.poll() is not None, "node 0 has ended")
    assert (pair.verdict()["cause"], pair.verdict()["node"]) == ("node-lost", 1)
