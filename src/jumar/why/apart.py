"""Logs that are not one's own, judged by a child that has little time and little memory.

Whoever runs a job decides what is in its logs, down to the text on which an expression takes hours. An expression holds all
threads of its process meanwhile, so that a server would stand still. The child is handed the logs that it asks for one by one."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from jumar.errors import JumarError
from jumar.spec.verdicts import Verdict
from jumar.spec.wire import decode, encode
from jumar.why.judging import judge, unread
from jumar.why.signs import Source

_MOST_CPU_S = 20
_MOST_MEMORY = 1 << 30
_PATIENCE_S = 60.0
_OPENED, _NOT_THERE = b"+", b"-"
_LONGEST_NUMBER = 16


def judge_apart(
    sources: Sequence[Source], *, platform: str | None = None, cpu_s: int = _MOST_CPU_S
) -> Verdict:
    """What `judge` says, or that it would take too long."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
        asked.write(json.dumps([platform, [_described(one) for one in sources]]).encode())
        asked.seek(0)
        with there:
            command = [sys.executable, "-P", "-m", __name__, str(there.fileno()), str(cpu_s)]
            child = subprocess.Popen(command, stdin=asked, stdout=said, pass_fds=[there.fileno()])
        try:
            _hand_out(sources, here)
            is_done = child.wait(_PATIENCE_S) == 0
        except (OSError, subprocess.TimeoutExpired):
            # It asks no more, and has not said anything: killed, or out of time.
            is_done = False
        finally:
            child.kill()
            child.wait()
        said.seek(0)
        return decode(Verdict, json.load(said)) if is_done else unread(len(sources))


def _described(source: Source) -> tuple[str, int | None, bool]:
    return source.name, source.rank, source.is_accused


def _hand_out(sources: Sequence[Source], here: socket.socket) -> None:
    """Open what the child asks for until it has ended; TimeoutError when its time is over."""
    over_at = time.monotonic() + _PATIENCE_S
    while True:
        here.settimeout(max(over_at - time.monotonic(), 0.001))
        wanted = here.recv(_LONGEST_NUMBER)
        if not wanted:
            return
        try:
            fd = sources[int(wanted)].open()
        except (OSError, JumarError):
            here.send(_NOT_THERE)
            continue
        try:
            socket.send_fds(here, [_OPENED], [fd])
        finally:
            os.close(fd)


def _ask(there: socket.socket, number: int) -> int:
    there.send(str(number).encode())
    _, fds, _, _ = socket.recv_fds(there, len(_OPENED), 1)
    if not fds:
        raise FileNotFoundError(f"log {number}")
    return fds[0]


def main(descriptor: str, cpu_s: str) -> None:
    """The child: bind itself, judge, say it."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    with suppress(OSError):
        # Whoever waits for a page comes first.
        os.nice(10)
    there = socket.socket(fileno=int(descriptor))
    platform, described = json.load(sys.stdin)
    sources = [
        Source(name, lambda number=number: _ask(there, number), rank, is_accused)
        for number, (name, rank, is_accused) in enumerate(described)
    ]
    json.dump(encode(judge(sources, platform=platform)), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
