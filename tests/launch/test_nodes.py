"""Runs of several nodes: as processes on one address, and as network namespaces of their own."""

import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from tests.launch.conftest import Launcher, in_namespace, wait_for_notice
from tests.ports import free_port
from tests.waiting import wait_for

from jumar.launch.processes import process


def pair(
    launcher: Launcher, *command: str, options: tuple[str, ...] = ()
) -> list["subprocess.Popen[str]"]:
    port = free_port()
    return [
        launcher.start(
            "--devices", "cpu:2", "--nodes", "2", "--node-rank", str(node),
            "--rdzv", f"127.0.0.1:{port}", "--log-dir", f"logs{node}", *options, *command,
        )
        for node in (1, 0)
    ]  # fmt: skip


SHOW = "echo $NODE_RANK $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR"


def test_ranks_are_numbered_over_all_nodes(launcher: Launcher) -> None:
    one, zero = (launcher.end(p) for p in pair(launcher, "sh", "-c", SHOW))
    assert (one.code, zero.code) == (0, 0)
    assert zero.lines() == [f"[rank {r}] 0 {r} {r} 4 127.0.0.1" for r in (0, 1)]
    assert one.lines() == [f"[rank {r}] 1 {r} {r - 2} 4 127.0.0.1" for r in (2, 3)]


def test_three_nodes_may_come_in_any_order(launcher: Launcher) -> None:
    common = ("--devices", "cpu:1", "--nodes", "3", "--rdzv", f"127.0.0.1:{free_port()}")
    started = {
        node: launcher.start(*common, "--node-rank", str(node), "sh", "-c", "echo $RANK")
        for node in (2, 0, 1)
    }
    for node, running in started.items():
        assert launcher.end(running).output == f"[rank {node}] {node}\n"


def test_nodes_of_one_machine_are_numbered_as_they_come(launcher: Launcher) -> None:
    common = (
        "--nproc-per-node",
        "1",
        "--nnodes",
        "3",
        "--rdzv-endpoint",
        f"localhost:{free_port()}",
    )
    started = [launcher.start(*common, "sh", "-c", "echo $RANK") for _ in range(3)]
    ended = [launcher.end(running) for running in started]
    assert [one.code for one in ended] == [0, 0, 0]
    assert sorted(one.output for one in ended) == [f"[rank {r}] {r}\n" for r in range(3)]


def test_each_numbered_node_keeps_and_prints_its_own_logs_only(
    launcher: Launcher, tmp_path: Path
) -> None:
    common = ("--devices", "cpu:2", "--nodes", "2", "--rdzv", f"127.0.0.1:{free_port()}",
              "--log-dir", "logs", "--local-ranks-filter", "1")  # fmt: skip
    older = tmp_path / "logs" / "node1" / "rank3.log"
    older.parent.mkdir(parents=True)
    older.write_text("of an earlier run\n")
    started = [launcher.start(*common, "sh", "-c", "echo $NODE_RANK $RANK") for _ in range(2)]
    ended = [launcher.end(running) for running in started]
    assert sorted(one.output for one in ended) == ["[rank 1] 0 1\n", "[rank 3] 1 3\n"]
    assert older.read_text() == "of an earlier run\n1 3\n"
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("logs/*/*.log"))
    assert kept == [f"logs/node{rank // 2}/rank{rank}.log" for rank in range(4)]


def test_a_failing_rank_ends_all_nodes_and_both_name_it(launcher: Launcher) -> None:
    command = "echo up; test $RANK = 3 && { sleep 0.3; echo broken >&2; exit 6; }; sleep 60"
    one, zero = (launcher.end(p) for p in pair(launcher, "sh", "-c", command))
    assert (one.code, zero.code) == (6, 6)
    for ended in (one, zero):
        assert "rank 3 on node 1 exited with code 6" in ended.errors
        assert "broken" in ended.errors


def test_a_signal_to_one_node_ends_all(launcher: Launcher, tmp_path: Path) -> None:
    command = "trap 'exit 75' TERM; echo up; while :; do sleep 0.05; done"
    one, zero = pair(launcher, "sh", "-c", command)
    wait_for(lambda: len(list(tmp_path.glob("logs?/node?/rank?.log"))) == 4, "all ranks run")
    wait_for(
        lambda: all("up" in p.read_text() for p in tmp_path.glob("logs?/*/*.log")), "all are up"
    )
    one.terminate()
    assert (launcher.end(one).code, launcher.end(zero).code) == (75, 75)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_node_that_hangs_while_another_is_done_is_named(
    launcher: Launcher, tmp_path: Path, slow: int
) -> None:
    command = f"test $NODE_RANK != {slow} || until test -e told; do sleep 0.1; done"
    one, zero = pair(launcher, "sh", "-c", command, options=("--straggler", "0.3"))
    wait_for_notice(zero, rf"still running \d+ s after node {1 - slow} was done: node {slow}$")
    (tmp_path / "told").touch()
    assert (launcher.end(one).code, launcher.end(zero).code) == (0, 0)


def test_restarts_are_made_together(launcher: Launcher) -> None:
    command = (
        "test $TORCHELASTIC_RESTART_COUNT = 1 || { test $RANK = 2 && exit 5; sleep 60; };"
        " echo ok $MASTER_PORT"
    )
    one, zero = (
        launcher.end(p) for p in pair(launcher, "sh", "-c", command, options=("--restarts", "1"))
    )
    assert (one.code, zero.code) == (0, 0)
    assert one.output.count("ok") == zero.output.count("ok") == 2
    assert len({line.split()[-1] for line in (one.output + zero.output).splitlines()}) == 1


def test_a_node_that_does_not_come_is_named(launcher: Launcher) -> None:
    ended = launcher.run(
        "--nodes", "3", "--node-rank", "0", "--rdzv", f"127.0.0.1:{free_port()}",
        "--join-limit", "0.5", "true",
    )  # fmt: skip
    assert ended.code == 121
    assert "nodes 1, 2 did not join within 0.5 s" in ended.errors
    ended = launcher.run(
        "--nodes", "2", "--node-rank", "1", "--rdzv", f"127.0.0.1:{free_port()}",
        "--join-limit", "0.5", "true",
    )  # fmt: skip
    assert ended.code == 121
    assert "node 0 does not answer" in ended.errors


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_another_program_has_is_named_on_both_nodes(
    launcher: Launcher, answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ("--nodes", "2", "--rdzv", f"127.0.0.1:{port}", "--join-limit", "2", "true")
        one = launcher.start("--node-rank", "1", *words)
        visitor, _ = other.accept()
        with visitor:
            visitor.sendall(answer)
            zero = launcher.run("--node-rank", "0", *words)
            ended = launcher.end(one)
    assert (zero.code, ended.code) == (121, 121)
    assert f"port {port} of this machine is taken by another program" in zero.errors
    assert f"port {port} of 127.0.0.1 is taken by another program" in ended.errors


NOISE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"[" * 200_000 + b"\n",
    b'{"jumar": 4}\n',
    b'{"jumar": 4, "id": "a", "nodes": 2, "node": 1}\n',
    b'{"jumar": 4, "id": "a", "nodes": 2, "node": {}, "size": "x", "part": 3, "door": 0, "clock": 1.0}\n',
    b'{"jumar": 4, "id": "a", "nodes": 2, "node": -1, "size": 1, "part": null, "door": 0, "clock": 1.0}\n',
]


def test_a_node_of_another_run_is_refused(launcher: Launcher) -> None:
    port = free_port()
    common = ("--nodes", "2", "--rdzv", f"127.0.0.1:{port}", "--join-limit", "300")
    zero = launcher.start(*common, "--node-rank", "0", "--rdzv-id", "a", "true")
    stranger = launcher.run(*common, "--node-rank", "1", "--rdzv-id", "b", "true")
    assert stranger.code == 121
    assert "the run here has another id than 'b'" in stranger.errors
    for noise in NOISE:
        with socket.create_connection(("127.0.0.1", port)) as visitor:
            visitor.sendall(noise)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as scanner:
            # Leaves with a reset, before anybody can ask who it was.
            scanner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    friend = launcher.run(*common, "--node-rank", "1", "--rdzv-id", "a", "true")
    assert (friend.code, launcher.end(zero).code) == (0, 0)


def test_a_silent_node_is_lost_after_a_while(launcher: Launcher, tmp_path: Path) -> None:
    one, zero = pair(
        launcher, "sh", "-c", "echo up; sleep 60", options=("--node-limit", "4", "--grace", "1")
    )
    wait_for(lambda: len(list(tmp_path.glob("logs?/node?/rank?.log"))) == 4, "all ranks run")
    frozen = [one.pid, *(stat.pid for stat in process.descendants(one.pid))]
    for pid in frozen:
        process.send(pid, signal.SIGSTOP)
    try:
        ended = launcher.end(zero)
    finally:
        for pid in frozen:
            process.send(pid, signal.SIGCONT)
    assert ended.code == 120
    assert "lost contact with node 1 (127.0.0.1)" in ended.errors
    assert launcher.end(one).code == 120


TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
value = torch.tensor([float(rank + 1)])
dist.all_reduce(value)
print("sum", int(value), "of", size, flush=True)
dist.destroy_process_group()
"""


def in_namespaces(
    launcher: Launcher, namespaces: list[str], *command: str
) -> list["subprocess.Popen[str]"]:
    return [
        launcher.start(
            "--devices", "cpu:2", "--nodes", "2", "--rdzv", "10.77.0.1:29400", "--grace", "2",
            "--log-dir", f"logs{node}", *command,
            prefix=in_namespace(namespaces[node]),
            # Node 0 knows itself by its address, node 1 gets the number that is left.
            environ={"GLOO_SOCKET_IFNAME": subprocess.run(
                ["ip", "-n", namespaces[node], "-o", "route", "get", "10.77.0.9"],
                check=True, capture_output=True, text=True).stdout.split(" dev ")[1].split()[0]},
        )
        for node in (0, 1)
    ]  # fmt: skip


def test_a_torch_job_on_two_machines(launcher: Launcher, namespaces: list[str]) -> None:
    started = in_namespaces(launcher, namespaces, launcher.script(TRAIN))
    zero, one = (launcher.end(p) for p in started)
    assert (zero.code, one.code) == (0, 0), (zero.errors, one.errors)
    # torch also warns that these addresses have no names.
    sums = [line for ended in (zero, one) for line in ended.lines() if "sum" in line]
    assert sums == [f"[rank {r}] sum 10 of 4" for r in range(4)]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_launcher_of_one_machine_is_named_by_the_other(
    launcher: Launcher, namespaces: list[str], tmp_path: Path, victim: int
) -> None:
    started = in_namespaces(launcher, namespaces, "sh", "-c", "echo up; sleep 60")
    wait_for(lambda: len(list(tmp_path.glob("logs?/node?/rank?.log"))) == 4, "all ranks run")
    started[victim].kill()
    # Long before the ranks would have ended by themselves.
    ended = launcher.end(started[1 - victim])
    assert ended.code == 120
    assert f"lost contact with node {victim} (10.77.0.{victim + 1})" in ended.errors
    wait_for(lambda: not launcher.left_over(), "nothing is left on either")


@pytest.mark.parametrize("said", [b"", b'{"beat": 1}\n'])
def test_strangers_who_do_not_say_what_they_are_keep_no_node_out(
    launcher: Launcher, said: bytes
) -> None:
    port = free_port()
    common = ("--devices", "cpu:1", "--nodes", "2", "--rdzv", f"127.0.0.1:{port}")
    limited = ("sh", "-c", 'ulimit -n 128; exec "$@"', "-")
    zero = launcher.start(
        *common, "--node-rank", "0", "--join-limit", "20", "sh", "-c", "echo $RANK", prefix=limited
    )
    strangers: list[socket.socket] = []
    try:
        wait_for(lambda: _knocks(port, strangers, said), "node 0 listens")
        for _ in range(200):
            _knocks(port, strangers, said)
        one = launcher.start(*common, "--node-rank", "1", "sh", "-c", "echo $RANK")
        assert [launcher.end(running).output for running in (zero, one)] == [
            "[rank 0] 0\n",
            "[rank 1] 1\n",
        ]
    finally:
        for stranger in strangers:
            stranger.close()


def _knocks(port: int, strangers: list[socket.socket], said: bytes) -> bool:
    try:
        strangers.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        strangers[-1].sendall(said)
    except OSError:
        return False
    return True
