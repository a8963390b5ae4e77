"""Logs that are not one's own, judged by a child that has little time and little memory.

Whoever runs a job decides what is in its logs, down to the text on which an expression takes hours. An expression holds all
threads of its process meanwhile, so that a server would stand still. The child is handed the files that it asks for, one by one: logs
by number, the code by path."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from jumar.errors import JumarError
from jumar.spec.verdicts import Verdict
from jumar.spec.wire import decode, encode
from jumar.why.judging import judge, unread
from jumar.why.script.bounds import MOST_CPU_S
from jumar.why.script.code import ends_alike
from jumar.why.signs import Source

_MOST_CPU_S = 20
_MOST_MEMORY = 1 << 30
_PATIENCE_S = 60.0
_OPENED, _NOT_THERE = b"+", b"-"
_LOG, _CODE = "log", "code"
_LONGEST_REQUEST = 8 * 1024


@dataclass(frozen=True, slots=True)
class JobCode:
    """The code of a job: what its files are called, where the job has them, how it was started, and how one is opened."""

    listed: Sequence[str]
    root: str
    command: Sequence[str]
    opens: Callable[[str], int]
    """A descriptor of the file with this path inside; OSError and JumarError. Any text may be asked for."""
    is_sure: bool = True

    def meant(self, path: str) -> Iterator[str]:
        """What has this path there, or one that ends like it."""
        inside = path.removeprefix(f"{self.root}/")
        if not inside.startswith("/"):
            yield inside
        yield from ends_alike(path, self.listed)

    def names(self, near: str) -> Sequence[str]:
        """All that are known."""
        return self.listed

    def open(self, name: str) -> int:
        """A descriptor of one of them."""
        return self.opens(name)


def judge_apart(
    sources: Sequence[Source],
    *,
    platform: str | None = None,
    code: JobCode | None = None,
    cpu_s: int = _MOST_CPU_S,
) -> Verdict:
    """What `judge` says, or that it would take too long."""
    whole = cpu_s if code is None else cpu_s + MOST_CPU_S
    said, has_read_code = _said(sources, platform, code, whole)
    if said is None and has_read_code:
        # Code can end whoever parses it. What its logs tell is not lost.
        said, _ = _said(sources, platform, None, cpu_s)
    return unread(len(sources)) if said is None else said


def _said(
    sources: Sequence[Source], platform: str | None, code: JobCode | None, cpu_s: int
) -> tuple[Verdict | None, bool]:
    """What a child says, None if it has ended without a word or its time is over; and whether it ended over the code."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
        of_code = None if code is None else (code.listed, code.root, code.command)
        described = platform, [_described(one) for one in sources], of_code
        asked.write(json.dumps(described).encode())
        asked.seek(0)
        with there:
            command = [sys.executable, "-P", "-m", __name__, str(there.fileno()), str(cpu_s)]
            child = subprocess.Popen(command, stdin=asked, stdout=said, pass_fds=[there.fileno()])
        has_read_code = False
        try:
            has_read_code = _hand_out(sources, code, here)
            is_done = child.wait(_PATIENCE_S) == 0
        except (OSError, subprocess.TimeoutExpired):
            # It asks no more, and has not said anything: killed, or out of time.
            is_done = False
        finally:
            child.kill()
            child.wait()
        said.seek(0)
        return decode(Verdict, json.load(said)) if is_done else None, has_read_code


def _described(source: Source) -> tuple[str, int | None, bool]:
    return source.name, source.rank, source.is_accused


def _hand_out(sources: Sequence[Source], code: JobCode | None, here: socket.socket) -> bool:
    """Open what the child asks for until it has ended, and tell whether it asked for code; TimeoutError when its time is over."""
    over_at = time.monotonic() + _PATIENCE_S
    has_read_code = False
    # It may be killed with a question on its lips.
    with suppress(ConnectionError):
        while wanted := _question(here, over_at):
            has_read_code = wanted.startswith(f"{_CODE} ")
            try:
                fd = _opened(sources, code, wanted)
            except (OSError, JumarError, ValueError):
                here.send(_NOT_THERE)
                continue
            try:
                socket.send_fds(here, [_OPENED], [fd])
            finally:
                os.close(fd)
    return has_read_code


def _opened(sources: Sequence[Source], code: JobCode | None, wanted: str) -> int:
    kind, _, which = wanted.partition(" ")
    return code.open(which) if kind == _CODE and code else sources[int(which)].open()


def _question(here: socket.socket, over_at: float) -> str:
    """What the child asks for; nothing when it has ended."""
    here.settimeout(max(over_at - time.monotonic(), 0.001))
    return here.recv(_LONGEST_REQUEST).decode("utf-8", "surrogateescape")


def _ask(there: socket.socket, kind: str, which: int | str) -> int:
    wanted = f"{kind} {which}".encode("utf-8", "surrogateescape")
    if len(wanted) > _LONGEST_REQUEST:
        raise FileNotFoundError(f"{kind}: no file has so long a name")
    there.send(wanted)
    _, fds, _, _ = socket.recv_fds(there, len(_OPENED), 1)
    if not fds:
        raise FileNotFoundError(f"{kind} {which}")
    return fds[0]


def main(descriptor: str, cpu_s: str) -> None:
    """The child: bind itself, judge, say it."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    with suppress(OSError):
        # Whoever waits for a page comes first.
        os.nice(10)
    there = socket.socket(fileno=int(descriptor))
    platform, described, of_code = json.load(sys.stdin)
    sources = [
        Source(name, partial(_ask, there, _LOG, number), rank, is_accused)
        for number, (name, rank, is_accused) in enumerate(described)
    ]
    code = None if of_code is None else JobCode(*of_code, opens=partial(_ask, there, _CODE))
    json.dump(encode(judge(sources, platform=platform, code=code)), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
