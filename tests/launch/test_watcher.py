"""What is left of a run when processes of the launcher itself are killed: nothing."""

import glob
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.launch.conftest import PATIENCE_S, PYTHON, Launcher, logs_of
from tests.waiting import wait_for

from jumar.launch.processes import pair, process, tree
from jumar.launch.processes.process import Stat

DAEMONS = (
    "setsid -f sh -c 'trap \"\" TERM HUP INT; exec sleep 300'; (sleep 300 & sleep 300) & "
    "echo ready; sleep 300"
)


def below(pid: int) -> list[int]:
    return [stat.pid for stat in process.descendants(pid)]


@pytest.mark.parametrize("victim", ["launcher", "supervisor"])
def test_killed_it_leaves_no_orphan(launcher: Launcher, tmp_path: Path, victim: str) -> None:
    running = launcher.start("--devices", "cpu:2", "--log-dir", "logs", "sh", "-c", DAEMONS)
    wait_for(lambda: logs_of(tmp_path / "logs").count("ready") == 2, "ranks are ready")
    supervisor = next(s.pid for s in process.descendants(running.pid) if s.parent == running.pid)
    os.kill(running.pid if victim == "launcher" else supervisor, signal.SIGKILL)
    wait_for(lambda: not launcher.left_over(), "everything is gone")
    ended = launcher.end(running)
    assert ended.code == (-signal.SIGKILL if victim == "launcher" else 125)


START = """
import os, signal, sys
from jumar.launch.processes import tree
if sys.argv.pop(1) == "without":
    tree.MOUNTINFO = "/dev/null"
dies, forks, fork = int(sys.argv.pop(1)), 0, os.fork
def deadly():
    global forks
    forks += 1
    child = fork()
    if child == 0 and forks == dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return child
os.fork = deadly
from jumar.launch.__main__ import main
sys.exit(main())
"""


class Start:
    """A launcher whose first processes can be killed as soon as they are there."""

    def __init__(
        self, launcher: Launcher, cgroups: str, dies: int, *, within_another: bool = False
    ) -> None:
        self._launcher = launcher
        script = launcher.script(START, "start.py")
        words = [cgroups, str(dies), "-d", "cpu:2", "--log-dir", "logs", "sh", "-c", DAEMONS]
        if within_another:
            words = [cgroups, "0", "-d", "cpu:1", "--log-dir", "outer", PYTHON, script, *words]
        self.running = launcher.start(*words, program=[script])

    def wait(self) -> None:
        """Until all ranks run."""
        logs = self._launcher.folder / "logs"
        wait_for(lambda: logs_of(logs).count("ready") == 2, "the daemons run")

    def kill_both(self) -> None:
        """Keeper and supervisor, once all ranks run."""
        self.wait()
        below_it = process.descendants(self.running.pid)
        supervisor = next(stat.pid for stat in below_it if stat.parent == self.running.pid)
        for pid in (supervisor, self.running.pid):
            os.kill(pid, signal.SIGKILL)
        self.running.wait(PATIENCE_S)


@pytest.mark.parametrize("cgroups", ["with", "without"])
@pytest.mark.parametrize("dies", [0, 1, 2], ids=["nobody", "between", "watcher"])
def test_both_processes_of_the_launcher_killed_together_leave_nothing(
    launcher: Launcher, cgroups: str, dies: int
) -> None:
    """Also when the watcher, or the process that detaches it, was killed while it was started."""
    Start(launcher, cgroups, dies).kill_both()
    wait_for(lambda: not launcher.left_over(), "nothing is left")


@pytest.mark.parametrize("cgroups", ["with", "without"])
@pytest.mark.parametrize("how", ["pkill -f", "killall"])
def test_all_processes_of_that_name_killed_together_leave_nothing(
    launcher: Launcher, cgroups: str, how: str
) -> None:
    start = Start(launcher, cgroups, 0)
    start.wait()
    own = process.read_stat(start.running.pid)
    assert own is not None
    for stat in process.with_environment({"TEST_MARK": launcher.mark}):
        words = b" ".join(process.command_of(stat.pid))
        if b"start.py" in words if how == "pkill -f" else stat.name == own.name:
            process.send(stat.pid, signal.SIGKILL)
    wait_for(lambda: not launcher.left_over(), "nothing is left")


@pytest.mark.parametrize("cgroups", ["with", "without"])
def test_a_launcher_within_the_killed_one_leaves_nothing_either(
    launcher: Launcher, cgroups: str
) -> None:
    """Nor its cgroup, which is below the other's."""
    start = Start(launcher, cgroups, 0, within_another=True)
    start.kill_both()
    wait_for(lambda: not launcher.left_over(), "nothing is left")
    place = tree.cgroup_place(f"jumar-launch-{start.running.pid}_")
    assert place is None or not glob.glob(f"{glob.escape(place)}*")


def test_a_launcher_that_gets_no_watcher_starts_nothing(launcher: Launcher) -> None:
    script = launcher.script(START.replace("forks == dies", "forks > dies"), "start.py")
    running = launcher.start("with", "0", "-d", "cpu:1", "touch", "ran", program=[script])
    ended = launcher.end(running)
    assert (ended.code, ended.errors.partition(": ")[0]) == (125, "error")
    assert "the process that is to watch over it ended 5 times" in ended.errors
    assert not (launcher.folder / "ran").exists()


def test_a_process_that_is_being_replaced_is_still_found_by_its_environment(
    launcher: Launcher,
) -> None:
    """Between two programs the kernel shows no environment at all."""
    script = launcher.script('exec sh "$0"', "again.sh")
    mark = {"TEST_MARK": launcher.mark}
    running = subprocess.Popen(["sh", script], env={**os.environ, **mark})
    try:
        entry = f"TEST_MARK={launcher.mark}".encode()
        seen = [entry in process.environment_of(running.pid) for _ in range(2000)]
        assert seen.count(False) == 0
    finally:
        running.kill()
        running.wait(PATIENCE_S)


def test_the_watcher_looks_until_nothing_is_left_even_where_it_cannot_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process may be started by one that ends while it looks, and files may run out."""
    running = subprocess.Popen(["sleep", "300"])
    stat = process.read_stat(running.pid)
    assert stat is not None
    looks: list[list[Stat] | None] = [None, [], [stat], None, [], []]

    def look(mark: dict[str, str]) -> list[Stat]:
        found = looks.pop(0) if looks else []
        if found is None:
            raise OSError(23, "too many open files in system")
        return found

    monkeypatch.setattr(process, "with_environment", look)
    pair.end_all({"A": "b"}, None)
    assert (running.wait(PATIENCE_S), looks) == (-signal.SIGKILL, [])


KILL = """
import subprocess, sys
from jumar.launch.processes import process
from jumar.launch.processes.tree import Tree
look, blind = process.descendants, [int(sys.argv[1])]
def descendants(pid):
    blind[0] -= 1
    return [] if blind[0] >= 0 else look(pid)
process.descendants = descendants
subprocess.Popen(["sleep", "300"])
Tree(None).kill(float(sys.argv[2]))
"""


@pytest.mark.parametrize(("blind_looks", "limit_s"), [(0, 0.0), (1, 5.0)])
def test_whoever_is_seen_late_is_killed_too(
    launcher: Launcher, blind_looks: int, limit_s: float
) -> None:
    """On a machine that stood still until the time was up, or by a look that missed who came just then."""
    subprocess.run(
        [sys.executable, "-c", KILL, str(blind_looks), str(limit_s)],
        env={**os.environ, "TEST_MARK": launcher.mark},
        check=True,
        timeout=PATIENCE_S,
    )
    wait_for(lambda: not launcher.left_over(), "everything is gone")


@pytest.mark.parametrize("batch", range(10))
def test_random_kills_leave_no_process(launcher: Launcher, batch: int) -> None:
    """20 schedules a batch: signals of any kind to any process, at any moment."""
    chance = random.Random(batch)
    for _ in range(20):
        command = chance.choice(
            [DAEMONS, "sleep 0.05", "sleep 0.02; exit 3", "trap '' TERM; sleep 9"]
        )
        running = launcher.start("--devices", "cpu:2", "--grace", "0.2", "-q", "sh", "-c", command)
        time.sleep(chance.random() * 0.15)
        for _ in range(chance.randint(1, 3)):
            victim = chance.choice([running.pid, *below(running.pid)])
            number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            process.send(victim, number)
            time.sleep(chance.random() * 0.02)
        if running.poll() is None:
            running.terminate()
        launcher.end(running)
        wait_for(lambda: not launcher.left_over(), "everything is gone")
