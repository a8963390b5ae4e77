"""A login node of a cluster, reached with the stock ssh; there, only Python 3.7 and Slurm are needed.

The launcher is one file, sent once; it answers requests (`launch/slurm/far.py`) as long as the
connection stands. One that is cut is made once more."""

import hashlib
import json
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from jumar.engine.slurm.asking import LIMIT_S, Slurm
from jumar.errors import BadInput, EngineFailed
from jumar.launch.slurm.far import MARK
from jumar.site.one_file import build_launcher, newest_source
from jumar.spec.engines import is_login

_HELLO_S = 120.0
"""Somebody may have to type a passphrase."""
_ANSWER_S = 60.0
_END_S = 5.0
_NOT_FOUND = 127
_OPTIONS = ("-T", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
_BEGIN = """\
f="$HOME/.jumar/launch/{name}"
if [ -f "$f" ]; then echo {mark}=have; else echo {mark}=want; mkdir -p "${{f%/*}}"
head -c {size} > "$f.$$" && mv "$f.$$" "$f" || exit 1; fi
for p in python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python3.7 /usr/bin/python3
do "$p" -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && exec "$p" "$f" --slurm-far; done
echo {mark}=no-python"""
"""Said to a shell there; standard tools only."""


class Cut(EngineFailed):
    """Nobody knows whether the other side heard it."""


class Login:
    """One login node, as one person."""

    def __init__(self, destination: str, kept: Path) -> None:
        """`kept`: where the launcher is kept once it was made."""
        if not is_login(destination):
            raise BadInput(f"{destination!r} is not a login", hint="such as: ann@login1, or login1")
        self.destination, self._kept = destination, kept
        self._turn = threading.RLock()
        """Who follows a log asks beside who waits for news, and answers come in the order of requests."""
        self._process: subprocess.Popen[bytes] | None = None
        self._told: dict[str, str] = {}
        self._buffer = b""
        self._gave_up: EngineFailed | None = None
        """Once it could not be reached: nobody waits for that twice in one command."""

    @property
    def home(self) -> Path:
        """Where jobs are there."""
        return Path(self._known()["home"])

    @property
    def user(self) -> str:
        """Who one is there."""
        return self._known()["user"]

    @property
    def program(self) -> list[str]:
        """How the launcher is started there."""
        return [self._known()["python"], self._known()["program"]]

    def ask(
        self,
        verb: str,
        values: Mapping[str, Any],
        *,
        limit_s: float = _ANSWER_S,
        is_safe_twice: bool = True,
    ) -> Any:
        """One request, asked again where the connection was cut, if that does no harm; else Cut.
        EngineFailed: it cannot be answered."""
        line = json.dumps({"do": verb, **values}).encode() + b"\n"
        with self._turn:
            said = self._asked(line, limit_s, is_safe_twice=is_safe_twice)
        if "error" in said:
            raise EngineFailed(f"{self.destination}: {said['error']}")
        return said["answer"]

    def _asked(self, line: bytes, limit_s: float, *, is_safe_twice: bool) -> dict[str, Any]:
        try:
            return self._exchange(line, limit_s)
        except ConnectionError as error:
            self.close()
            if not is_safe_twice:
                raise Cut(f"the connection to {self.destination} was cut") from error
        try:
            return self._exchange(line, limit_s)
        except ConnectionError as again:
            raise self._unreachable(again) from again

    def _unreachable(self, error: ConnectionError) -> EngineFailed:
        self._gave_up = EngineFailed(
            f"{self.destination} cannot be reached: {error}",
            hint=f"this must work: ssh {self.destination} true",
        )
        return self._gave_up

    def close(self) -> None:
        """End the far end too."""
        with self._turn:
            process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        for end in (process.stdin, process.stdout):
            if end is not None:
                end.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _known(self) -> dict[str, str]:
        with self._turn:
            if not self._told:
                try:
                    self._connected()
                except ConnectionError as error:
                    raise self._unreachable(error) from error
            return self._told

    def _exchange(self, line: bytes, limit_s: float) -> dict[str, Any]:
        process = self._connected()
        _write(process, line)
        return json.loads(self._line(process, limit_s))

    def _connected(self) -> "subprocess.Popen[bytes]":
        if self._gave_up is not None:
            raise self._gave_up
        if self._process is None:
            launcher = self._launcher()
            name = f"jumar-launch-{hashlib.sha256(launcher).hexdigest()[:16]}.pyz"
            script = _BEGIN.format(name=name, size=len(launcher), mark=MARK)
            words = ["ssh", *_OPTIONS, "--", self.destination, f"exec sh -lc {shlex.quote(script)}"]
            try:
                self._process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            except FileNotFoundError as error:
                raise EngineFailed("ssh is not installed", hint="install openssh-client") from error
            self._greet(self._process, launcher)
        return self._process

    def _launcher(self) -> bytes:
        if not self._kept.exists() or self._kept.stat().st_mtime < newest_source():
            build_launcher(self._kept)
        return self._kept.read_bytes()

    def _greet(self, process: "subprocess.Popen[bytes]", launcher: bytes) -> None:
        # What login scripts print may come before it.
        while not (said := self._line(process, _HELLO_S).strip()).startswith(MARK.encode()):
            continue
        if said.endswith(b"=want"):
            _write(process, launcher)
        line = self._line(process, _HELLO_S)
        if line.strip().endswith(b"=no-python"):
            self.close()
            raise EngineFailed(
                f"{self.destination} has no Python 3.7 or later",
                hint="load one in your profile there; jumar brings everything else",
            )
        self._told = json.loads(line)[MARK]

    def _line(self, process: "subprocess.Popen[bytes]", limit_s: float) -> bytes:
        output = _open(process.stdout)
        give_up_at = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left_s = give_up_at - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                self.close()
                raise EngineFailed(f"{self.destination} does not answer within {limit_s:g} s")
            block = output.read(1 << 16)
            if not block:
                raise ConnectionError("ssh ended")
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def _write(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    stream, rest = _open(process.stdin), memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ConnectionError("ssh ended")
    return stream


class FarSlurm(Slurm):
    """Slurm's programs on a login node."""

    def __init__(self, login: Login) -> None:
        super().__init__({})
        self._login = login

    def submit(self, options: Sequence[str], script: str) -> str:
        """As there; where the connection was cut meanwhile, the queue tells whether it came through."""
        try:
            return super().submit(options, script)
        except Cut:
            name = next(word for word in options if word.startswith("--job-name="))
            before = self.rows(name.partition("=")[2])
            return before[0].id if before else super().submit(options, script)

    def run(
        self, words: Sequence[str], text: str = "", limit_s: float = LIMIT_S
    ) -> "subprocess.CompletedProcess[str]":
        """There."""
        is_safe_twice = words[0] != "sbatch"
        code, out, err = self._login.ask(
            "call",
            {"words": list(words), "text": text, "seconds": limit_s},
            limit_s=limit_s + 10,
            is_safe_twice=is_safe_twice,
        )
        if code == _NOT_FOUND:
            raise EngineFailed(
                f"{words[0]} was not found on {self._login.destination}",
                hint="is it a login node of the cluster, and on PATH in its profile?",
            )
        return subprocess.CompletedProcess(words, code, out, err)
