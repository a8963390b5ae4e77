"""Ask root's program: one connection, one request, one answer. Its protocol is in `root/program.py`."""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from jumar.engine.base import Attempt, StartHindered
from jumar.errors import EngineFailed
from jumar.launch.jobdir.trouble import trouble_with

ANSWER_LIMIT_S = 20.0
_LIMITS_S = {"remove": 900.0, "size": 120.0, "kept": 120.0}
_MOST_BYTES = 65536
_MOST_DESCRIPTORS = 64
_DISK = {"full": errno.ENOSPC, "closed": errno.EACCES}


class RootRefused(EngineFailed):
    """Root's program does not do it; `reason` is its code for why."""

    def __init__(self, message: str, reason: str, path: str = "") -> None:
        """`path`: what could not be written, of `full` and `closed`."""
        super().__init__(message)
        self.reason = reason
        self.path = path

    def as_hindered(self, folder: Path) -> StartHindered | None:
        """The same of a start that a disk is in the way of; None of any other."""
        number = _DISK.get(self.reason)
        if number is None:
            return None
        met = OSError(number, os.strerror(number), self.path or str(folder))
        return StartHindered(trouble_with(met, str(folder)))


class Account(Protocol):
    """Whom a job runs as."""

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> int: ...


class Root:
    """The way to root's program of one site; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "root.sock"

    def ask(self, verb: str, descriptors: Sequence[int] = (), **fields: object) -> dict[str, Any]:
        """Its answer; EngineFailed when it gives none."""
        with self.asked(verb, descriptors, **fields) as (answer, _):
            return answer

    def start(
        self,
        kind: str,
        attempt: Attempt,
        account: Account,
        given: Sequence[int],
        *,
        cards: Sequence[str] = (),
        kill_at: float | None = None,
        memory: int | None = None,
        cpus: int | None = None,
    ) -> None:
        """Have it start something of an attempt as the job's user, with what is `given`."""
        self.ask(
            "start",
            given,
            kind=kind,
            job=attempt.job_id,
            attempt=attempt.number,
            user=account.name,
            uid=account.uid,
            cards=list(cards),
            kill_at=kill_at,
            memory=memory,
            cpus=cpus,
        )

    @contextlib.contextmanager
    def asked(
        self, verb: str, descriptors: Sequence[int] = (), **fields: object
    ) -> Generator[tuple[dict[str, Any], list[int]]]:
        """Its answer and the descriptors in it, which are closed in the end: who keeps one copies it."""
        request = json.dumps({"v": 1, "do": verb, **fields}).encode()
        limit_s = _LIMITS_S.get(str(fields.get("op", verb)), ANSWER_LIMIT_S)
        found: list[int] = []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(limit_s)
                connection.connect(str(self._path))
                socket.send_fds(connection, [request], list(descriptors))
                data, found, _, _ = socket.recv_fds(connection, _MOST_BYTES, _MOST_DESCRIPTORS)
            yield _understood(data), found
        except OSError as error:
            raise EngineFailed(
                f"root's program does not answer: {error}", hint="see: jumar site status"
            ) from error
        finally:
            for descriptor in found:
                os.close(descriptor)


def _understood(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise EngineFailed("root's program broke off") from error
    values = cast("dict[str, Any]", answer)
    if values.get("ok") is not True:
        path = str(values.get("path", ""))
        raise RootRefused(str(values.get("no")), str(values.get("code")), path)
    return values


@contextlib.contextmanager
def readable(data: bytes) -> Generator[int]:
    """A descriptor of something that lies on no disk and that its receiver can only read."""
    made = os.memfd_create("jumar", os.MFD_CLOEXEC)
    try:
        os.truncate(made, len(data))
        os.pwrite(made, data, 0)
        descriptor = os.open(f"/proc/self/fd/{made}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(made)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
