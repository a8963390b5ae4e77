"""Who owns a process on a card: the user by uid, the job by `JUMAR_JOB_ID` in its environment.

A process that cannot be inspected (another user's, or one outside our container) stays unknown."""

import os
import pwd
from dataclasses import replace
from pathlib import Path

from jumar.spec.devices import Card, CardProcess

_JOB = b"JUMAR_JOB_ID="
_MOST_BYTES = 1 << 20
_COMM_LENGTH = 15


def with_owners(cards: tuple[Card, ...], root: Path = Path("/")) -> tuple[Card, ...]:
    """The cards with user and job filled in for each process that can be inspected."""
    return tuple(
        replace(card, processes=tuple(_owned(process, root) for process in card.processes))
        for card in cards
    )


def _owned(process: CardProcess, root: Path) -> CardProcess:
    place = _place(process, root)
    if place is None:
        return process
    try:
        uid = place.stat().st_uid
    except OSError:
        return process
    return replace(
        process,
        name=process.name or _read(place / "comm").decode("utf-8", "replace").strip(),
        user=_user(uid),
        own_pid=int(place.name),
        job_id=_job(_read(place / "environ")),
    )


def _place(process: CardProcess, root: Path) -> Path | None:
    """The process's folder in /proc; None if that pid is a different process in our namespace."""
    for pid in (process.container_pid, process.pid):
        place = root / "proc" / str(pid)
        if pid and _is_same_name(process.name, _read(place / "comm")):
            return place
    return None


def _is_same_name(told: str, comm: bytes) -> bool:
    if not comm:
        return False
    # Pids of the host, shown inside a container, would otherwise match an unrelated process.
    program = os.path.basename(told.split(" ")[0]).encode()[:_COMM_LENGTH]
    return not program or program == comm.strip()[:_COMM_LENGTH]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _job(environ: bytes) -> str | None:
    for item in environ.split(b"\0"):
        if item.startswith(_JOB):
            return item[len(_JOB) :].decode("utf-8", "replace") or None
    return None
