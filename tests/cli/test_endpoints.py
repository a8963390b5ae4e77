"""Real jobs opened from outside: their ports through the proxy, and the stock SSH client."""

import json
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller
from tests.ports import free_port
from tests.waiting import wait_for

LIMIT_S = 180.0
SERVER = "import http.server as h, sys; h.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler).serve_forever()"


class Site:
    """A server that speaks TLS and has an SSH port, and a job that serves HTTP."""

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        self.jumar = caller(program, folder / "home", folder)
        self.ssh_port, self.job_port = free_port(), free_port()
        self.job = ""

    def start(self) -> None:
        self.jumar("up", "--detach", "--tls", "--ssh", str(self.ssh_port))

    def __enter__(self) -> "Site":
        self.start()
        (self.folder / "hello.txt").write_text("from the job")
        words = ("run", "--name", "web", "--env", "STEP=12", "--endpoint", f"http:{self.job_port}")
        command = (sys.executable, "-c", SERVER, str(self.job_port))
        self.job = self.jumar(*words, "--", *command).stdout.strip()
        wait_for(lambda: _listens(self.job_port))
        for name in ("mine", "other"):
            key = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
            subprocess.run(key, check=True, timeout=60)
        return self

    def __exit__(self, *error: object) -> None:
        self.jumar("stop", self.job, rc=None)
        self.jumar("down", rc=None)

    def ssh(
        self,
        *words: str,
        key: str = "mine",
        user: str = "web",
        program: str = "ssh",
        data: bytes = b"",
    ) -> "subprocess.CompletedProcess[bytes]":
        options = {
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "Port": str(self.ssh_port),
            "User": user,
        }
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return subprocess.run(
            [program, "-F", "none", "-i", str(self.folder / key), *given, *words],
            input=data,
            capture_output=True,
            timeout=LIMIT_S,
            cwd=self.folder,
        )


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def site(jumar_program: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    with Site(jumar_program, tmp_path_factory.mktemp("site")) as made:
        yield made


def browser() -> urllib.request.OpenerDirector:
    """One that takes any certificate, and keeps cookies."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), tls)


def visit(jumar: Jumar, job: str, name: str, path: str = "/") -> tuple[int, str]:
    url = json.loads(jumar("open", job, name, "--json").stdout)["url"]
    assert url.startswith("https://")
    visitor = browser()
    try:
        with visitor.open(url, timeout=LIMIT_S) as answer:
            answer.read()
        with visitor.open(url.partition("/_jumar")[0] + path, timeout=LIMIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_terminal_is_a_page_of_the_server(site: Site) -> None:
    url = json.loads(site.jumar("open", "web", "terminal", "--json").stdout)["url"]
    with browser().open(url, timeout=LIMIT_S) as answer:
        assert answer.url.endswith(f"/jobs/{site.job}/terminal")
        assert b"xterm" in answer.read()
    assert site.jumar("exec", "web", "--", "sh", "-c", "echo $STEP").stdout == "12\n"


def test_a_port_is_reached_only_while_the_job_itself_listens_there(site: Site) -> None:
    assert visit(site.jumar, "web", f"http:{site.job_port}", "/hello.txt") == (200, "from the job")
    # Somebody else's port, though of the same user: not of this job.
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        status, words = visit(site.jumar, "web", f"http:{port}")
        assert (status, f"listens on port {port}" in words) == (502, True)
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    # The server's own port is not the job's either.
    url = json.loads(site.jumar("open", "--json").stdout)["login_url"]
    assert visit(site.jumar, "web", f"http:{url.split(':')[2].split('/')[0]}")[0] == 502


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("web", "vnc"), "no endpoint"),
        (("web",), "what to open"),
        (("web", "http:99999"), "no endpoint"),
        (("nojob", "jupyter"), "nojob"),
    ],
)
def test_what_cannot_be_opened_is_said_clearly(
    site: Site, words: tuple[str, ...], said: str
) -> None:
    assert said in site.jumar("open", *words, rc=2).stderr


def test_the_stock_ssh_client_works_in_the_job_and_strangers_do_not_get_in(site: Site) -> None:
    assert b"Permission denied" in site.ssh("localhost", "true").stderr
    added = site.jumar("ssh-key", "add", "mine.pub", "--name", "laptop").stderr
    assert "added laptop" in added
    done = site.ssh("localhost", "echo $STEP; pwd; cat; echo oops >&2; exit 3", data=b"typed")
    assert done.stdout.decode() == f"12\n{site.folder}\ntyped"
    assert (done.returncode, done.stderr) == (3, b"oops\n")
    # What asks has no terminal, and so no size either.
    said = site.ssh("-tt", "localhost", "tty; stty size; exit").stdout.split()
    assert (said[0].startswith(b"/dev/pts/"), said[1:]) == (True, [b"24", b"80"])
    assert site.ssh("localhost", data=b"echo from $STEP\n").stdout == b"from 12\n"
    assert site.ssh("localhost", "kill -9 $$").returncode == 255
    # By name or by id, but only one's own jobs, and only with one's own key.
    assert site.ssh("localhost", "true", user=site.job).returncode == 0
    for key, user in (("other", "web"), ("mine", "nojob"), ("mine", "root")):
        done = site.ssh("localhost", "true", key=key, user=user)
        assert (done.returncode, b"Permission denied" in done.stderr) == (255, True)
    # Files, both ways, larger than any window.
    (site.folder / "sent").write_bytes(bytes(range(256)) * 16384)
    done = site.ssh(
        "-b", "-", "localhost", program="sftp", data=b"put sent copied\nget copied back\n"
    )
    assert done.returncode == 0, done.stderr
    assert (site.folder / "back").read_bytes() == (site.folder / "sent").read_bytes()
    # Ports of the job, and of nobody else; nothing the other way round.
    request = b"GET /hello.txt HTTP/1.0\r\n\r\n"
    found = site.ssh("-W", f"localhost:{site.job_port}", "localhost", data=request)
    assert found.stdout.endswith(b"from the job")
    for place in (f"localhost:{site.ssh_port}", "example.org:80"):
        assert b"forwarding failed" in site.ssh("-W", place, "localhost").stderr
    back = (
        "-N",
        "-o",
        "ExitOnForwardFailure=yes",
        "-R",
        f"{free_port()}:localhost:{site.job_port}",
    )
    assert b"forwarding failed" in site.ssh(*back, "localhost").stderr
    # The server shows the same key after a restart, and a key that is removed opens nothing.
    site.jumar("down")
    site.start()
    assert site.ssh("localhost", "true").returncode == 0
    fingerprint = json.loads(site.jumar("ssh-key", "list", "--json").stdout)[0]["fingerprint"]
    site.jumar("ssh-key", "remove", "laptop")
    assert site.jumar("ssh-key", "remove", fingerprint, rc=2).stderr
    assert site.ssh("localhost", "true").returncode == 255
    for junk in ("sent", "mine", "missing.pub"):
        assert site.jumar("ssh-key", "add", junk, rc=2).stderr


def test_nothing_is_left_of_an_endpoint_when_its_server_or_its_job_is_killed(site: Site) -> None:
    def hosts() -> list[str]:
        found = subprocess.run(
            ["pgrep", "-f", f"jumar.launch.node.beside .*{site.job}"],
            capture_output=True,
            text=True,
        )
        return found.stdout.split()

    name = f"http:{site.job_port}"
    assert visit(site.jumar, "web", name)[0] == 200
    assert hosts()
    pid = int((site.folder / "home" / "server.pid").read_text())
    subprocess.run(["kill", "-9", str(pid)], check=True)
    wait_for(lambda: not hosts())
    site.start()
    assert visit(site.jumar, "web", name, "/hello.txt") == (200, "from the job")
    site.jumar("stop", "web")
    wait_for(lambda: not hosts())
    assert "ended" in site.jumar("open", "web", name, rc=2).stderr
