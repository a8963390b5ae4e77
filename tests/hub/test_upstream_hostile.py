"""An upstream that lies, breaks off, never answers, or leads into the site's own network."""

import hashlib
import http.client
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from tests.server.conftest import Running, serving

from jumar.hub import detours, upstream
from jumar.hub.upstream import Upstream
from jumar.server.hub import upstream as serving_upstream

WHOLE = b"w" * 6_000_000
SHA256 = hashlib.sha256(WHOLE).hexdigest()
COMMIT = "c" * 40


class Liar(BaseHTTPRequestHandler):
    """What it does is said by the name of the file that is asked for."""

    protocol_version = "HTTP/1.1"
    let_go: ClassVar = threading.Event()
    left: ClassVar = threading.Event()
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._head(len(WHOLE), {"Location": self._detour()} if self._detour() else {})

    def do_GET(self) -> None:
        self.asked.append(self.path)
        match self.path.rpartition("/")[2]:
            case "never":
                self.let_go.wait()
            case "wrong":
                self._head(len(WHOLE))
                self.wfile.write(b"x" * len(WHOLE))
            case "longer":
                self._head(None)
                self._chunk(WHOLE + b"more")
                self._chunk(b"")
            case "cut":
                self._head(None)
                self._chunk(WHOLE[:5_000_000])
                self.close_connection = True
            case name if name in ("short", COMMIT):
                self._head(len(WHOLE))
                self.wfile.write(WHOLE[:5_000_000])
                self.close_connection = True
            case "stalls":
                self._stall()
            case "trickles":
                self._head(len(WHOLE))
                try:
                    while not self.let_go.wait(0.01):
                        self.wfile.write(b"w")
                except OSError:
                    self.left.set()
            case _:
                self._head(0, {"Location": self._detour()})

    def _stall(self) -> None:
        self._head(len(WHOLE))
        self.wfile.write(b"w")
        self.connection.settimeout(0.1)
        while not self.let_go.is_set() and not self.left.is_set():
            with suppress(TimeoutError):
                # Nothing more is asked on this connection: what comes is its end.
                self.connection.recv(1)
                self.left.set()

    def _detour(self) -> str:
        port = cast("ThreadingHTTPServer", self.server).server_port
        return {
            "loopback": f"http://127.0.0.2:{port}/inner",
            "mapped": f"http://[::ffff:127.0.0.2]:{port}/inner",
            "named": f"http://localhost:{port}/inner",
            "metadata": "http://169.254.169.254/inner",
            "anybody": f"http://0.0.0.0:{port}/inner",
            "scheme": "file:///etc/passwd",
        }.get(self.path.rpartition("/")[2], "")

    def _head(self, size: int | None, more: dict[str, str] | None = None) -> None:
        self.send_response(302 if more else 200)
        sent = {"ETag": f'"{SHA256}"', "X-Repo-Commit": COMMIT, **(more or {})}
        sent |= {"Transfer-Encoding": "chunked"} if size is None else {"Content-Length": str(size)}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, content: bytes) -> None:
        # Whoever has enough of it leaves.
        with suppress(OSError):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def near(tmp_path: Path) -> Generator[Running]:
    liar = ThreadingHTTPServer(("0.0.0.0", 0), Liar)
    threading.Thread(target=liar.serve_forever, daemon=True).start()
    Liar.let_go.clear()
    Liar.left.clear()
    Liar.asked.clear()
    try:
        with serving(tmp_path) as running:
            url = f"http://127.0.0.1:{liar.server_port}"
            running.site.hub.upstream = Upstream(url, "secret", running.home / "hub/upstream")
            yield running
    finally:
        Liar.let_go.set()
        liar.shutdown()
        liar.server_close()


@pytest.mark.parametrize("name", ["wrong", "longer", "cut", "short"])
def test_what_is_not_what_was_announced_never_arrives_whole(near: Running, name: str) -> None:
    path = f"/hf/lab/tiny/resolve/main/{name}"
    with near.open(path) as answer, pytest.raises(http.client.IncompleteRead):
        answer.read()
    if name == "wrong":
        # Nor in parts: clients go on by themselves where they were cut.
        assert near.ask("GET", path, headers={"Range": "bytes=9-"}).status == 503
    elif name in ("cut", "short"):
        # A line that broke is no lie: the next one who asks may have it.
        assert near.ask("HEAD", path).status == 200
    assert not [one for one in (near.home / "hub/upstream/files").rglob("*") if one.is_file()]


def test_an_answer_that_broke_off_is_not_kept_for_ever(near: Running) -> None:
    for _ in range(2):
        answer = near.ask("GET", f"/hf/api/models/lab/tiny/revision/{COMMIT}")
        assert (answer.status, "broke off" in answer.text) == (503, True), answer.text
    assert len(Liar.asked) == 2


@pytest.mark.parametrize("name", ["loopback", "mapped", "named", "metadata", "anybody", "scheme"])
def test_a_redirect_leads_nowhere_inside(near: Running, name: str) -> None:
    answer = near.ask("GET", f"/hf/lab/tiny/resolve/main/{name}")
    assert answer.status == 503, answer.text
    assert "redirects" in answer.text
    assert not [path for path in Liar.asked if path.endswith("inner")]


@pytest.mark.parametrize(
    ("address", "near_hub", "is_allowed"),
    [
        ("8.8.8.8", False, True), ("10.0.0.7", False, False), ("10.0.0.7", True, True),
        ("fd00::7", True, True), ("127.0.0.1", True, False), ("169.254.169.254", True, False),
        ("::1", True, False), ("0.0.0.0", True, False), ("fe80::1", True, False),
        ("64:ff9b::808:808", False, True), ("64:ff9b::a00:7", False, False),
        ("64:ff9b::7f00:1", True, False), ("2002:a00:7::1", False, False),
    ],
)  # fmt: skip
def test_where_a_redirect_may_lead(
    monkeypatch: pytest.MonkeyPatch, address: str, near_hub: bool, is_allowed: bool
) -> None:
    own = "10.0.0.1" if near_hub else "8.8.4.4"
    connected: list[str] = []

    def connect(to: tuple[str, int], timeout: float | None) -> None:
        connected.append(to[0])

    monkeypatch.setattr(detours.socket, "create_connection", connect)
    shown = f"[{address}]" if ":" in address else address
    opener = detours.opener_for(f"http://{shown}/x", f"http://{own}")
    with suppress(Exception), closing(opener.open(f"http://{shown}/x")):
        pass
    assert bool(connected) is is_allowed


def test_a_redirect_to_a_name_with_several_addresses_tries_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def look_up(host: str, port: int | None, **_: object) -> list[tuple[object, ...]]:
        names = ("10.0.0.7", "2606:4700::1", "8.8.8.8") if host == "files.example" else ("8.8.4.4",)
        return [(0, 0, 0, "", (name, port)) for name in names]

    def connect(to: tuple[str, int], timeout: float | None) -> None:
        tried.append(to[0])
        raise OSError("no route")

    monkeypatch.setattr(detours.socket, "getaddrinfo", look_up)
    monkeypatch.setattr(detours.socket, "create_connection", connect)
    opener = detours.opener_for("http://files.example/x", "http://hub.example")
    with pytest.raises(OSError, match="no route"):
        opener.open("http://files.example/x")
    assert tried == ["2606:4700::1", "8.8.8.8"]


def test_a_hub_that_never_answers_holds_up_only_who_asks_it(
    near: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_LIMIT_S", 3600.0)
    asking = [near.connect() for _ in range(30)]
    for connection in asking:
        headers = {"Authorization": f"Bearer {near.token('ann')}"}
        connection.request("GET", "/hf/lab/tiny/resolve/main/never", headers=headers)
    try:
        assert near.ask("GET", "/hf/api/whoami-v2").json["name"] == "ann"
        assert near.ask("GET", "/hf/api/models/ann/none").status == 404
    finally:
        Liar.let_go.set()
        for connection in asking:
            connection.close()


def test_who_leaves_is_not_fetched_for(near: Running) -> None:
    with near.open("/hf/lab/tiny/resolve/main/trickles") as answer:
        assert answer.status == 200
    assert Liar.left.wait(120)


def test_who_leaves_a_hub_that_stalls_holds_up_nobody(
    near: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_LIMIT_S", 3600.0)
    waits = threading.Semaphore(0)

    def next_part(got: Any, most: int) -> bytes:
        waits.release()
        return upstream.next_part(got, most)

    monkeypatch.setattr(serving_upstream, "next_part", next_part)
    with near.open("/hf/lab/tiny/resolve/main/stalls"):
        # For the first part, which comes, and for the second, which does not.
        assert waits.acquire(timeout=60)
        assert waits.acquire(timeout=60)
    # The thread that waits for the next part is woken, not waited for.
    assert Liar.left.wait(60)
    assert near.ask("GET", "/hf/api/whoami-v2").json["name"] == "ann"
