"""Jobs whose account is gone, disks that fill at a bad moment, and space that nobody would count."""

import json
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.site.conftest import Host, is_locked, new_id, until

from jumar.engine.shared.jobfiles import Roots
from jumar.engine.site.asking import Root
from jumar.engine.site.files import RootFiles
from jumar.root import program


@contextmanager
def _small_disk(folder: Path, host: Host) -> Generator[None]:
    """One of 64 KiB in the place of a folder of root and the server."""
    options = f"mode=750,size=64k,gid={host.gid(host.server)}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path) -> None:
    with suppress(OSError), (folder / "big").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


@pytest.fixture
def leaver(host: Host) -> Generator[str]:
    """An account that a test may remove."""
    name = f"{host.server[:-1]}x"
    subprocess.run(["useradd", "-M", "-d", "/nonexistent", "-s", "/bin/bash", name], check=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", "-f", name], check=False, capture_output=True)


@pytest.mark.parametrize("how", ["removed", "shut out"])
def test_a_job_of_somebody_who_is_gone_is_stopped_and_removed(
    host: Host, leaver: str, how: str
) -> None:
    """Its processes and files are still there, and hold cards and disks."""
    job, lost = new_id(), new_id()
    for one in (job, lost):
        assert host.start(one, "mkdir -m 0 $JUMAR_JOB_DIR/shut; sleep 300", leaver)["ok"]
        until(host.control(one, "1", "node0", "ranks.json").exists, "it runs")
    if how == "removed":
        subprocess.run(["userdel", "-f", leaver], check=True, capture_output=True)
    else:
        host.configure(users=[host.users[0]])
    try:
        stop = {"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "stopped"}
        assert host.ask(stop)["alive"]
        assert host.result(job)["state"] == "stopped"
        claim = host.control(lost, "1", "node0", "claim.json")
        os.kill(json.loads(claim.read_text())["pid"], 9)
        with claim.open("rb") as file:
            until(lambda: not is_locked(file.fileno()), "its keeper is gone")
        ask = {"v": 1, "do": "lost", "job": lost, "attempt": 1}
        until(lambda: host.ask(ask).get("ok"), "it is written down")
        for one in (job, lost):
            until(lambda one=one: host.ask({"v": 1, "do": "remove", "job": one}).get("ok"), "gone")
            assert not (host.state / "jobs" / one).exists()
            assert not host.control(one).exists()
    finally:
        host.configure(users=["*"])


_SAYS_AGAIN = """
import ctypes, os, socket, time
end = socket.socket(fileno=ctypes.CDLL(None).syscall(438, os.pidfd_open(os.getppid()), 3, 0))
print("begun", flush=True)
while not os.path.exists("{go}"):
    time.sleep(0.05)
end.send(b"R")
while not os.path.exists("{end}"):
    time.sleep(0.05)
print("ran")
"""


def test_a_full_disk_ends_no_job(host: Host) -> None:
    """Root's own files about a job find no room for a while: it goes on, and its end is written then."""
    job, ann, control = new_id(), host.users[0], host.state / "control"
    go, end = host.home(ann) / "go", host.home(ann) / "end"
    with _small_disk(control, host):
        words = _SAYS_AGAIN.format(go=go, end=end)
        assert host.start(job, f"/usr/bin/python3 -I -c '{words}'", ann)["ok"]
        ranks = host.control(job, "1", "node0", "ranks.json")
        until(lambda: ranks.exists() and host.output(job), "it runs")
        ranks.unlink()
        _fill(control)
        go.touch()
        claim = host.control(job, "1", "node0", "claim.json")
        time.sleep(0.5)
        with claim.open("rb") as file:
            assert is_locked(file.fileno()), host.log.read_text()[-1500:]
        end.touch()
        until(lambda: host.output(job) == "begun\nran\n", "its command has ended")
        (control / "big").unlink()
        assert host.result(job)["state"] == "succeeded"


@pytest.mark.parametrize(("why", "state"), [("stopped", "stopped"), ("lost", "lost")])
def test_a_stop_needs_no_room(host: Host, why: str, state: str) -> None:
    job, control = new_id(), host.state / "control"
    with _small_disk(control, host):
        assert host.start(job, "trap '' TERM; sleep 300", host.users[0])["ok"]
        until(host.control(job, "1", "node0", "ranks.json").exists, "it runs")
        claim = host.control(job, "1", "node0", "claim.json")
        _fill(control)
        assert host.ask({"v": 1, "do": "signal", "job": job, "attempt": 1, "why": why})["alive"]
        command = host.state / "jobs" / job / "work/logs/node0/rank0.log"
        until(lambda: not _writers(host, job), "it has ended")
        with claim.open("rb") as file:
            assert is_locked(file.fileno()), "its end is still to be written"
        (control / "big").unlink()
        assert host.result(job)["state"] == state, command.read_text()


def _writers(host: Host, job: str) -> list[str]:
    """The processes of an attempt."""
    found = program.group_of(program.read_site(str(host.toml)), job, 1).main
    return (
        Path(found or "", "cgroup.procs").read_text().split() if Path(found or "").exists() else []
    )


_HIDES = {
    "its /tmp": "head -c 5000000 /dev/zero > /tmp/x",
    "room beyond the end": "cd $JUMAR_JOB_DIR; touch x; fallocate -n -l 5000000 x",
    "small files": "cd $JUMAR_JOB_DIR; for i in $(seq 1300); do echo > s$i; done",
    "what all jobs share": "cd {users}; head -c 5000000 /dev/zero > x",
}


@pytest.mark.parametrize("how", list(_HIDES))
def test_what_takes_room_is_counted(host: Host, how: str) -> None:
    job, ann = new_id(), host.users[0]
    users = host.state / "users" / str(host.uid(ann))
    assert host.start(job, _HIDES[how].format(users=users), ann)["ok"]
    assert host.result(job)["state"] == "succeeded", host.output(job)
    request = {"v": 1, "do": "files", "job": job, "paths": ["."]}
    size = host.ask({**request, "op": "size"})
    kept = host.ask({**request, "op": "kept"})
    assert (size["unseen"], kept["unseen"]) == ("", "")
    assert size["bytes"] + kept["bytes"] >= 5_000_000


_DEEP = 'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(3000)]'
_SHUTS = {
    "all": "chmod 0 $JUMAR_JOB_DIR",
    "a folder": "mkdir -m 0 $JUMAR_JOB_DIR/shut",
    "the last of many": f"cd $JUMAR_JOB_DIR; exec /usr/bin/python3 -I -c '{_DEEP}'",
    "its /tmp": "chmod 0 /tmp",
    "what has no name in letters": "mkdir -m 0 $JUMAR_JOB_DIR/$(printf '\\377')",
}


@pytest.mark.parametrize("how", list(_SHUTS))
def test_what_cannot_be_counted_is_told_and_can_be_removed(host: Host, how: str) -> None:
    job = new_id()
    assert host.start(job, _SHUTS[how], host.users[0])["ok"]
    host.result(job)
    request = {"v": 1, "do": "files", "job": job, "op": "size", "paths": ["."]}
    answer = host.ask(request)
    assert answer["unseen"].startswith(str(host.state / "jobs" / job)), answer
    with host.being(host.server):
        files = RootFiles(host.state, host.top, Roots(), Root(host.top / "run-root"))
        assert files.taken(job).unseen.encode(), "people can be told"
    until(lambda: host.ask({"v": 1, "do": "remove", "job": job}).get("ok"), "it is removed")
    assert not (host.state / "jobs" / job).exists()


def test_holes_and_second_names_take_no_room(host: Host) -> None:
    job, ann = new_id(), host.users[0]
    words = "cd $JUMAR_JOB_DIR; truncate -s 1T x; head -c 1000000 /dev/zero > y; ln y z; ln -s / l"
    assert host.start(job, words, ann)["ok"]
    assert host.result(job)["state"] == "succeeded"
    request = {"v": 1, "do": "files", "job": job, "op": "size", "paths": ["."]}
    assert 1_000_000 <= host.ask(request)["bytes"] < 2_000_000
    assert "no" in host.ask({**request, "paths": [".."]})
