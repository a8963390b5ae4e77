"""Code from a git server that asks who one is: it comes, and nobody else learns the password."""

import base64
import http.server
import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.engine.conftest import Workshop, log_of

from jumar.spec.states import AttemptState

USER, TOKEN = "ann@lab", "t0ken/with:%&'$(odd)"
# The servers are on this machine, whatever the machine itself goes through.
DIRECT = {"no_proxy": "*"}


@dataclass
class GitServer:
    """`git http-backend` behind a password; `moved` answers all with the address of another."""

    folder: Path
    moved: str | None = None
    port: int = 0
    heard: list[str] = field(default_factory=list[str])
    """What clients said who they are."""
    seen: set[bytes] = field(default_factory=set[bytes])
    """Command lines of this machine while clients were served."""

    def url(self, sign_in: str = "") -> str:
        return f"http://{sign_in}127.0.0.1:{self.port}/repository"

    def is_known(self, header: str) -> bool:
        self.heard.append(header)
        return header == f"Basic {base64.b64encode(f'{USER}:{TOKEN}'.encode()).decode()}"

    def look_around(self) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.seen.add(path.read_bytes())
            except OSError:
                continue


def handler(server: GitServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if server.moved is not None:
                self._answer(302, [("Location", server.moved + self.path)], b"")
            elif not server.is_known(self.headers.get("Authorization") or ""):
                self._answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            else:
                server.look_around()
                self._answer(*backend(server.folder, self, body))

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def backend(
    folder: Path, request: http.server.BaseHTTPRequestHandler, body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    """What git's own program answers."""
    place = urlsplit(request.path)
    variables = {
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": place.path,
        "QUERY_STRING": place.query,
        "REQUEST_METHOD": request.command,
        "CONTENT_TYPE": request.headers.get("Content-Type") or "",
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding") or "",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol") or "",
    }
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "http-backend"],
        env={**os.environ, **variables},
        input=body,
        capture_output=True,
        check=True,
        timeout=180,
    )
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    pairs = [line.partition(": ") for line in head.decode().split("\r\n")]
    headers = [(name, value) for name, _, value in pairs if name != "Status"]
    status = next((value for name, _, value in pairs if name == "Status"), "200 OK")
    return int(status.split()[0]), headers, content


@contextmanager
def serving(server: GitServer) -> Generator[GitServer]:
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
    server.port = web.server_address[1]
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        web.shutdown()
        web.server_close()
        thread.join(180)


@pytest.fixture
def server(tmp_path: Path) -> Generator[GitServer]:
    repository = tmp_path / "served" / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "main.sh").write_text("echo from git; env")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    with serving(GitServer(tmp_path / "served")) as made:
        yield made


@pytest.fixture
def commit(server: GitServer) -> str:
    said = subprocess.run(
        ["git", "-C", str(server.folder / "repository"), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.strip()


def sign_in(token: str = TOKEN) -> str:
    return f"{quote(USER, safe='')}:{quote(token, safe='')}@"


@pytest.mark.parametrize("digits", [40, 9])
def test_a_token_in_the_address_is_in_no_command_line_and_in_no_log(
    workshop: Workshop, server: GitServer, commit: str, digits: int
) -> None:
    code = {"git": server.url(sign_in()), "commit": commit[:digits]}
    made, seen = workshop.run(["sh", "main.sh"], code=code, environment=DIRECT)
    assert seen.state == AttemptState.SUCCEEDED, seen
    assert log_of(made).startswith("from git\n")
    lines = b"\n".join(server.seen)
    assert server.url().encode() in lines
    for secret in (TOKEN, quote(TOKEN, safe="")):
        assert secret.encode() not in lines
        told = [path for path in made.directory.rglob("*") if path.is_file()]
        holders = [path.name for path in told if secret.encode() in path.read_bytes()]
        assert set(holders) <= {"job.json"}
    assert (made.directory / "job.json").stat().st_mode & 0o077 == 0
    assert "t0ken" not in str(made.spec.masked())


def test_a_wrong_token_is_told_without_it(
    workshop: Workshop, server: GitServer, commit: str
) -> None:
    code = {"git": server.url(sign_in("wr0ng")), "commit": commit}
    made, seen = workshop.run(["sh", "main.sh"], code=code, environment=DIRECT)
    assert (seen.state, "git fetch" in str(seen.reason)) == (AttemptState.FAILED, True)
    assert "wr0ng" not in f"{seen}{(made.directory / 'logs/node0/setup.log').read_text()}"


def test_another_server_is_not_told_the_token(
    workshop: Workshop, server: GitServer, commit: str
) -> None:
    with serving(GitServer(server.folder, moved=f"http://localhost:{server.port}")) as moved:
        code = {"git": moved.url(sign_in()), "commit": commit}
        _, seen = workshop.run(["sh", "main.sh"], code=code, environment=DIRECT)
    assert seen.state == AttemptState.FAILED
    assert set(server.heard) == {""}


@pytest.mark.parametrize(
    "address",
    [
        "http://u:p@x.helper=!touch${IFS}pwned;a/r",
        "http://u:p%0aquit=1@host/r",
        "http://u:p@[::1/r",
    ],
)
def test_an_odd_address_reaches_no_setting_of_git(workshop: Workshop, address: str) -> None:
    made, seen = workshop.run(["true"], code={"git": address, "commit": "0" * 40})
    assert seen.state == AttemptState.FAILED
    assert "git address" in str(seen.reason)
    assert not (made.directory / "logs/node0/setup.log").exists()
