"""Git over SSH with the stock git, ssh and git-lfs; who has no right learns nothing."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import LIMIT_S, Hubbed, client_environment, needs_lfs
from tests.server.conftest import serving

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hubbed]:
    folder = tmp_path_factory.mktemp("ssh")
    with serving(folder, has_ssh=True) as running:
        (folder / "work").mkdir()
        made = Hubbed(running, folder / "work")
        made.git("config", "--global", "init.defaultBranch", "main")
        for user in ("ann", "bob"):
            key = folder / user
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
            subprocess.run(words, check=True, timeout=LIMIT_S)
            running.site.accounts.ssh_keys.add(user, key.with_suffix(".pub").read_text())
        yield made


@pytest.fixture(scope="module")
def run(hub: Hubbed) -> Callable[..., Done]:
    """A program on somebody's machine, whose ssh has their key."""

    def start(*words: str, user: str = "ann", cwd: Path | None = None) -> Done:
        key = hub.folder.parent / user
        options = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
        environment = client_environment(
            hub.folder, GIT_SSH_COMMAND=f"ssh -i {key} {options} -o BatchMode=yes -q"
        )
        return subprocess.run(
            words, cwd=cwd or hub.folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )  # fmt: skip

    return start


def address(hub: Hubbed, path: str) -> str:
    return f"ssh://git@127.0.0.1:{hub.running.site.info.ssh_port}/{path}"


@needs_lfs
def test_clone_push_and_lfs(hub: Hubbed, run: Callable[..., Done]) -> None:
    repo = hub.repo("by-ssh", kind="model", private=True)
    place = address(hub, "models/ann/by-ssh.git")

    def well(*words: str, **more: Any) -> None:
        done = run("git", *words, **more)
        assert done.returncode == 0, (words, done.stderr)

    well("clone", "-q", place, "work")
    work = hub.folder / "work"
    well("lfs", "install", "--local", cwd=work)
    weights = os.urandom(300_000)
    hub.commit(work, {"w.ckpt": weights, "README.md": b"# x\n"})
    well("push", "-q", "origin", "HEAD:main", cwd=work)
    hub.fsck(repo)
    listed = hub.running.ask("GET", "/hf/api/models/ann/by-ssh/tree/main").json
    assert {one["path"]: one["size"] for one in listed}["w.ckpt"] == len(weights)
    well("clone", "-q", "--depth", "1", place, "again")
    well("lfs", "install", "--local", cwd=hub.folder / "again")
    well("lfs", "pull", cwd=hub.folder / "again")
    assert (hub.folder / "again/w.ckpt").read_bytes() == weights
    # The rules of a push hold here too.
    limit = hub.running.site.hub.repositories.limits.plain_bytes
    hub.commit(work, {"large.txt": b"0" * (limit + 1)})
    refused = run("git", "push", "-q", "origin", "HEAD:main", cwd=work)
    assert refused.returncode != 0
    assert b"git lfs track" in refused.stderr
    assert os.fsencode(hub.running.home) not in refused.stderr


def test_who_may_not_learns_nothing(hub: Hubbed, run: Callable[..., Done]) -> None:
    hub.repo("hers", kind="model", private=True)
    hub.repo("open", kind="model")
    said: dict[str, bytes] = {}
    for path in ("models/ann/hers.git", "models/ann/none.git"):
        done = run("git", "clone", "-q", address(hub, path), "x", user="bob")
        assert done.returncode != 0
        said[path] = done.stderr.replace(b"none", b"hers")
    assert len(set(said.values())) == 1
    assert (
        run(
            "git", "clone", "-q", address(hub, "models/ann/open.git"), "open", user="bob"
        ).returncode
        == 0
    )
    hub.commit(hub.folder / "open", {"a": b"a"})
    assert (
        run(
            "git", "push", "-q", "origin", "HEAD:main", user="bob", cwd=hub.folder / "open"
        ).returncode
        != 0
    )
    # A key that nobody has given.
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(hub.folder.parent / "eve")], check=True, timeout=LIMIT_S)  # fmt: skip
    assert run("git", "ls-remote", address(hub, "models/ann/open.git"), user="eve").returncode != 0


def test_nothing_but_git_runs(hub: Hubbed, run: Callable[..., Done]) -> None:
    hub.repo("plain", kind="model")
    key = hub.folder.parent / "ann"

    def ssh(*words: str, options: tuple[str, ...] = ()) -> Done:
        target = ["-p", str(hub.running.site.info.ssh_port), "-i", str(key), "git@127.0.0.1"]
        usual = [
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-q",
        ]
        return run("ssh", *usual, *options, *target, *words)

    for command in (
        "id", "sh -c id", "git", "git config --list", "git-shell", "git-upload-pack", "git-upload-archive 'models/ann/plain.git'",
        "git-upload-pack '../../../etc'", "git-upload-pack --exec=id 'models/ann/plain.git'", "git-upload-pack 'models/ann/plain.git/../x'",
        "git-upload-pack \"models/ann/plain.git'\"", "git-receive-pack ''",
        "git-lfs-authenticate 'models/ann/plain.git' delete", "git-lfs-transfer 'models/ann/plain.git' upload",
    ):  # fmt: skip
        done = ssh(command)
        assert done.returncode not in (0, 255), (command, done)
        assert b"uid=" not in done.stdout
    assert ssh().returncode == 1
    # A token of LFS is for one repository, one right and one user.
    told = json.loads(ssh("git-lfs-authenticate 'models/ann/plain.git' download").stdout)
    hub.repo("other", kind="model", private=True)
    oid = {"objects": [{"oid": "a" * 64, "size": 1}]}

    def batch(name: str, operation: str, header: str) -> int:
        path = f"/git/models/ann/{name}.git/info/lfs/objects/batch"
        return hub.running.ask(
            "POST", path, user=None, body={**oid, "operation": operation}, headers={"Authorization": header}
        ).status  # fmt: skip

    header = told["header"]["Authorization"]
    assert batch("plain", "download", header) == 200
    assert batch("plain", "upload", header) == 403
    assert batch("other", "download", header) == 401
    pair = base64.b64decode(header.split()[1]).decode().partition(":")[2]
    forged = base64.b64encode(f"bob:{pair}".encode()).decode()
    assert batch("plain", "download", f"Basic {forged}") == 401
    assert (
        hub.running.ask(
            "GET", "/hf/api/whoami-v2", user=None, headers={"Authorization": header}
        ).status
        == 401
    )
