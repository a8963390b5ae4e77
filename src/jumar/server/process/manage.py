"""The server of a home, seen from outside: start it, find it, stop it. Jobs never notice.

The server itself is imported only by `serve`: commands that look whether one runs stay quick."""

import contextlib
import http.client
import json
import os
import selectors
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from jumar.errors import HomeHeld, HomeUnusable, from_json
from jumar.server.home import ServerProcess, in_words, prepare_home, server_process
from jumar.settings import Settings
from jumar.spec.records import ServerInfo
from jumar.spec.wire import decode

ANSWER_LIMIT_S = 5.0
# The S3 door has a few seconds to close its volumes.
TERM_LIMIT_S = 20.0
KILL_LIMIT_S = 5.0
START_LIMIT_S = 90.0
MOST_LOG_BYTES = 10 << 20
TAIL_BYTES = 2000


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Running jobs go on without it."""
    from jumar.server.process.serving import serve_until_told

    serve_until_told(settings)


def running(settings: Settings) -> ServerInfo | None:
    """The server of this home, if it runs and answers."""
    found = server_process(settings.home)
    return None if found is None else _ask(found.url)


def stop(settings: Settings) -> bool:
    """End the server of this home and wait until it is gone; False if there is none.

    The S3 door ends with it, also the one of a server that was killed."""
    from jumar.store.door import end_left_behind

    found = server_process(settings.home)
    ended = found is not None and _end(found)
    return end_left_behind(settings.home) or ended


def _end(found: ServerProcess) -> bool:
    for number, limit_s in ((signal.SIGTERM, TERM_LIMIT_S), (signal.SIGKILL, KILL_LIMIT_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, number)
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if not found.is_alive():
                return True
            time.sleep(0.02)
    raise HomeUnusable(f"the server (process {found.pid}) does not stop")


def start_detached(settings: Settings) -> ServerInfo:
    """Start the server of this home in the background; returns when it answers.

    One that runs already is left alone."""
    info = running(settings)
    if info is not None:
        return info
    prepare_home(settings.home)
    log_path = settings.home / "server.log"
    until = time.monotonic() + START_LIMIT_S
    try:
        _rotate(log_path)
        with log_path.open("ab") as log_file:
            log_path.chmod(0o600)
            report = _launch(settings, log_file, until)
    except OSError as error:
        raise in_words(error, settings.home) from error
    try:
        return _understand(report, log_path)
    except HomeHeld:
        # Somebody else started one at the same moment: that one will do.
        return _wait_for(settings, until)


def _launch(settings: Settings, log_file: IO[bytes], until: float) -> bytes:
    command = [sys.executable, "-P", "-m", "jumar.server.process.detached"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log_file,
        cwd="/",
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(asdict(settings), default=str).encode())
        child.stdin.close()
        # The child ends as soon as it has forked the server, which holds the other end.
        return _read_line(child.stdout, until)


def _read_line(stream: IO[bytes], until: float) -> bytes:
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not selector.select(max(0.0, until - time.monotonic())):
                return b""
            piece = os.read(stream.fileno(), 65536)
            if not piece:
                return received
            received += piece
    return received


def _understand(report: bytes, log_path: Path) -> ServerInfo:
    if not report.endswith(b"\n"):
        raise HomeUnusable(
            f"the server did not start within {START_LIMIT_S:.0f} s, or ended at once; "
            f"last lines of {log_path}:\n{_tail(log_path)}"
        )
    message: dict[str, Any] = json.loads(report)
    if "error" in message:
        raise from_json(message["error"], unknown=HomeUnusable)
    return decode(ServerInfo, message["ready"])


def _wait_for(settings: Settings, until: float) -> ServerInfo:
    while True:
        info = running(settings)
        if info is not None:
            return info
        if time.monotonic() > until:
            raise HomeHeld(
                f"a server is using {settings.home} but does not answer",
                hint="see server.log there; stop it with: jumar down",
            )
        time.sleep(0.1)


def _rotate(path: Path) -> None:
    if path.exists() and path.stat().st_size > MOST_LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()


def _ask(url: str) -> ServerInfo | None:
    place = urlsplit(url)
    host, port = place.hostname or "", place.port or 0
    if place.scheme == "https":
        # Nothing secret is said: the process was found by its identity, and says what it is.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            host, port, timeout=ANSWER_LIMIT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_LIMIT_S)
    try:
        connection.request("GET", "/api/v1/server")
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        return decode(ServerInfo, json.loads(answer.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
