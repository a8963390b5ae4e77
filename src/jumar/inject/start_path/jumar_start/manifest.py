"""The list of a checkpoint's files and their sizes, written when all ranks have saved: with it a folder is
complete, without it, or with less than it says, it is not."""

import json
import os
from typing import Any, Dict, Mapping

NAME = "jumar.json"


def write(folder: str, facts: Mapping[str, Any]) -> None:
    """Make what is in `folder` durable, and then say so."""
    files: Dict[str, int] = {}
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            if os.path.isfile(path) and os.path.relpath(path, folder) != NAME:
                files[os.path.relpath(path, folder)] = _synced(path)
        sync(here)
    write_text(os.path.join(folder, NAME), json.dumps({**facts, "files": files}, indent=1))


def read(folder: str) -> Dict[str, Any]:
    """What was said, empty if nothing was."""
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            value: Any = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_text(path: str, text: str) -> None:
    """Aside, synced and renamed."""
    aside = f"{path}.{os.urandom(4).hex()}.new"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync(os.path.dirname(path))


def sync(path: str) -> None:
    """A folder's names, or a file's bytes, onto the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _synced(path: str) -> int:
    sync(path)
    return os.path.getsize(path)
