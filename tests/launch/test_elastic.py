"""Runs whose nodes may come and go."""

import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.launch import elastic
from tests.launch.conftest import PATIENCE_S, Launcher, wait_for_notice
from tests.ports import free_port
from tests.waiting import wait_for

from jumar.launch.processes import process


def test_nodes_are_lost_and_come_back(tmp_path: Path) -> None:
    if not elastic.can_be_made():
        pytest.skip("network namespaces need root and ip")
    assert elastic.play(tmp_path, 4, seed=3, cuts=0.0) == []


UP = "echo up $RANK/$WORLD_SIZE $TORCHELASTIC_RESTART_COUNT; until test -e enough; do sleep 0.1; done"


class Nodes:
    """Of one run on this machine."""

    def __init__(self, launcher: Launcher, folder: Path, size: str, restarts: int) -> None:
        self._launcher, self._folder = launcher, folder
        self.port = free_port()
        self._words = (
            "-d", "cpu:1", "--nnodes", size, "--rdzv", f"127.0.0.1:{self.port}", "--grace", "1",
            "--max-restarts", str(restarts), "--log-dir", "logs", "--join-limit", "60",
            "--node-limit", "5", "--rdzv-conf", "last_call_timeout=0",
            "--local-ranks-filter", "0", "sh", "-c", UP,
        )  # fmt: skip

    def start(self) -> "subprocess.Popen[str]":
        return self._launcher.start(*self._words)

    def wait_for(self, *lines: str) -> None:
        wait_for(lambda: set(lines) <= set(self._lines()), f"{lines} are in the logs")

    def finish(self) -> None:
        (self._folder / "enough").touch()

    @staticmethod
    def kill(running: "subprocess.Popen[str]") -> None:
        """All processes of a launcher."""
        for pid in (running.pid, *(stat.pid for stat in process.descendants(running.pid))):
            process.send(pid, signal.SIGKILL)

    def lose_leader(self) -> "subprocess.Popen[str]":
        """Start two nodes and kill the first; the second, once it leads."""
        first = self.start()
        self.wait_for("up 0/1 0")
        second = self.start()
        self.wait_for("up 0/2 1", "up 1/2 1")
        self.kill(first)
        self.wait_for("up 0/1 2")
        return second

    def herald(self) -> bytes:
        """What the leader tells whoever listens where the run began."""
        with socket.create_server(("127.0.0.1", self.port)) as door:
            door.settimeout(PATIENCE_S)
            with door.accept()[0] as visitor, visitor.makefile("rb") as words:
                return words.readline()

    def repeat(self, words: bytes, until: str) -> None:
        """To the node that listens there, until this line is in a log."""

        def is_there() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as door:
                door.sendall(words)
            return until in self._lines()

        wait_for(is_there, f"{until} is in the logs")

    def _lines(self) -> list[str]:
        return [
            line
            for path in self._folder.glob("logs/*/*.log")
            for line in path.read_text().splitlines()
        ]


def test_a_lost_leader_is_replaced_and_without_restarts_left_a_newcomer_waits(
    launcher: Launcher, tmp_path: Path
) -> None:
    nodes = Nodes(launcher, tmp_path, "1:2", restarts=2)
    second = nodes.lose_leader()
    spare = nodes.start()
    wait_for_notice(spare, "this node waits until it is needed")
    nodes.finish()
    told = launcher.end(second)
    assert told.code == 0
    # Numbered anew, local rank 0 is still the one that is shown.
    assert told.output == "[rank 1] up 1/2 1\n[rank 0] up 0/1 2\n"
    words = "lost contact with node 0 (127.0.0.1); all ranks are started again (2 of at most 2)"
    assert f"{words}: 1 node, 1 rank" in told.errors
    assert launcher.end(spare).code == 0


def test_the_last_words_of_a_dead_leader_are_not_followed(
    launcher: Launcher, tmp_path: Path
) -> None:
    nodes = Nodes(launcher, tmp_path, "1:2", restarts=10)
    second = nodes.lose_leader()
    words = nodes.herald()
    first = nodes.start()
    nodes.wait_for("up 0/2 3", "up 1/2 3")
    nodes.kill(second)
    # By one that it has followed, and by one that it only hears of.
    nodes.repeat(words, until="up 0/1 4")
    nodes.kill(first)
    for log in tmp_path.glob("logs/*/*.log"):
        log.unlink()
    first = nodes.start()
    nodes.repeat(words, until="up 0/1 0")
    nodes.finish()
    assert launcher.end(first).code == 0


def test_without_restarts_a_lost_node_ends_the_run(launcher: Launcher, tmp_path: Path) -> None:
    nodes = Nodes(launcher, tmp_path, "2:3", restarts=0)
    first, second = nodes.start(), nodes.start()
    nodes.wait_for("up 0/2 0", "up 1/2 0")
    second.kill()
    ended = launcher.end(first)
    assert ended.code == 120
    # Either may have come first.
    assert re.search(r"lost contact with node [01] \(127\.0\.0\.1\)", ended.errors)


def test_too_few_nodes_do_not_begin(launcher: Launcher) -> None:
    where = f"127.0.0.1:{free_port()}"
    ended = launcher.run("--nnodes", "2:3", "--rdzv", where, "--join-limit", "0.5", "true")
    assert ended.code == 121
    assert "1 of at least 2 nodes are here: the others did not join within 0.5 s" in ended.errors
    ended = launcher.run("--nnodes", "3:2", "--rdzv", where, "true")
    assert (ended.code, "hint: write 4, or 1:4" in ended.errors) == (2, True)
