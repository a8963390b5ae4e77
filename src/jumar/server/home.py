"""The platform's home on disk: made, checked, locked, and the small files in it.

Errors of the file system come out in words, since they are what people meet first."""

import contextlib
import errno
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jumar.errors import HomeHeld, HomeUnusable, JumarError, StorageFull
from jumar.launch.processes.process import Identity, identify, is_alive
from jumar.wholefile import write_whole

_LOCK_WAIT_S = 1.0
_HINT = "set JUMAR_HOME to a folder you can write to"


def prepare_home(home: Path) -> None:
    """Make the home if it does not exist, and check that files can be written in it."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        with tempfile.TemporaryFile(dir=home) as file:
            # An empty file says nothing about a full disk.
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise in_words(error, home) from error


def in_words(error: OSError, path: Path) -> JumarError:
    """What an error of the file system means for the platform."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no room left in {path}", hint=f"free some space, or {_HINT}")
    if isinstance(error, FileExistsError | NotADirectoryError):
        return HomeUnusable(f"{path} is not a folder", hint=_HINT)
    if error.errno == errno.EROFS:
        return HomeUnusable(f"{path} is on a read-only file system", hint=_HINT)
    if isinstance(error, PermissionError):
        return HomeUnusable(f"no permission to write in {path}", hint=_HINT)
    return HomeUnusable(f"{path} cannot be used: {error.strerror}", hint=_HINT)


@contextlib.contextmanager
def locked(home: Path) -> Generator[None]:
    """Hold the home for this process; HomeHeld if another one does."""
    path = home / "server.lock"
    try:
        file = path.open("a+b")
    except OSError as error:
        raise in_words(error, home) from error
    with file:
        path.chmod(0o600)
        until = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise HomeHeld(
                        f"another server is already using {home}", hint="stop it with: jumar down"
                    ) from None
                time.sleep(0.05)
        yield


def write_private(path: Path, text: str) -> None:
    """Put a file in place at once and whole, for this user's eyes only."""
    try:
        write_whole(path, text, private=True, durable=True)
    except OSError as error:
        raise in_words(error, path.parent) from error


def write_json(path: Path, values: Mapping[str, object]) -> None:
    """Put a JSON file in place at once and whole."""
    write_private(path, json.dumps(values, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file's values; empty when the file is missing or incomplete."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}


def my_identity() -> dict[str, object]:
    """This process in `server.json`, so that nobody takes a later one with its pid for it."""
    identity = identify(os.getpid())
    # Without /proc there is only the pid.
    return {"pid": os.getpid()} if identity is None else identity.as_json()


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The process that `server.json` names."""

    pid: int
    url: str
    identity: Identity | None
    engine: str | None = None
    """Where it runs jobs that ask for none; an earlier jumar did not say."""

    def is_alive(self) -> bool:
        """Whether just this process still runs."""
        if self.identity is not None:
            return is_alive(self.identity)
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False
        return True


STARTED_WITH = ("host", "s3_host", "public_url", "endpoints_url")
"""Settings of a running server that it tells nobody but its home."""


def started_with(home: Path) -> dict[str, object]:
    """Those of the running server, as far as they were written down."""
    told = read_json(home / "server.json").get("settings")
    return cast("dict[str, object]", told) if isinstance(told, dict) else {}


def server_process(home: Path) -> ServerProcess | None:
    """The server of this home if it runs; files that a killed one left behind count for nothing."""
    values = read_json(home / "server.json")
    pid, ticks = values.get("pid"), values.get("start_ticks")
    if not isinstance(pid, int):
        return None
    identity = Identity(pid, ticks, str(values.get("boot_id"))) if isinstance(ticks, int) else None
    found = ServerProcess(pid, str(values.get("url", "")), identity, values.get("engine"))
    return found if found.is_alive() else None
