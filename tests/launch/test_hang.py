"""All ranks that do nothing are noticed, and where each of them was is told."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from typing import TextIO

from tests.launch.conftest import Launcher
from tests.launch.test_job_nodes import NodesJob
from tests.launch.test_nodes import pair
from tests.ports import free_port
from tests.waiting import wait_for

from jumar.launch.nodes.channel import PROTOCOL
from jumar.launch.nodes.team import Message
from jumar.launch.processes import process
from jumar.launch.verdict import Summary

HANGS = """
import os, sys, threading, time
def all_reduce():
    threading.Event().wait()
print("up", flush=True)
if os.environ["RANK"] == sys.argv[1]:
    time.sleep(600)
all_reduce()
"""


def test_ranks_that_all_hang_are_ended_and_whom_they_wait_for_is_named(launcher: Launcher) -> None:
    script = launcher.script(HANGS)
    nodes = pair(launcher, script, "2", options=("--hang-limit", "2", "--grace", "5"))
    for ended in (launcher.end(running) for running in nodes):
        assert ended.code == 122
        words = f"rank 2 in {script}:7; ranks 0, 1, 3 in all_reduce"
        assert f"jumar launch: no rank has done anything for 2 s: {words}" in ended.errors


def test_ranks_that_do_something_have_not_hung(launcher: Launcher) -> None:
    works = "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.1)\n"
    ended = launcher.run("-d", "cpu:2", "--hang-limit", "1", launcher.script(works))
    assert ended.code == 0
    # One alone may wait for whatever it likes.
    assert launcher.run("-d", "cpu:1", "--hang-limit", "0.2", "sleep", "1").code == 0


def test_the_limit_is_a_field_of_a_job(launcher: Launcher) -> None:
    job = NodesJob(launcher, ["127.0.0.1"] * 2, [[], []])
    script = launcher.script(HANGS)
    verdict = job.run([sys.executable, script, "1"], hang_limit_s=2)
    assert (verdict["cause"], verdict["rank"], verdict["node"]) == ("hang", 1, 0)
    assert verdict["values"]["limit_s"] == "2"


LOSES_ITS_PEER = """
import os, socket, sys
def all_reduce():
    if not peer.recv(1):
        raise RuntimeError("Connection closed by peer")
door = socket.socket(socket.AF_UNIX)
if os.environ["RANK"] == "0":
    door.bind("door")
    door.listen()
    peer, _ = door.accept()
else:
    peer = socket.socket(socket.AF_UNIX)
    while peer.connect_ex("door"):
        pass
print("up", flush=True)
try:
    all_reduce()
except RuntimeError:
    raise ValueError("step failed") from None
"""
DEEP = 40
"""Shells in shells, each of which has to be looked for: a rank below them hears a signal long after
the other."""


def test_no_rank_is_ended_before_all_stand_still(launcher: Launcher) -> None:
    script = launcher.script(LOSES_ITS_PEER)
    launcher.script('[ $1 = 0 ] || { sh deep $(($1 - 1)); exit; }\n"$PYTHON" train.py\n', "deep")
    command = f'[ $RANK = 1 ] && exec sh deep {DEEP}; exec "$PYTHON" {script}'
    ended = launcher.run(
        "-d", "cpu:2", "--hang-limit", "2", "--grace", "60", "sh", "-c", command,
        environ={"PYTHON": sys.executable},
    )  # fmt: skip
    assert ended.code == 122
    assert "no rank has done anything for 2 s: ranks 0, 1 in all_reduce" in ended.errors


class OtherNode:
    """Node 1, as the test plays it."""

    def __init__(self, connection: socket.socket, lines: TextIO) -> None:
        self._connection, self._lines = connection, lines

    def say(self, message: Message) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def hang(self) -> None:
        """Join, start a rank and do nothing."""
        hello = {"jumar": PROTOCOL, "clock": time.monotonic(), "id": "none", "nodes": 2}
        self.say({**hello, "least": None, "node": 1, "size": 1, "part": None, "door": 0})
        self.hear("go")
        self.say({"ready": 1})
        self.say({"idle": True})

    def hear(self, until: str) -> list[str]:
        """What each message is about, up to such a one."""
        heard: list[str] = []
        while until not in heard:
            message: Message = json.loads(self._lines.readline())
            heard.append(next(iter(message)))
        return heard


@contextlib.contextmanager
def other_node(port: int) -> Generator[OtherNode]:
    def is_listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(is_listening, "node 0 listens")
    made = socket.create_connection(("127.0.0.1", port))
    with made as connection, connection.makefile("r") as lines:
        yield OtherNode(connection, lines)


def node_0(launcher: Launcher, port: int, script: str) -> "subprocess.Popen[str]":
    return launcher.start(
        "-d", "cpu:2", "--nodes", "2", "--node-rank", "0", "--rdzv", f"127.0.0.1:{port}",
        "--hang-limit", "1", "--grace", "60", "--log-dir", "logs", launcher.script(script), "1",
    )  # fmt: skip


def logs_of(launcher: Launcher) -> list[str]:
    return [log.read_text() for log in (launcher.folder / "logs").glob("*/rank*.log")]


def test_no_rank_is_ended_before_those_of_other_nodes_stand_still(launcher: Launcher) -> None:
    port = free_port()
    running = node_0(launcher, port, HANGS)
    with other_node(port) as other:
        other.hang()
        assert "end" not in other.hear("hold")
        # It goes on: time passes, and nobody is ended.
        assert "end" not in [*other.hear("beat"), *other.hear("beat")]
        assert logs_of(launcher) == ["up\n"] * 2
        other.say({"held": 1})
        other.hear("end")
        summary = Summary(1, [])._replace(hung=[(2, "all_reduce")], limit_s=1)
        other.say({"summary": summary.as_json()})
        other.hear("verdict")
        ended = launcher.end(running)
    assert ended.code == 122
    assert ": rank 1 in " in ended.errors
    assert "; ranks 0, 2 in all_reduce" in ended.errors


def test_ranks_that_stand_still_hear_that_another_node_was_lost(launcher: Launcher) -> None:
    port = free_port()
    says = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit('bye'))\n"
    running = node_0(launcher, port, f"{says}print('up', flush=True)\nsignal.pause()\n")
    with other_node(port) as other:
        other.hang()
        other.hear("hold")
    ended = launcher.end(running)
    assert "lost contact with node 1" in ended.errors
    assert logs_of(launcher) == ["up\nbye\n"] * 2


def test_a_signal_to_a_process_that_stands_still_is_taken_by_its_main_thread() -> None:
    """Whichever thread is the first to go on."""
    waits = "import threading, time; print(threading.get_ident(), flush=True)\n"
    waits += (
        "for _ in range(30): threading.Thread(target=time.sleep, args=[600], daemon=True).start()\n"
    )
    with subprocess.Popen(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            waits + "print('up', flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        main = int(running.stdout.readline())
        running.stdout.readline()
        running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED)
        assert process.send_to_main_thread(running.pid, signal.SIGABRT)
        running.send_signal(signal.SIGCONT)
        _, errors = running.communicate()
    assert f"Current thread 0x{main:016x}" in errors
