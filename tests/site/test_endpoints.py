"""Endpoints of a site's jobs: what runs in them is the job's user, and no other account of the machine, nor
a job of another, gets to it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.site.conftest import CLEAN, Host, until
from tests.system.test_endpoints_restart import LAB, WEB, Opened

# Says who gets an answer from a Unix socket, by its own path and by that of the process's root.
_CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected", path)
    except OSError as error:
        print("refused", error.errno)
"""


@dataclass
class Doors:
    """A site with an SSH port, and a job of its first user that serves HTTP."""

    host: Host
    ssh_port: int
    job_port: int
    job: str = ""

    def start(self) -> None:
        self.host.start_server(JUMAR_SSH_PORT=str(self.ssh_port), JUMAR_ENDPOINT_PORTS="")

    def opened(self, name: str) -> Opened:
        words = ("open", self.job, name, "--json")
        url = json.loads(self.host.jumar(self.host.users[0], *words)[1])["url"]
        one = Opened(name, url.partition("/_jumar")[0])
        status, body, cookie = one.ask(url.removeprefix(one.origin))
        assert status == 303, body
        one.cookie = cookie.partition(";")[0]
        return one

    def ssh(self, user: str, *words: str) -> "subprocess.CompletedProcess[str]":
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
        given = [word for one in options for word in ("-o", one)]
        key = str(self.host.home(user) / "key")
        place = ("-p", str(self.ssh_port), f"{self.job}@127.0.0.1")
        return subprocess.run(
            ["ssh", "-F", "none", "-o", "IdentitiesOnly=yes", "-i", key, *given, *place, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def doors(host: Host) -> Generator[Doors]:
    made = Doors(host, free_port(), free_port())
    made.start()
    ann, ben, _ = host.users
    folder = host.home(ann) / "work"
    folder.mkdir()
    # The answer says as whom it was given.
    lab = LAB.replace("str(os.getpid())", 'f"{os.getuid()} {os.getpid()} {os.getcwd()}"')
    (folder / "jupyterlab.py").write_text(lab)
    for path in (folder, folder / "jupyterlab.py"):
        shutil.chown(path, ann, ann)
        path.chmod(0o700)
    for user in (ann, ben):
        key = host.home(user) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        os.chmod(f"{key}.pub", 0o644)
        shutil.chown(f"{key}.pub", user, user)
        host.jumar(user, "ssh-key", "add", f"{key}.pub")
    words = ("run", "--", "python3", "-c", WEB, str(made.job_port))
    _, out, err = host.jumar(ann, *words, folder=folder)
    found = re.search(r"\b[a-z][a-z0-9]{9}\b", out + err)
    assert found is not None, (out, err)
    made.job = found[0]
    until(lambda: host.jumar(ann, "exec", made.job, "--", "true", check=False)[0] == 0, "it runs")
    yield made
    host.jumar(ann, "stop", made.job, check=False)


def test_what_runs_in_an_endpoint_is_the_jobs_user_and_outlives_the_server(doors: Doors) -> None:
    host, (ann, ben, _) = doors.host, doors.host.users
    lab, web = doors.opened("jupyter"), doors.opened(f"http:{doors.job_port}")
    said = lab.said().decode()
    uid, pid, folder = said.split()
    assert (int(uid), Path(folder)) == (host.uid(ann), host.home(ann) / "work")
    assert b"jupyterlab.py" in web.said()
    assert host.jumar(ben, "open", doors.job, "jupyter", check=False)[0] == 2
    # By its path, and through its process: neither another account, nor a job of another.
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    place = next(w.partition("=")[2] for w in words if w.startswith("--ServerApp.sock="))
    paths = (place, f"/proc/{pid}/root{place}")
    connect = ["/usr/bin/python3", "-I", "-c", _CONNECT, *paths]
    others = [subprocess.run([*host.identity(ben), *connect], env=CLEAN, capture_output=True)]
    _, out, _ = host.jumar(ben, "run", "--follow", "--", *connect, folder=host.home(ben))
    for told in (others[0].stdout.decode(), out):
        assert (told.count("refused"), "connected" in told) == (2, False), told
    # A port that another account listens on is not the job's.
    port = free_port()
    thief = subprocess.Popen([*host.identity(ben), sys.executable, "-I", "-c", WEB, str(port)])
    try:
        assert doors.opened(f"http:{port}").ask("/")[0] == 502
    finally:
        thief.kill()
        thief.wait()
    host.end_server()
    doors.start()
    assert lab.said().decode() == said


def test_ssh_leads_into_the_job_as_its_user_and_only_its_user_in(doors: Doors) -> None:
    host, (ann, ben, _) = doors.host, doors.host.users
    done = doors.ssh(ann, "id -un; pwd")
    assert done.stdout.splitlines() == [ann, str(host.home(ann) / "work")], done.stderr
    refused = doors.ssh(ben, "true")
    assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True)
    host.jumar(ann, "stop", doors.job)
    until(lambda: not _left(host.uid(ann)), "nothing is left of the job")


def _left(uid: int) -> list[str]:
    """Processes of a user."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == uid:
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found
