"""All ranks that do nothing are noticed, and where each of them was is told."""

import sys

from tests.launch.conftest import Launcher
from tests.launch.test_job_nodes import NodesJob
from tests.launch.test_nodes import pair

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
