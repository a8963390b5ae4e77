"""Endpoints through the proxy: who gets in, what gets through, and when it ends. The host beside the job
is a thread here, and so is what answers in the job."""

import array
import http.client
import re
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import LIMIT_S, Answer, Running, serving
from tests.waiting import wait_for

from jumar.launch.processes import frames
from jumar.launch.processes.frames import Reader, frame, json_frame
from jumar.server.proxy import endpoints as proxy
from jumar.server.proxy import tickets
from jumar.server.proxy.endpoint import Place
from jumar.server.proxy.endpoints import Endpoints

Serve = Callable[[socket.socket], object]


class Job:
    """What answers in a job: each connection is handed to `serve`, in a thread of its own. Commands say
    that they ran."""

    def __init__(self) -> None:
        self.serve: Serve = hello
        self.heads: list[bytes] = []
        self.hosts: list[socket.socket] = []
        self.wishes: list[object] = []
        self.answering: list[threading.Thread] = []

    def start_beside(self, attempt: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.hosts.append(theirs)
        threading.Thread(target=self._host, args=(theirs,), daemon=True).start()
        return ours

    def _host(self, stream: socket.socket) -> None:
        reader = Reader()
        stream.sendall(frame(frames.ALIVE))
        with closing(stream), suppress(OSError):
            while data := stream.recv(65536):
                for kind, content in reader.feed(data):
                    values = frames.values_of(content or b"{}")
                    if kind == frames.CONNECT:
                        self.wishes.append(values["to"])
                        self._connect(stream, values["id"])
                    elif kind == frames.REQUEST and values.get("endpoint") is None:
                        said = frame(frames.OUTPUT, b"ran") + json_frame(frames.EXIT, {"code": 0})
                        stream.sendall(said)
                        return
                    elif kind == frames.END:
                        return

    def _connect(self, stream: socket.socket, number: int) -> None:
        if self.serve is refuse:
            words = {"id": number, "refused": "no process of the job listens there"}
            stream.sendall(json_frame(frames.CONNECTED, words))
            return
        near, far = socket.socketpair()
        near.settimeout(LIMIT_S)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [far.fileno()]))]
        with far:
            stream.sendmsg([json_frame(frames.CONNECTED, {"id": number})], rights)
        answer = threading.Thread(target=self._answer, args=(near,), daemon=True)
        answer.start()
        self.answering.append(answer)

    def settle(self) -> None:
        """Wait until every connection so far is answered or closed."""
        for thread in tuple(self.answering):
            thread.join(LIMIT_S)
            assert not thread.is_alive()

    def _answer(self, near: socket.socket) -> None:
        # Whoever asked may leave at any time.
        with closing(near), suppress(OSError):
            self.heads.append(head_of(near))
            self.serve(near)


def head_of(stream: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)
        if not byte:
            break
        head += byte
    return head


def hello(stream: socket.socket) -> None:
    stream.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: jumar_session=x\r\n\r\nhello"
    )


def refuse(stream: socket.socket) -> None:
    """Never called: the host says that nobody listens."""


def echo_body(stream: socket.socket) -> None:
    stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = b""
    while not body.endswith(b"0\r\n\r\n") and (data := stream.recv(65536)):
        body += data
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def websocket(stream: socket.socket) -> None:
    """Echoes, and says goodbye when the other side has stopped talking."""
    stream.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    while data := stream.recv(65536):
        stream.sendall(data)
    stream.sendall(b"bye")


@pytest.fixture
def job(shared: Running, monkeypatch: pytest.MonkeyPatch) -> Generator[Job]:
    made = Job()
    monkeypatch.setattr(shared.engine, "start_beside", made.start_beside, raising=False)
    yield made
    for host in made.hosts:
        # The thread that reads it ends.
        if host.fileno() >= 0:
            host.shutdown(socket.SHUT_RDWR)


def opened(server: Running, job: str, name: str = "jupyter", user: str = "ann") -> str:
    answer = server.api("POST", f"/jobs/{job}/endpoints/{name}", user=user)
    assert answer.status == 201, answer.text
    return answer.json["url"]


def ask(
    url: str, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str
) -> Answer:
    place = urlsplit(url)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(
        http.client.HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)
    ) as line:
        line.request(method, path, body, named)
        answer = line.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def entered(url: str) -> str:
    """The cookie that a code is worth."""
    place = urlsplit(url)
    answer = ask(url, f"{place.path}?{place.query}")
    assert answer.status == 303, answer.text
    return answer.headers["Set-Cookie"].partition(";")[0]


def raw(url: str, data: bytes) -> socket.socket:
    place = urlsplit(url)
    stream = socket.create_connection((place.hostname, place.port), LIMIT_S)
    stream.sendall(data)
    return stream


def all_of(stream: socket.socket) -> bytes:
    found = b""
    while data := stream.recv(65536):
        found += data
    return found


def head(url: str, cookie: str, *lines: str, first: str = "GET / HTTP/1.1") -> bytes:
    netloc = urlsplit(url).netloc
    return "\r\n".join([first, f"Host: {netloc}", f"Cookie: {cookie}", *lines, "", ""]).encode()


UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


def test_a_code_lets_one_browser_in_once_and_nothing_of_ours_through(
    shared: Running, job: Job
) -> None:
    mine, other = shared.running_job("ann").id, shared.running_job("ann").id
    url = opened(shared, mine)
    cookie = entered(url)
    place = urlsplit(url)
    assert ask(url, f"{place.path}?{place.query}").status == 403
    assert ask(url, f"{place.path}").status == 403
    session = f"jumar_session={shared.token('ann')}"
    answer = ask(url, "/lab?x=1", Cookie=f"a=b; {cookie}; {session}", Authorization="Bearer x")
    assert (answer.status, answer.text) == (200, "hello")
    assert "Set-Cookie" not in answer.headers
    (seen,) = job.heads
    assert seen.startswith(b"GET /lab?x=1 HTTP/1.1\r\n")
    assert b"Cookie: a=b\r\n" in seen
    assert shared.token("ann").encode() not in seen
    assert b"uthorization" not in seen
    # The cookie is of this endpoint only; a second endpoint, of the same job or another, is another origin.
    for elsewhere in (opened(shared, mine, "http:6006"), opened(shared, other)):
        assert urlsplit(elsewhere).port != place.port
        assert ask(elsewhere, Cookie=cookie).status == 303
        assert ask(elsewhere, Cookie=cookie.replace(mine, other)).status == 303
        code = urlsplit(opened(shared, mine)).query
        assert ask(elsewhere, f"/_jumar/enter?{code}").status == 403
    # Without one, pages lead back to the job and anything else is refused.
    lost = ask(url, "/lab")
    assert (lost.status, lost.headers["Location"]) == (303, f"{shared.url}/jobs/{mine}")
    assert ask(url, "/lab", "POST", b"x").status == 401
    assert ask(url, "/lab", "POST", b"x", Cookie=session).status == 401
    assert len(job.heads) == 1
    assert job.wishes == ["program"]


def test_only_owner_and_administrator_open_one_and_it_is_listed(shared: Running, job: Job) -> None:
    mine = shared.running_job("ann", endpoints=["http:6006", "ssh"]).id
    path = f"/jobs/{mine}/endpoints"
    for user, status in (("bob", 403), ("eve", 403), (None, 401)):
        for method in ("POST", "DELETE"):
            assert shared.api(method, f"{path}/jupyter", user=user).status == status
        assert shared.api("GET", path, user=user).status == status
    url = opened(shared, mine, user="root")
    listed = {one["name"]: one["url"] for one in shared.api("GET", path).json}
    assert listed == {"jupyter": url.partition("/_")[0], "tensorboard": None, "http:6006": None}
    for name in ("http:0", "http:70000", "http:", "vnc", "..", "http:22;x", "ssh"):
        assert shared.api("POST", f"{path}/{name}").status in (404, 422)
    assert shared.api("DELETE", f"{path}/jupyter").status == 204
    assert shared.api("DELETE", f"{path}/jupyter").status == 204
    with pytest.raises(ConnectionError):
        ask(url)
    waiting = shared.submit("ann", device="sim:8")
    shared.submit("ann", device="sim:8")
    assert shared.api("POST", f"/jobs/{waiting.id}/endpoints/jupyter").status in (201, 409)
    done = shared.running_job("ann").id
    shared.finish(done)
    assert shared.api("POST", f"/jobs/{done}/endpoints/jupyter").status == 409


def test_links_lead_where_the_browser_came_from(shared: Running, job: Job) -> None:
    mine = shared.running_job("ann").id
    path = f"/jobs/{mine}/endpoints/jupyter"
    forwarded = {"X-Forwarded-Host": "pages.example.org:8443", "X-Forwarded-Proto": "https"}
    url: str = shared.api("POST", path, headers=forwarded).json["url"]
    place = urlsplit(url)
    assert (place.hostname, place.scheme) == ("pages.example.org", "http")
    here = f"http://127.0.0.1:{place.port}"
    lost = ask(here, Host=place.netloc)
    assert lost.headers["Location"] == f"https://pages.example.org:8443/jobs/{mine}"
    assert ask(here, f"{place.path}?{place.query}", Host=place.netloc).status == 303
    bad = ("user@evil.example", "evil.example/x", "[", "[:::::]", "x:99999", "a b", "")
    for said, wanted in {**dict.fromkeys(bad, "127.0.0.1"), "a.org, b.org": "a.org"}.items():
        headers = {**forwarded, "X-Forwarded-Host": said}
        link: str = shared.api("POST", path, headers=headers).json["url"]
        assert urlsplit(link).hostname == wanted


def test_other_origins_and_other_names_are_refused(shared: Running, job: Job) -> None:
    url = opened(shared, shared.running_job("ann").id)
    cookie, netloc = entered(url), urlsplit(url).netloc
    other = f"http://127.0.0.1:{(urlsplit(url).port or 0) + 1}"
    assert ask(url, "/", "POST", b"x", Cookie=cookie, Origin=f"http://{netloc}").status == 200
    assert ask(url, "/", "POST", b"x", Cookie=cookie, Origin=other).status == 403
    assert ask(url, "/", Cookie=cookie, Sec_Fetch_Site="same-site").status == 303
    assert ask(url, "/", Cookie=cookie, Service_Worker="script").status == 403
    # A name that was bent to this machine.
    assert ask(url, "/", Cookie=cookie, Host="evil.example:80").status == 421
    for origin, status in ((other, b"403"), (f"http://{netloc}", b"101")):
        job.serve = websocket
        with raw(url, head(url, cookie, *UPGRADE, f"Origin: {origin}")) as stream:
            assert stream.recv(12).endswith(status)
    with raw(url, head(url, "jumar_endpoint_x=y", *UPGRADE)) as stream:
        assert stream.recv(12).endswith(b"401")
    assert len(job.heads) == 2


def test_who_may_no_longer_enter_is_cut_off(
    shared: Running, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "RIGHTS_S", 0.0)
    url = opened(shared, shared.running_job("bob").id, user="bob")
    cookie = entered(url)
    job.serve = websocket
    with raw(url, head(url, cookie, *UPGRADE)) as stream:
        assert b" 101 " in head_of(stream)
        shared.site.accounts.set_role("bob", "pending")
        try:
            # Cut off, however that is heard.
            with suppress(ConnectionError):
                assert stream.recv(10) == b""
        finally:
            shared.site.accounts.set_role("bob", "member")
    assert ask(url, Cookie=cookie).status == 303


def test_it_ends_with_the_job_and_when_nobody_uses_it(
    shared: Running, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_gone(url: str) -> bool:
        try:
            return ask(url).status == 0
        except OSError:
            return True

    first = opened(shared, shared.running_job("ann").id)
    job.hosts[-1].shutdown(socket.SHUT_RDWR)
    wait_for(lambda: is_gone(first))
    second = opened(shared, shared.running_job("ann").id)
    for endpoint in list(shared.site.endpoints.opened.values()):
        endpoint.used_at = float("-inf")
    wait_for(lambda: is_gone(second))
    monkeypatch.setattr(proxy, "MOST_PER_USER", 0)
    answer = shared.api("POST", f"/jobs/{shared.running_job('ann').id}/endpoints/jupyter")
    assert answer.status == 409


def test_a_host_that_was_tampered_with_harms_only_itself(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [
        json_frame(frames.REFUSED, {"message": "the job has ended"}),
        b"\xff" * 100,
        frame(frames.ALIVE) + json_frame(frames.CONNECTED, {"id": 1}),
        frame(frames.CONNECTED, b"[]"),
        frame(frames.ALIVE) + frame(frames.EXIT),
    ]
    ends: list[socket.socket] = []

    def start_beside(attempt: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.sendall(said[len(ends)])
        ends.append(theirs)
        return ours

    monkeypatch.setattr(shared.engine, "start_beside", start_beside, raising=False)
    for _ in said:
        job_id = shared.running_job("ann").id
        status = shared.api("POST", f"/jobs/{job_id}/endpoints/jupyter").status
        assert status in (201, 409)
        wait_for(lambda job_id=job_id: not shared.site.endpoints.of(job_id))
    for end in ends:
        end.close()


def test_below_a_wildcard_each_has_a_name(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(wildcard="https://*.jobs.example.org")
    folder, pages = tmp_path_factory.mktemp("names"), "https://jumar.example.org"
    with serving(folder, endpoints=Endpoints(place), public_url=pages) as server:
        made = Job()
        monkeypatch.setattr(server.engine, "start_beside", made.start_beside, raising=False)
        mine = server.running_job("ann").id
        url = opened(server, mine)
        assert re.match(rf"https://{mine}-jupyter\.jobs\.example\.org/_jumar/enter\?code=", url)
        shared_port = server.site.endpoints._shared  # pyright: ignore[reportPrivateUsage]
        assert shared_port is not None
        here = f"http://127.0.0.1:{shared_port.number}"
        name = f"{mine}-jupyter.jobs.example.org"
        answer = ask(here, "/_jumar/enter?" + urlsplit(url).query, Host=name)
        assert "Secure" in answer.headers["Set-Cookie"]
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert ask(here, Cookie=cookie, Host=name).text == "hello"
        assert ask(here, Host=name).headers["Location"] == f"{pages}/jobs/{mine}"
        for wrong in (
            "jobs.example.org",
            f"{mine}-jupyter.evil.org",
            f"{mine}-6006.jobs.example.org",
        ):
            assert ask(here, Cookie=cookie, Host=wrong).status == 404
        # It ends with all of this open.
        stop = threading.Event()
        made.serve = lambda stream: stop.wait(LIMIT_S)
        silent = raw(here, head(f"http://{name}", cookie))
        made.serve = websocket
        with silent, raw(here, head(f"http://{name}", cookie, *UPGRADE)) as stream:
            assert b" 101 " in head_of(stream)
            server.server.end()
            assert stream.recv(10) == b""
        stop.set()
