"""Answers that real servers and networks give: early, elsewhere, later, through a proxy, with a token."""

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.store.manners import Authority

from jumar.errors import BadInput, NotAllowed
from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, Patience, ProxyRefused, S3Error
from jumar.inject.moxing_path.jumar_s3.asking import proxy_for
from jumar.store.errors import StoreAway, explain_network, explain_s3, patiently

MIB = 1 << 20
LIMIT_S = 60.0
ERROR = "<Error><Code>{}</Code><Message>no</Message>{}</Error>"
Handle = Callable[[BaseHTTPRequestHandler], None]


def answer(request: BaseHTTPRequestHandler, status: int, body: str = "", **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body.encode())


@contextmanager
def serving(handle: Handle, tls: ssl.SSLContext | None = None) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            handle(self)

        do_PUT = do_HEAD = do_POST = do_CONNECT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(LIMIT_S)
        server.server_close()


def client(port: int, token: str = "") -> S3:
    return S3(Endpoint(f"http://127.0.0.1:{port}", "ak", "sk", token=token), LIMIT_S)


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


@pytest.mark.parametrize("closes", [True, False])
def test_a_refusal_before_the_body_was_sent_is_read(closes: bool) -> None:
    """The rest of 64 MiB is not waited for, whether the server closes or just reads no further."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    text = ERROR.format("AccessDenied", "").encode()
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)

    def refuse() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(refusal)
            if not closes:
                over.wait(LIMIT_S)

    server = threading.Thread(target=refuse)
    server.start()
    try:
        s3 = client(listener.getsockname()[1])
        with pytest.raises(S3Error, match="AccessDenied"):
            s3.put("lab", "big", bytes(64 * MIB), 64 * MIB)
    finally:
        over.set()
        server.join(LIMIT_S)
        listener.close()


@pytest.mark.parametrize("says", ["location", "endpoint"])
def test_a_bucket_of_another_region_is_followed_and_remembered(says: str) -> None:
    asked: list[str] = []

    def there(request: BaseHTTPRequestHandler) -> None:
        asked.append(f"there {request.path} {request.headers['authorization'].split('/')[2]}")
        body_of(request)
        answer(request, 200, etag='"x"')

    with ExitStack() as stack:
        other = stack.enter_context(serving(there))
        place = f"127.0.0.1:{other}"

        def here(request: BaseHTTPRequestHandler) -> None:
            asked.append("here")
            body_of(request)
            more = {"location": f"http://{place}{request.path}"} if says == "location" else {}
            text = ERROR.format("PermanentRedirect", f"<Endpoint>{place}</Endpoint>")
            answer(request, 307 if more else 301, text, x_amz_bucket_region="cn-east-3", **more)

        s3 = client(stack.enter_context(serving(here)))
        for key in ("a", "b"):
            s3.put("lab", key, b"1", 1)
    assert asked == ["here", "there /lab/a cn-east-3", "there /lab/b cn-east-3"]


def test_a_key_is_not_signed_for_another_site() -> None:
    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        answer(request, 307, location="http://evil.example/lab/a")

    with serving(elsewhere) as port:
        with pytest.raises(S3Error) as caught:
            client(port).head("lab", "a")
        told = explain_s3(caught.value, "obs://lab/a", f"http://127.0.0.1:{port}")
    assert isinstance(told, BadInput)
    assert "the bucket is not at" in told.message


def test_servers_that_send_each_other_requests_end() -> None:
    count = [0]

    def back(request: BaseHTTPRequestHandler) -> None:
        count[0] += 1
        answer(request, 307, location=f"http://127.0.0.1:{ports[count[0] % 2]}/lab/a")

    with serving(back) as one, serving(back) as other:
        ports = [one, other]
        with pytest.raises(S3Error):
            client(one).head("lab", "a")
    assert count[0] <= 4


def test_the_time_that_a_server_asks_for_is_waited() -> None:
    times: list[float] = []

    def busy(request: BaseHTTPRequestHandler) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            answer(request, 503, ERROR.format("SlowDown", ""), retry_after="1")
        else:
            answer(request, 200, etag='"x"')

    with serving(busy) as port:
        s3 = client(port)

        def ask() -> None:
            try:
                s3.head("lab", "a")
            except S3Error as error:
                raise explain_s3(error, "a", "http://x") from error

        patiently(ask, Patience(first_s=0.01))
    assert times[1] - times[0] >= 0.8


def test_a_server_that_does_not_know_part_numbers() -> None:
    with serving(lambda request: answer(request, 400)) as port:
        assert client(port).part_bytes("lab", "a") is None


def test_an_expired_token_is_told_as_such() -> None:
    seen: list[str] = []

    def expired(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["x-amz-security-token"])
        answer(request, 403, ERROR.format("ExpiredToken", ""))

    with serving(expired) as port, pytest.raises(S3Error) as caught:
        client(port, token="temporary").page("lab")
    told = explain_s3(caught.value, "obs://lab", "http://x")
    assert isinstance(told, NotAllowed)
    assert "the temporary credential has expired" in told.message
    assert "--token" in (told.hint or "")
    assert seen == ["temporary"]


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
def test_the_sites_own_authority_is_trusted_when_named(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    certificate, context = authority
    with serving(lambda request: answer(request, 200, etag='"x"'), context) as port:
        endpoint = Endpoint(f"https://127.0.0.1:{port}", "ak", "sk")
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            S3(endpoint, LIMIT_S).head("lab", "a")
        told = explain_network(caught.value, "obs://lab/a", endpoint.url)
        assert not isinstance(told, StoreAway)
        assert "is not trusted: self-signed certificate" in told.message
        assert "SSL_CERT_FILE" in (told.hint or "")
        monkeypatch.setenv(variable, str(certificate))
        assert S3(endpoint, LIMIT_S).head("lab", "a").etag == "x"


class ProxyLog:
    """A proxy that wants a password, and what it was asked for."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.asked: list[str] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        wanted = "Basic " + base64.b64encode(b"ann:p@ss").decode()
        if request.headers["proxy-authorization"] != wanted:
            answer(request, 407)
            return
        self.asked.append(f"{request.command} {request.path}")
        if request.command != "CONNECT":
            answer(request, 200, etag='"plain"')
            return
        request.send_response(200)
        request.end_headers()
        with socket.create_connection(("127.0.0.1", self.target), LIMIT_S) as beyond:
            back = threading.Thread(target=pump, args=(beyond, request.connection))
            back.start()
            pump(request.connection, beyond)
            back.join(LIMIT_S)
        request.close_connection = True


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_proxy_with_a_password_is_gone_through(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, context = authority
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(lambda request: answer(request, 200, etag='"tls"'), context) as port:
        log = ProxyLog(port)
        with serving(log) as proxy:
            for name in ("HTTPS_PROXY", "HTTP_PROXY"):
                monkeypatch.setenv(name, f"http://ann:p%40ss@127.0.0.1:{proxy}")
            secure = S3(Endpoint("https://store.lan", "ak", "sk"), LIMIT_S)
            assert secure.head("lab", "a").etag == "tls"
            secure.close()
            plain = S3(Endpoint("http://store.lan:9000", "ak", "sk"), LIMIT_S)
            assert plain.head("lab", "a").etag == "plain"
            monkeypatch.setenv("HTTPS_PROXY", f"http://ann:wrong@127.0.0.1:{proxy}")
            with pytest.raises(ProxyRefused, match="407") as caught:
                S3(Endpoint("https://store.lan", "ak", "sk"), LIMIT_S).head("lab", "a")
    assert log.asked == ["CONNECT store.lan:443", "HEAD http://store.lan:9000/lab/a"]
    told = explain_network(caught.value, "obs://lab", "https://store.lan")
    assert isinstance(told, BadInput)
    assert "wrong" not in told.message


@pytest.mark.parametrize(
    ("host", "exceptions", "is_proxied"),
    [
        ("obs.cn-north-4.myhuaweicloud.com", "", True),
        ("obs.cn-north-4.myhuaweicloud.com", "myhuaweicloud.com", False),
        ("obs.cn-north-4.myhuaweicloud.com", ".myhuaweicloud.com, lan", False),
        ("obs.cn-north-4.myhuaweicloud.com", "*.myhuaweicloud.com", False),
        ("notmyhuaweicloud.com", "myhuaweicloud.com", True),
        ("store.lan", "store.lan:9000", True),
        ("store.lan", "store.lan:443", False),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "*", False),
        ("127.0.0.1", "", False),
        ("localhost", "", False),
    ],
)
def test_who_is_reached_through_the_proxy(host: str, exceptions: str, is_proxied: bool) -> None:
    environ = {"https_proxy": "proxy.lan:3128", "NO_PROXY": exceptions}
    assert (proxy_for(host, 443, secure=True, environ=environ) is not None) == is_proxied


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="only http://"):
        proxy_for("a.b", 443, secure=True, environ={"HTTPS_PROXY": "socks5://u:secret@p:1"})


def test_a_bucket_with_dots_goes_into_the_path_of_an_encrypted_server() -> None:
    for address, host, path in (
        ("https://obs.example.com", "obs.example.com", "/my.lab/a"),
        ("http://obs.example.com", "my.lab.obs.example.com", "/a"),
    ):
        s3 = S3(Endpoint(address, "ak", "sk", path_style=False))
        assert s3.place("my.lab", "a") == (host, path)
    assert s3.place("lab", "a") == ("lab.obs.example.com", "/a")


def test_an_unknown_name_is_told_as_such() -> None:
    with pytest.raises(socket.gaierror) as caught:
        S3(Endpoint("http://no-such-host.invalid", "ak", "sk"), LIMIT_S).head("lab", "a")
    told = explain_network(caught.value, "obs://lab/a", "http://no-such-host.invalid")
    assert "the name no-such-host.invalid is unknown here" in told.message
