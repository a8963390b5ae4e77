"""JSON files that only their owner can read: credentials, keys, the state of the S3 door."""

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from jumar.errors import HomeUnusable
from jumar.wholefile import write_whole


def write_private(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file of mode 0600, completely or not at all."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The only copy of a key must not be an empty file after a power failure.
        write_whole(path, json.dumps(dict(values)), private=True, durable=True)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error


def read_private(path: Path) -> dict[str, Any]:
    """The values of such a file; empty if it does not exist."""
    try:
        values: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {path}: {type(error).__name__}") from error
    if not isinstance(values, dict):
        raise HomeUnusable(f"{path} is not a JSON object", hint="move it away, then try again")
    return cast("dict[str, Any]", values)


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold a lock file: one holder at a time, across threads and processes."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
