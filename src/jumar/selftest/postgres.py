"""A PostgreSQL for the self-test alone, on a Unix socket in its own folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from jumar.errors import HomeUnusable

_LIMIT_S = 240


def missing() -> str | None:
    """Why this machine cannot run one; None if it can."""
    if _programs() is None:
        return "PostgreSQL (initdb) is not installed"
    if find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'jumar[postgres]'"
    if os.geteuid() == 0 and (shutil.which("setpriv") is None or not _has_user("postgres")):
        return "PostgreSQL does not run as root, and setpriv or the user postgres does not exist"
    return None


class Postgres:
    """Made, started, killed, started again, removed."""

    def __init__(self) -> None:
        # Not in the self-test's folder: as root it is another user's.
        self._folder = Path(tempfile.mkdtemp(prefix="jumar-selftest-pg-"))
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, "postgres")
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data = str(self._folder / "data")
        self._run("initdb", "-D", data, "-U", "jumar", "-A", "trust", "-N")

    @property
    def url(self) -> str:
        """For `JUMAR_DATABASE_URL`."""
        return f"postgresql://jumar@/postgres?host={self._folder}"

    def start(self) -> None:
        """Returns when it answers."""
        options = f"-k {self._folder} -c listen_addresses='' -c max_connections=100"
        self._control("-l", str(self._folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End it as a crash does."""
        self._control("-m", "immediate", "stop")

    def remove(self) -> None:
        """Stop it if it runs, and remove its folder."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self._folder)

    def _control(self, *arguments: str) -> None:
        data = str(self._folder / "data")
        self._run("pg_ctl", "-D", data, "-w", "-t", str(_LIMIT_S), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        folder = _programs()
        assert folder is not None
        # A session of its own: Ctrl-C is for the self-test, which ends PostgreSQL itself.
        done = subprocess.run(
            [*self._as_user, str(folder / program), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            timeout=_LIMIT_S + 60,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise HomeUnusable(f"{program} failed: {said}", hint="use --database sqlite")


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
