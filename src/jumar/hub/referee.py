"""Answers the pre-receive hook of one push: which LFS objects are missing.

The hook asks through one end of a socket pair that git inherits, so nobody else can ask."""

import json
import logging
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jumar.errors import JumarError
from jumar.hub.gitting import LONGEST_S
from jumar.hub.names import OID
from jumar.hub.pushing import pushing
from jumar.wholefile import whole_file

log = logging.getLogger(__name__)
_MOST_QUESTION_BYTES = 64 << 20
Missing = Callable[[Mapping[str, int]], list[str]]


@dataclass(frozen=True, slots=True)
class Ruled:
    """What git has to be started with, so that a push is judged."""

    descriptors: tuple[int, ...]
    env: dict[str, str]
    config: dict[str, str]


def write_hook(folder: Path) -> None:
    """Put the hook of all repositories in place."""
    folder.mkdir(parents=True, exist_ok=True)
    script = Path(__file__).with_name("pre_receive.py")
    command = shlex.join([sys.executable, "-I", "-S", os.fspath(script)])
    path = folder / "pre-receive"
    with whole_file(path) as file:
        file.write(f"#!/bin/sh\nexec {command}\n".encode())
        os.fchmod(file.fileno(), 0o700)


@contextmanager
def judged(folder: Path, hooks: Path, plain_limit: int, missing: Missing) -> Generator[Ruled]:
    """While a push into `folder` runs: one question is answered. The descriptors are inherited by git."""
    with pushing(folder) as lock, _answering(missing) as theirs:
        yield Ruled(
            (theirs.fileno(), lock),
            {"JUMAR_REFEREE": str(theirs.fileno()), "JUMAR_PLAIN_LIMIT": str(plain_limit)},
            {"core.hooksPath": os.fspath(hooks)},
        )


@contextmanager
def _answering(missing: Missing) -> Generator[socket.socket]:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=_answer, args=(ours, missing), name="hub-referee", daemon=True)
    thread.start()
    try:
        with theirs:
            yield theirs
    finally:
        # Wakes the thread up where nobody asked.
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
        ours.close()


def _answer(ours: socket.socket, missing: Missing) -> None:
    ours.settimeout(LONGEST_S)
    try:
        with ours.makefile("rwb") as wire:
            question = wire.readline(_MOST_QUESTION_BYTES)
            if not question.endswith(b"\n"):
                return
            asked = cast("dict[str, int]", json.loads(question))
            found = missing({oid: size for oid, size in asked.items() if OID.fullmatch(oid)})
            wire.write(json.dumps(found).encode() + b"\n")
    except (OSError, ValueError, JumarError) as error:
        # Without an answer the hook fails, and with it the push.
        log.warning("a push was not judged: %s", error)
