"""A server reached over the stock ssh client: `ssh://USER@HOST[:PORT][/path/to/jumar]`.

Each connection is one `ssh HOST jumar relay`. On the far side, that program is the user there: it
connects to the server as they would and first says, in one line, with what token. So no port is
opened, nothing is typed, and no token is stored on this side."""

import json
import re
import shlex
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import unquote, urlsplit

from jumar.errors import BadInput, ServerUnreachable

HELLO_LIMIT_S = 120.0
"""Somebody may have to type a passphrase, and the far server may have to be started."""
_END_LIMIT_S = 5.0
_MOST_HELLO = 8192
_SOUND = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@%:-]*")
_OPTIONS = ("-T", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
# Ctrl-C is for the command that is run, which may have to pass it on through here.
_UNINTERRUPTED = ("/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"')
_NOT_FOUND = 127
_EXAMPLE = "write it like ssh://ann@trainer or ssh://ann@trainer:2222"


@dataclass(frozen=True, slots=True)
class SshPlace:
    """Where to, and what to run there."""

    host: str
    user: str | None
    port: int | None
    program: str

    @classmethod
    def of(cls, url: str) -> "SshPlace":
        """As `url` says; BadInput."""
        try:
            parts = urlsplit(url)
            host, user, port = parts.hostname or "", parts.username, parts.port
        except ValueError as error:
            raise BadInput(f"{url!r} is not an address", hint=_EXAMPLE) from error
        # What begins with a dash would be an option of ssh.
        if not all(_SOUND.fullmatch(word) for word in (host, user or host)):
            raise BadInput(f"{url!r} does not name a user and a host", hint=_EXAMPLE)
        if parts.password is not None or parts.query or parts.fragment:
            raise BadInput("an ssh:// address has no password", hint=_EXAMPLE)
        path = unquote(parts.path)
        return cls(host, user, port, path if path.strip("/") else "jumar")

    def command(self) -> list[str]:
        """The words that start the far end."""
        words = ["ssh", *_OPTIONS]
        words += [] if self.port is None else ["-p", str(self.port)]
        words += [] if self.user is None else ["-l", self.user]
        return [*words, "--", self.host, f"{shlex.quote(self.program)} relay"]


class SshConnection(HTTPConnection):
    """HTTP through one ssh process, which ends with it."""

    def __init__(self, place: SshPlace) -> None:
        # The far server listens there, and refuses other names.
        super().__init__("localhost", timeout=HELLO_LIMIT_S)
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.token = ""
        """Said by the far end."""

    def connect(self) -> None:
        """Start ssh and hear the far end's first line; ServerUnreachable."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                end = theirs.fileno()
                words = [*_UNINTERRUPTED, *self._place.command()]
                self._process = subprocess.Popen(words, stdin=end, stdout=end)
            self.sock = ours
            self.token = _token_in(_first_line(ours))
        except OSError as error:
            ours.close()
            # Not tried again: that might ask for a passphrase over and over.
            raise self._explained(error, self._end()) from error

    def _explained(self, error: OSError, code: int | None) -> ServerUnreachable:
        if code == _NOT_FOUND:
            return ServerUnreachable(
                f"{self._place.program} was not found on {self._place.host}",
                hint=f"give its path, as in ssh://{self._place.host}/opt/jumar/bin/jumar",
            )
        return ServerUnreachable(
            f"no way to jumar on {self._place.host} over ssh: {error.strerror or error}",
            hint=f"see whether this works: {shlex.join(self._place.command())}",
        )

    def close(self) -> None:
        """End the far end too."""
        super().close()
        # Not waited for: an answer may still be read from what is closed here.
        threading.Thread(target=self._end, name="jumar-ssh-end", daemon=True).start()

    def _end(self) -> int | None:
        """Its exit code, if it ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            return process.wait(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


def _first_line(stream: socket.socket) -> bytes:
    """Byte by byte is not needed: nothing follows it before we have asked."""
    line, give_up_at = b"", time.monotonic() + HELLO_LIMIT_S
    while not line.endswith(b"\n"):
        stream.settimeout(max(0.01, give_up_at - time.monotonic()))
        data = stream.recv(_MOST_HELLO)
        line += data
        if not data or len(line) > _MOST_HELLO:
            raise ConnectionError("ssh did not get through to jumar on the other machine")
    return line


def _token_in(line: bytes) -> str:
    # What a login script there prints may come before it.
    try:
        said = json.loads(line.rstrip().rpartition(b"\n")[2])["jumar"]
        return str(said["token"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionError("the other machine did not answer like jumar") from error
