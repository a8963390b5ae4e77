"""Clones and pushes at once, and a server that is killed amid them: nobody loses what was acknowledged."""

import base64
import http.client
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.hub.conftest import client_environment
from tests.ports import free_port
from tests.store.served import run_jumar

LIMIT_S = 300


class Storm:
    """A server of its own, and people with git."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.folder = folder
        self.port = str(free_port())

    def up(self) -> None:
        run_jumar(self.home, "up", "--detach", "--port", self.port)

    def git(self, *words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env=client_environment(self.folder),
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def well(self, *words: str, cwd: Path | None = None) -> str:
        done = self.git(*words, cwd=cwd)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def push(self, work: Path, name: str, *, may_fail: bool) -> str:
        """The commit that was acknowledged; whoever is not first, or not answered, tries again."""
        (work / name).write_bytes(os.urandom(5000))
        self.well("add", "-A", cwd=work)
        self.well("commit", "-q", "-m", name, cwd=work)
        said = ""
        give_up_at = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up_at:
            done = self.git("push", "-q", "origin", "HEAD:main", cwd=work)
            if done.returncode == 0:
                return self.well("rev-parse", "HEAD", cwd=work)
            said = done.stderr
            if "rejected" not in said and "failed to update ref" not in said:
                assert may_fail, said
                # The server is starting again.
                time.sleep(0.2)
            self.git("pull", "-q", "--rebase", "origin", "main", cwd=work)
        raise AssertionError(f"{name} never came through: {said}")

    def kill(self) -> None:
        os.kill(int((self.home / "server.pid").read_text()), signal.SIGKILL)
        self.up()

    def gits(self) -> list[str]:
        """Processes of git that work for the server."""
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            # They may end at any time.
            with suppress(OSError):
                if f"GIT_PROJECT_ROOT={self.home}/".encode() in path.read_bytes():
                    found.append(path.parent.name)
        return found

    @contextmanager
    def half_a_push(self, address: str) -> Generator[None]:
        """Of a client that has announced more than it has sent."""
        url = urlsplit(address)
        key = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
        with closing(http.client.HTTPConnection("127.0.0.1", int(self.port))) as connection:
            connection.putrequest("POST", f"{url.path}/git-receive-pack")
            connection.putheader("Authorization", f"Basic {key}")
            connection.putheader("Content-Type", "application/x-git-receive-pack-request")
            connection.putheader("Content-Length", "5000")
            # Less than the length of the first line, for which git therefore waits.
            connection.endheaders(b"00")
            yield


def until(is_so: Callable[[], object], what: str) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < give_up_at, what
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("clones", "pushers", "pushes", "kills"),
    [
        pytest.param(4, 2, 1, 1, id="small"),
        pytest.param(50, 4, 12, 8, id="full", marks=pytest.mark.full),
    ],
)
def test_clones_and_pushes_at_once_and_a_server_that_is_killed(
    tmp_path: Path, clones: int, pushers: int, pushes: int, kills: int
) -> None:
    storm = Storm(tmp_path)
    storm.up()
    try:
        made = run_jumar(storm.home, "repo", "create", "project", "storm", "--json").stdout
        repo = json.loads(made)
        address = repo["clone_url_with_token"]
        storm.well("clone", "-q", address, "start")
        storm.push(tmp_path / "start", "start", may_fail=False)
        works = [tmp_path / f"work{number}" for number in range(pushers)]
        for work in works:
            storm.well("clone", "-q", address, str(work))

        def push_all(number: int, phase: str, *, may_fail: bool) -> list[str]:
            names = [f"{phase}-{number}-{each}" for each in range(pushes)]
            return [storm.push(works[number], name, may_fail=may_fail) for name in names]

        def clone(number: int) -> None:
            storm.well("clone", "-q", address, f"clone{number}")
            storm.well("fsck", "--strict", cwd=tmp_path / f"clone{number}")

        with ThreadPoolExecutor(pushers + clones) as pool:
            pushing = [pool.submit(push_all, n, "calm", may_fail=False) for n in range(pushers)]
            cloning = [pool.submit(clone, number) for number in range(clones)]
            landed = [one for future in pushing for one in future.result(LIMIT_S)]
            for future in cloning:
                future.result(LIMIT_S)
        with ThreadPoolExecutor(pushers) as pool:
            pushing = [pool.submit(push_all, n, "storm", may_fail=True) for n in range(pushers)]
            for _kill in range(kills):
                time.sleep(random.uniform(0.0, 0.5))
                storm.kill()
            landed += [one for future in pushing for one in future.result(LIMIT_S)]
        storm.well("clone", "-q", address, "end")
        history = storm.well("rev-list", "HEAD", cwd=tmp_path / "end").split()
        assert set(landed) <= set(history)
        bare = storm.home / "hub/repos" / f"{repo['id']}.git"
        storm.well("fsck", "--strict", cwd=bare)
        assert not list(bare.rglob("*.lock"))
        with storm.half_a_push(address):
            until(storm.gits, "git has begun")
            os.kill(int((storm.home / "server.pid").read_text()), signal.SIGKILL)
        until(lambda: not storm.gits(), "git has ended")
    finally:
        run_jumar(storm.home, "down")
