"""A server that speaks TLS: whom clients trust, what plain HTTP is told, and who cannot hold it up."""

import json
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.ports import free_port
from tests.server.conftest import LIMIT_S, Running, serving
from tests.waiting import wait_for

from jumar.client import Client
from jumar.errors import BadInput, JumarError
from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint
from jumar.server.process.certificate import OWN, certificate_of, own_certificate
from jumar.server.process.listen import listen
from jumar.settings import Settings
from jumar.tls import NotTrusted, fingerprint, first_certificate, is_same_fingerprint

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
SILENT = 1000


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("tls"), tls_cert=OWN) as server:
        yield server


def _client(server: Running, trust: str | None = None) -> Client:
    own = own_certificate(server.home, "127.0.0.1").text()
    return Client(
        server.url, server.token("ann"), patience_s=0, trust=own if trust is None else trust
    )


def test_clients_trust_the_pinned_certificate_its_authority_and_no_other(
    encrypted: Running, tmp_path: Path
) -> None:
    own = own_certificate(encrypted.home, "127.0.0.1")
    other = own_certificate(tmp_path, "127.0.0.1")
    for trust in (own.text(), str(own.path)):
        with _client(encrypted, trust) as client:
            assert client.me().name == "ann"
    for trust in (other.text(), str(other.path), ""):
        with _client(encrypted, trust) as client, pytest.raises(NotTrusted):
            client.me()
    with pytest.raises(BadInput, match="cannot read certificates"):
        _client(encrypted, str(tmp_path / "none.pem"))
    assert oct(own.key.stat().st_mode & 0o777) == "0o600"
    assert encrypted.url.startswith("https://")


def test_streams_and_uploads_go_through(encrypted: Running, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n" * 100_000)
    with _client(encrypted) as client:
        uploaded = client.upload(tmp_path)
        assert uploaded.size > 100_000
        job = client.submit({"name": "a", "command": ["train"], "device": "sim:1"})
        wait_for(lambda: any(one == job.id for one, _ in encrypted.engine.started()))
        encrypted.finish(job.id)
        assert client.wait(job.id).state == "succeeded"
        assert client.login_url().startswith("https://")


def test_plain_http_is_told_so_and_the_other_way_round(encrypted: Running, shared: Running) -> None:
    place = urlsplit(encrypted.url)
    # Also when it comes in small pieces, or as something that is no HTTP at all.
    for said in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"P", b"SSH-2.0-a\r\n"):
        with socket.create_connection((place.hostname, place.port), LIMIT_S) as wire:
            wire.sendall(said)
            answer = b"".join(iter(lambda: wire.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["hint"].startswith(
            "write https"
        )
    with closing(HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)) as plain:
        plain.request("POST", "/api/v1/session", b"x" * 50_000)
        assert plain.getresponse().status == 400
    for url, words in (
        (encrypted.url.replace("https", "http"), "speaks TLS only"),
        (shared.url.replace("http", "https"), "does not speak TLS"),
    ):
        with Client(url, "x") as client, pytest.raises(JumarError, match=words):
            client.me()


def test_silent_and_broken_handshakes_hold_up_nobody(encrypted: Running) -> None:
    place = urlsplit(encrypted.url)
    begun = b"\x16\x03\x01\x02\x00\x01"
    with ExitStack() as held:
        for number in range(SILENT):
            wire = held.enter_context(
                socket.create_connection((place.hostname, place.port), LIMIT_S)
            )
            wire.sendall((b"", begun, begun + os.urandom(600))[number % 3])
        with _client(encrypted) as client:
            assert client.me().name == "ann"
            # Who went through the handshake and then says nothing is a connection as any other.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            raw = socket.create_connection((place.hostname, place.port), LIMIT_S)
            held.enter_context(context.wrap_socket(raw))
            assert client.me().name == "ann"
    with _client(encrypted) as client:
        assert client.me().name == "ann"


def test_what_cannot_be_a_certificate_is_refused_before_anything_starts(tmp_path: Path) -> None:
    one, other = (own_certificate(tmp_path / name, "") for name in _folders(tmp_path, "a", "b"))
    text = tmp_path / "text.pem"
    text.write_text("hello")
    sealed = tmp_path / "sealed.pem"
    subprocess.run(
        ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", one.key, "-out", sealed],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    for cert, key, words in (
        (one.path, other.key, "another certificate"),
        (one.path, text, "cannot be used"),
        (text, one.key, "cannot be used"),
        (one.path, sealed, "cannot be used"),
        (one.path, tmp_path / "none", "cannot read"),
        (tmp_path, one.key, "cannot"),
        (one.path, "", "--tls-key is missing"),
        ("", one.key, "--tls-cert is missing"),
    ):
        with pytest.raises(BadInput, match=words):
            listen(Settings(home=tmp_path, tls_cert=str(cert), tls_key=str(key)))
    assert certificate_of(Settings(home=tmp_path)) is None


def _folders(parent: Path, *names: str) -> tuple[str, ...]:
    for name in names:
        (parent / name).mkdir()
    return names


def test_fingerprints_are_those_of_openssl(tmp_path: Path) -> None:
    own = own_certificate(tmp_path, "trainer.lan")
    words = ["openssl", "x509", "-in", own.path, "-noout", "-fingerprint", "-sha256", "-ext"]
    said = subprocess.run(
        [*words, "subjectAltName"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    shown = fingerprint(own.text())
    assert shown in said
    assert "DNS:trainer.lan" in said
    assert "IP Address:127.0.0.1" in said
    assert is_same_fingerprint(shown, "sha256:" + shown.replace(":", "").lower())
    assert not is_same_fingerprint(shown, shown[:-2] + ("00" if shown[-2:] != "00" else "11"))
    with pytest.raises(BadInput, match="has no certificate"):
        first_certificate("-----BEGIN CERTIFICATE-----", "x")


def test_up_and_login_with_a_certificate(
    jumar_program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_DATABASE_URL", "JUMAR_TRUST")
    base = {name: value for name, value in os.environ.items() if name not in hidden}

    def call(
        *words: str, home: str = "server", said: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [jumar_program, *words],
            env={**base, "JUMAR_HOME": str(tmp_path / home), "JUMAR_CPU_SLOTS": "4"},
            input=said, capture_output=True, text=True, timeout=240,
        )  # fmt: skip

    port = str(free_port())
    up = call("up", "--detach", "--tls", "--port", port, "--s3", str(free_port()), "--json")
    try:
        assert up.returncode == 0, up.stderr
        shown = json.loads(up.stdout)
        assert shown["login_url"].startswith("https://")
        done = call("run", "--follow", "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        token = json.loads((tmp_path / "server/client.json").read_text())["token"]
        url = f"https://localhost:{port}"
        refused = call("login", url, home="ann", said=token)
        assert refused.returncode == 2
        assert shown["fingerprint"] in refused.stderr
        wrong = call("login", url, "--fingerprint", "00" * 32, home="ann", said=token)
        assert "shows another certificate" in wrong.stderr
        assert not (tmp_path / "ann/login.json").exists()
        again = ("login", url, "--fingerprint", shown["fingerprint"])
        assert call(*again, home="ann", said=token).returncode == 0
        assert call("jobs", home="ann").returncode == 0
        # The S3 door too: for the platform's own clients, and for others that are told whom to trust.
        assert call("data", "push", str(tmp_path / "ann/login.json"), "obs://lab/").returncode == 0
        keys = dict(
            line.removeprefix("export ").split("=", 1)
            for line in call("store", "keys", home="ann").stdout.splitlines()
        )
        assert keys["AWS_ENDPOINT_URL"].startswith("https://localhost:")
        monkeypatch.setenv("AWS_CA_BUNDLE", keys["AWS_CA_BUNDLE"])
        access, secret = keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]
        with closing(S3(Endpoint(keys["AWS_ENDPOINT_URL"], access, secret))) as stranger:
            assert "lab" in stranger.buckets()
        # Another certificate in its place: refused, in use and at the next login.
        assert call("down").returncode == 0
        (tmp_path / "server/tls").rename(tmp_path / "server/tls-before")
        assert call("up", "--detach", "--tls", "--port", port).returncode == 0
        assert "does not show the certificate that was trusted" in call("jobs", home="ann").stderr
        changed = call("login", url, home="ann", said=token)
        assert changed.returncode == 2
        assert "has changed" in changed.stderr
        assert call("jobs").returncode == 0
    finally:
        call("down")
