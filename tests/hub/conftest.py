"""A server with a hub, and the stock clients as people run them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running, serving

from jumar.spec.repos import RepoRecord

LIMIT_S = 120
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
needs_lfs = pytest.mark.skipif(
    shutil.which("git-lfs", path=PATH) is None, reason="git-lfs is not installed"
)
Git = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass
class Hubbed:
    """A server and what its users do with git."""

    running: Running
    folder: Path

    def repo(self, name: str, kind: str = "project", user: str = "ann", **more: Any) -> RepoRecord:
        record = self.running.site.accounts.tokens.user_of(self.running.token(user))
        assert record is not None
        return self.running.site.hub.repositories.create(record, kind, name, **more)

    def address(self, repo: RepoRecord, user: str | None = "ann") -> str:
        base = self.running.url
        if user is not None:
            base = base.replace("://", f"://{user}:{self.running.token(user)}@")
        return f"{base}/git/{repo.kind}s/{repo.owner}/{repo.name}.git"

    def bare(self, repo: RepoRecord) -> Path:
        return self.running.site.hub.repositories.folder(repo)

    def git(
        self, *words: str, cwd: Path | None = None, rc: int | None = 0
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.folder,
            env=client_environment(self.folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert rc is None or done.returncode == rc, (words, done.stdout, done.stderr)
        assert str(self.running.home) not in done.stderr
        return done

    def clone(self, repo: RepoRecord, name: str, user: str = "ann", *options: str) -> Path:
        self.git("clone", "-q", *options, self.address(repo, user), name)
        return self.folder / name

    def commit(self, work: Path, files: dict[str, bytes], message: str = "change") -> None:
        for path, content in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
        self.git("add", "-A", cwd=work)
        self.git("commit", "-q", "-m", message, cwd=work)

    def fsck(self, repo: RepoRecord) -> None:
        self.git("fsck", "--strict", cwd=self.bare(repo))


def client_environment(home: Path, **more: str) -> dict[str, str]:
    """A user's machine, without what this one has configured."""
    person = {"NAME": "Ann", "EMAIL": "ann@example.com"}
    identity = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in person.items()
    }
    settings = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CLONE_PROTECTION_ACTIVE": "0",
    }
    return {"PATH": PATH, "HOME": str(home), "LC_ALL": "C.UTF-8", **settings, **identity, **more}


@contextmanager
def hub_in(folder: Path) -> Generator[Hubbed]:
    """A server, and somebody's machine beside it."""
    with serving(folder) as running:
        (folder / "work").mkdir()
        made = Hubbed(running, folder / "work")
        made.git("config", "--global", "init.defaultBranch", "main")
        yield made


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hubbed]:
    with hub_in(tmp_path_factory.mktemp("hub")) as made:
        yield made
