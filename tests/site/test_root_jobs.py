"""Root's program runs jobs as their users: what they are, what they see, how they end."""

import json
import os
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from tests.site.conftest import Host, is_locked, new_id, until

_SELF = """
import json, os, resource
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({"ids": [os.getresuid(), os.getresgid(), os.getgroups()],
  "caps": [status[n] for n in ("CapInh", "CapPrm", "CapEff", "CapAmb")], "nnp": status["NoNewPrivs"],
  "fds": [fd for fd in fds if os.path.exists("/proc/self/fd/%d" % fd)], "umask": status["Umask"].strip(),
  "core": resource.getrlimit(resource.RLIMIT_CORE)[0], "env": sorted(os.environ), "home": os.environ["HOME"]}))
"""


def test_nothing_of_root_is_left_in_a_job(host: Host) -> None:
    job, ann = new_id(), host.users[0]
    assert host.start(job, f"/usr/bin/python3 -I -c '{_SELF}'; sleep 0.1", ann)["ok"]
    assert host.result(job)["state"] == "succeeded", host.output(job)
    seen = json.loads(host.output(job).splitlines()[0])
    uid = host.uid(ann)
    assert seen["ids"] == [[uid] * 3, [uid] * 3, [uid]]
    assert set(seen["caps"]) == {"0" * 16}
    assert (seen["nnp"], seen["umask"], seen["core"]) == ("1", "0027", 0)
    assert seen["fds"] == [0, 1, 2]
    assert seen["home"] == str(host.home(ann))
    assert not [name for name in seen["env"] if "TOKEN" in name or "KEY" in name]
    work = host.state / "jobs" / job / "work"
    for path in (work, work / "job.json", work / "logs/node0/rank0.log"):
        assert path.stat().st_uid == uid
    assert stat.S_IMODE(work.stat().st_mode) == 0o700


_LOOK = """
ls /dev/davinci7000 /dev/nvidia7001; ls /tmp | wc -l; ls /dev/shm | wc -l; touch /tmp/x /dev/shm/y && echo own
cat {secret} {database} {other} {control}/*/owner; ls {jobs} {run_root}; ls /proc | grep -c '^[0-9]'
echo probe > {top}/etc/site.toml; kill -TERM {pid}; echo end
"""


def test_a_job_sees_its_own_only(host: Host) -> None:
    ann, ben = host.users[:2]
    first, job = new_id(), new_id()
    assert host.start(first, "echo canary-of-another-job; sleep 60", ben)["ok"]
    secret = host.home(ben) / "secret"
    secret.write_text("canary-home")
    database = host.state / "server" / "jumar.db"
    database.write_text("canary-database")
    assert host.root is not None
    nodes = [Path("/dev/davinci7000"), Path("/dev/nvidia7001")]
    try:
        for node in nodes:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        words = _LOOK.format(
            secret=secret,
            database=database,
            other=host.state / "jobs" / first / "work/logs/node0/rank0.log",
            control=host.state / "control",
            jobs=host.state / "jobs",
            run_root=host.top / "run-root",
            top=host.top,
            pid=host.root.pid,
        )
        assert host.start(job, words, ann, cards=["nvidia7001"])["ok"]
        ended = host.result(job)
    finally:
        for node in nodes:
            node.unlink()
    assert ended["state"] == "succeeded"
    shown = host.output(job)
    assert "canary" not in shown
    assert "cannot access '/dev/davinci7000'" in shown
    assert shown.count("/dev/nvidia7001\n") == 1, "its own card is there"
    assert "own\n" in shown
    assert shown.count("denied") + shown.count("not permitted") >= 7, shown
    assert host.root.poll() is None
    host.ask({"v": 1, "do": "signal", "job": first, "attempt": 1, "why": "stopped"})
    assert host.result(first)["state"] == "stopped"


def test_each_attempt_runs_once_and_stops_when_asked(host: Host) -> None:
    job, ann = new_id(), host.users[0]
    assert "already" not in host.start(job, "echo begun; sleep 60", ann)
    assert host.start(job, "echo twice", ann)["already"]
    assert host.start(job, "echo next", ann, 2)["code"] == "busy"
    assert host.start(job, "echo theirs", host.users[1], 2)["code"] == "owner"
    until(host.control(job, "1", "node0", "ranks.json").exists, "its ranks run")
    assert host.ask({"v": 1, "do": "remove", "job": job})["code"] == "busy"
    assert host.ask({"v": 1, "do": "lost", "job": job, "attempt": 1})["code"] == "alive"
    stop = {"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "timed-out"}
    assert host.ask(stop)["alive"]
    assert host.result(job)["state"] == "timed-out"
    assert host.output(job) == "begun\n"
    # Its result is written a moment before the last of its processes is gone.
    until(lambda: host.start(job, "echo third", ann, 2).get("ok"), "the next attempt starts")
    assert host.result(job, 2)["state"] == "succeeded"
    assert host.output(job) == "begun\nthird\n"


def test_a_forged_end_frees_nothing(host: Host) -> None:
    """A rank may speak for its supervisor and kill it; root sees who is left."""
    job, ann = new_id(), host.users[0]
    leave = "setsid sleep 300 & disown; echo $! > $JUMAR_JOB_DIR/pid; kill -9 $PPID; sleep 300"
    assert host.start(job, leave, ann)["ok"]
    ended = host.result(job)
    assert (ended["state"], ended["cause"]) == ("lost", "supervisor-killed")
    pid = int((host.state / "jobs" / job / "work/pid").read_text())
    # It is dead when the result is there, and reaped a moment later.
    until(lambda: not Path(f"/proc/{pid}").exists(), "the process is reaped")


_TALK = """
import ctypes, os, signal, socket
end = socket.socket(fileno=ctypes.CDLL(None).syscall(438, os.pidfd_open(os.getppid()), 3, 0))
if os.fork() == 0:
    os.setsid()
    while True:
        end.send(b"R")
os.kill(os.getppid(), signal.SIGKILL)
"""


def test_a_job_that_talks_without_end_in_its_supervisors_place_is_ended(host: Host) -> None:
    job = new_id()
    assert host.start(job, f"exec /usr/bin/python3 -I -c '{_TALK}'", host.users[0])["ok"]
    assert host.result(job)["state"] == "lost"


@pytest.mark.parametrize("kind", ["auto", "v1", "none"])
def test_a_dead_keeper_is_cleaned_up_after(host: Host, kind: str) -> None:
    job, ann = new_id(), host.users[0]
    host.configure(cgroup=kind)
    try:
        assert host.start(job, "setsid sleep 300 & sleep 300", ann, memory=64 << 20, cpus=1)["ok"]
        claim = host.control(job, "1", "node0", "claim.json")
        until(host.control(job, "1", "node0", "ranks.json").exists, "its ranks run")
        before = _processes(host.uid(ann))
        os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
        with claim.open("rb") as file:
            until(lambda: not is_locked(file.fileno()), "the lock is free")
        lost = {"v": 1, "do": "lost", "job": job, "attempt": 1}
        until(lambda: host.ask(lost).get("ok"), "it is written down")
        assert host.result(job)["cause"] == "launcher-killed"
        until(lambda: not before & _processes(host.uid(ann)), "nobody is left")
    finally:
        host.configure(cgroup="auto")


def _processes(uid: int) -> set[int]:
    found = set[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == uid:
                found.add(int(path.name))
        except OSError:
            continue
    return found


def test_kill_at_ends_what_obeys_nobody(host: Host) -> None:
    job, ann = new_id(), host.users[0]
    words = "trap '' TERM INT HUP; kill -STOP $PPID; sleep 300"
    assert host.start(job, words, ann, kill_at=time.time() + 1.5)["ok"]
    assert host.result(job)["cause"] == "killed-by-server"


def test_files_are_read_as_the_user(host: Host) -> None:
    job, ann = new_id(), host.users[0]
    database = host.state / "server" / "jumar.db"
    database.write_text("canary-database")
    words = (
        f"cd $JUMAR_JOB_DIR; mkdir out; echo yes > out/file; ln -s {database} out/link; "
        "mkfifo out/pipe; ln -s / out/root; mkdir -m 0 out/closed; echo done"
    )
    assert host.start(job, words, ann)["ok"]
    host.result(job)

    def files(op: str, *paths: str) -> dict[str, Any]:
        return host.ask({"v": 1, "do": "files", "job": job, "op": op, "paths": list(paths)})

    def text(answer: dict[str, Any]) -> bytes:
        with os.fdopen(answer["fds"][0], "rb") as file:
            return os.pread(file.fileno(), 1 << 20, 0)

    assert text(files("open", "out/file", "logs/node0/rank0.log")) == b"yes\n"
    listed = json.loads(text(files("list", "out")))
    assert {(row[0], row[1]) for row in listed} == {
        ("file", "file"), ("link", "link"), ("pipe", "other"), ("root", "link"), ("closed", "other"),
    }  # fmt: skip
    for path in (
        "out/link",
        "out/pipe",
        "out/root/etc/passwd",
        "../../x",
        "out",
        "/etc/passwd",
        "no",
    ):
        assert "no" in files("open", path), path
    assert files("open", "out/no")["code"] == "gone"
    assert "no" in files("list", "out/root")
    # The keeper still lives for a moment after it has written the result.
    until(lambda: host.ask({"v": 1, "do": "remove", "job": job}).get("ok"), "it is removed")
    assert not (host.state / "jobs" / job).exists()
    assert not host.control(job).exists()
    assert database.read_text() == "canary-database"


def test_links_swapped_while_root_works_lead_nowhere(host: Host) -> None:
    """The user replaces folders of the job by links, again and again; a canary stays as it was."""
    ann, job = host.users[0], new_id()
    canary = host.top / "canary"
    canary.mkdir(exist_ok=True)
    (canary / "kept").write_text("canary")
    swap = (
        f"cd $JUMAR_JOB_DIR; mkdir -p a/b; echo x > a/kept; for i in $(seq 400); do mv a a.real; "
        f"ln -s {canary} a; rm a; mv a.real a; done; rm -rf a; ln -s {canary} a"
    )
    assert host.start(job, swap, ann)["ok"]
    seen = set[bytes]()
    while not host.control(job, "1", "node0", "result.json").exists():
        answer = host.ask({"v": 1, "do": "files", "job": job, "op": "open", "paths": ["a/kept"]})
        for descriptor in answer["fds"]:
            seen.add(os.pread(descriptor, 100, 0))
            os.close(descriptor)
    assert seen <= {b"x\n", b""}
    # The keeper still lives for a moment after it has written the result.
    until(lambda: host.ask({"v": 1, "do": "remove", "job": job}).get("ok"), "it is removed")
    assert (canary / "kept").read_text() == "canary"


def test_beside_runs_where_the_job_runs(host: Host) -> None:
    """The verb for exec and shell: refused without a living attempt, and for somebody else's."""
    ann, job = host.users[0], new_id()
    assert host.start(job, "sleep 60", ann)["ok"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        other = host.message(job, host.users[1], kind="beside")
        assert host.ask(other, (theirs.fileno(),))["code"] == "owner"
        gone = host.message(job, ann, 2, kind="beside")
        assert host.ask(gone, (theirs.fileno(),))["code"] == "over"
    host.ask({"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "lost"})
    assert host.result(job)["cause"] == "killed-by-server"
