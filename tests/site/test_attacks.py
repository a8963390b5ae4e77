"""What people of a site do to hold others up or to get at more than is theirs."""

import json
import os
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.site.api import api
from tests.site.conftest import Host, is_locked, new_id, until

from jumar.root import program

_DEEP = """
import os
os.chdir(os.environ["JUMAR_JOB_DIR"])
os.mkdir("shut", 0)
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("f", "w").close()
os.chmod("..", 0o500)
os.chmod(".", 0)
"""
_BOMB = """
import os, time
made = []
try:
    for _ in range(60):
        made.append(os.fork())
        if not made[-1]:
            time.sleep(300)
except BlockingIOError:
    print("refused")
for one in made:
    os.kill(one, 9)
"""


def _python(script: str) -> str:
    return f"exec /usr/bin/python3 -I -c '{script}'"


def _run(host: Host, words: str, user: str = "", **changes: Any) -> tuple[str, str]:
    """The output and the state of an attempt that has ended."""
    job = new_id()
    assert host.start(job, words, user or host.users[0], **changes)["ok"]
    return host.result(job)["state"], host.output(job)


def _remove(host: Host, job: str) -> dict[str, Any]:
    with host.control(job, "1", "node0", "claim.json").open("rb") as claim:
        until(lambda: not is_locked(claim.fileno()), "its keeper is gone")
    return host.ask({"v": 1, "do": "remove", "job": job})


def test_a_folder_of_any_depth_is_listed_and_removed(host: Host) -> None:
    job = new_id()
    assert host.start(job, _python(_DEEP), host.users[0])["ok"]
    assert host.result(job)["state"] == "succeeded", host.output(job)
    listed = host.ask({"v": 1, "do": "files", "job": job, "op": "list", "paths": ["."]})
    with os.fdopen(listed["fds"][0], "rb") as file:
        paths = [row[0] for row in json.loads(os.pread(file.fileno(), 64 << 20, 0))]
    assert "d/d/d/d/d" in paths
    assert "shut" in paths
    assert _remove(host, job)["ok"]
    assert not (host.state / "jobs" / job).exists()


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    """A file of somebody else, as a rootless container leaves it."""
    folder = tmp_path / "top"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/mine").write_text("x")
    (folder / "c").mkdir()
    subprocess.run(["chattr", "+i", folder / "c"], check=False, capture_output=True)
    try:
        if not os.path.exists(folder / "c") or _can_write(folder / "c"):
            pytest.skip("no file system here keeps a folder as it is")
        with pytest.raises(OSError, match="not permitted"):
            program.empty(str(folder))
        assert os.listdir(folder) == ["c"]
    finally:
        subprocess.run(["chattr", "-i", folder / "c"], check=False, capture_output=True)
    program.empty(str(folder))
    assert os.listdir(folder) == []


def _can_write(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
    except PermissionError:
        return False
    return True


def _stop_first(uid: int, is_over: threading.Event) -> None:
    """As that user would: stop whatever of hers comes, as soon as it comes."""
    while not is_over.is_set():
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if path.stat().st_uid == uid and b"program.py" in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGSTOP)
                    return
            except OSError:
                continue


def test_a_stopped_worker_holds_nobody_up(host: Host) -> None:
    ann, job = host.users[0], new_id()
    many = "cd $JUMAR_JOB_DIR; for i in $(seq 40); do mkdir d$i; touch d$i/f{1..400}; done"
    assert host.start(job, many, ann)["ok"]
    assert host.result(job)["state"] == "succeeded"
    is_over = threading.Event()
    attacker = threading.Thread(target=_stop_first, args=(host.uid(ann), is_over))
    attacker.start()
    # The connection itself waits 20 s: a worker that is not let go of breaks this.
    answer = _remove(host, job)
    is_over.set()
    attacker.join()
    assert answer.get("code") in ("slow", None), answer
    assert answer.get("ok") or _remove(host, job)["ok"]


def test_a_stopped_launcher_is_woken_and_one_stopped_for_ever_killed(host: Host) -> None:
    ann = host.users[0]
    once = "kill -STOP $PPID; sleep 0.2; echo woken"
    assert _run(host, once) == ("succeeded", "woken\n")
    job = new_id()
    always = "while kill -STOP $PPID; do :; done; sleep 300"
    assert host.start(job, always, ann)["ok"]
    assert host.result(job)["cause"] == "killed-by-server"


def test_a_job_with_hidden_cards_has_terminals(host: Host) -> None:
    node = Path("/dev/davinci7100")
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    words = "ls /dev/davinci7100; /usr/bin/python3 -c 'import pty, os; print(os.ttyname(pty.openpty()[1]))'"
    try:
        state, shown = _run(host, words)
    finally:
        node.unlink()
    assert state == "succeeded", shown
    assert "cannot access" in shown
    assert "/dev/pts/0\n" in shown


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_job_has_so_many_processes_and_no_more(host: Host, kind: str) -> None:
    host.configure(cgroup=kind, processes=40)
    try:
        assert _run(host, _python(_BOMB)) == ("succeeded", "refused\n")
    finally:
        host.configure(cgroup="auto", processes=0)


def test_a_job_that_takes_all_its_processes_at_once_keeps_its_supervisor(host: Host) -> None:
    """One is that, and one the rank: the thread that is to keep versions finds no room. A bomb that is
    quicker than a supervisor on a busy machine does the same."""
    host.configure(processes=2)
    try:
        assert _run(host, "exec sleep 0.2", host.users[1]) == ("succeeded", "")
    finally:
        host.configure(processes=0)


def test_beside_takes_only_one_end_of_a_stream(host: Host) -> None:
    ann, job = host.users[0], new_id()
    assert host.start(job, "sleep 60", ann)["ok"]
    message = host.message(job, ann, kind="beside")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(b"\0jumar-test-" + os.urandom(4).hex().encode())
    listening.listen()
    wrong = [
        *socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        *socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
        socket.socket(socket.AF_UNIX),
        socket.socket(socket.AF_INET),
        listening,
    ]
    for one in wrong:
        with one:
            assert "stream" in host.ask(message, (one.fileno(),))["no"], one
    host.ask({"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "lost"})
    host.result(job)


def test_lines_of_the_log_name_the_job_and_stay_one_line(host: Host) -> None:
    job = new_id()
    assert host.start(job, "true", host.users[0])["ok"]
    host.result(job)
    before = host.log.stat().st_size
    host.ask({"v": 1, "do": "files", "job": job, "op": "open", "paths": ["no\n1970 forged: done"]})
    told = host.log.read_bytes()[before:].decode().splitlines()
    assert told
    assert all(job in line and line.startswith("20") for line in told), told


_ASTRAY = """
import glob, http.client, json, os, socket
for place in glob.glob("/proc/[0-9]*/root"):
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(place + {door!r})
    except OSError:
        continue
    call = http.client.HTTPConnection("localhost")
    call.sock = one
    call.request("GET", "/api/v1/users")
    print(place, call.getresponse().status)
"""


def test_a_job_gets_no_further_by_the_root_folder_of_another_process(site: Host) -> None:
    """An administrator is logged in, and a job of hers looks for the socket for people through that."""
    eve = site.users[2]
    group = str(site.settings["admin_group"])
    subprocess.run(["gpasswd", "-a", eve, group], check=True, capture_output=True)
    login = subprocess.Popen([*site.identity(eve), "sleep", "300"], stdin=subprocess.DEVNULL)
    script = site.home(eve) / "astray.py"
    script.write_text(_ASTRAY.format(door=str(site.door)))
    script.chmod(0o644)
    try:
        until(lambda: Path(f"/proc/{login.pid}/comm").read_text() == "sleep\n", "she is logged in")
        assert {"name": eve, "role": "admin"}.items() <= api(site, eve, "GET", "/me").items()
        shown = {user["name"]: user["role"] for user in api(site, eve, "GET", "/users")}  # type: ignore[misc]
        assert (shown[eve], shown[site.users[0]]) == ("admin", "member")
        words = ("run", "--workdir", "/", "--follow", "--", "/usr/bin/python3", str(script))
        out = site.jumar(eve, *words)[1]
    finally:
        login.kill()
        login.wait(10)
        subprocess.run(["gpasswd", "-d", eve, group], check=True, capture_output=True)
    tried = [line.split() for line in out.splitlines() if line.startswith("/proc/")]
    assert any(place == f"/proc/{login.pid}/root" for place, _ in tried), out
    assert {status for _, status in tried} == {"403"}, out


def test_private_files_of_the_server_are_private(site: Host) -> None:
    found = {path.name for path in (site.state / "server").glob("jumar.db*")}
    assert "jumar.db" in found
    for path in (site.state / "server").glob("jumar.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_server_that_cannot_see_processes_starts_nothing_twice(site: Host) -> None:
    """Under hidepid=2 a living keeper looks dead, and who is no job cannot be told."""
    ann, _, eve = site.users
    group = str(site.settings["admin_group"])
    hiding = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    ledger = site.home(ann) / "ledger"
    line = f"echo ran >> {ledger}; sleep 3"
    subprocess.run(["gpasswd", "-a", eve, group], check=True, capture_output=True)
    site.end_server()
    site.start_server("unshare", "--mount", "sh", "-c", hiding, "sh")
    try:
        assert api(site, eve, "GET", "/me")["role"] == "member"
        assert api(site, "root", "GET", "/me")["role"] == "admin"
        spec = {"name": "hidden", "command": line, "workdir": "/"}
        job = api(site, ann, "POST", "/jobs", spec, expect=201)["id"]
        until(lambda: api(site, ann, "GET", f"/jobs/{job}")["state"] == "succeeded", "it ends")
    finally:
        site.end_server()
        site.start_server()
        subprocess.run(["gpasswd", "-d", eve, group], check=True, capture_output=True)
    assert ledger.read_text() == "ran\n"
