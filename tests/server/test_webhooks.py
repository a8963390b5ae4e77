"""Messages to chats: a chat of our own hears them, as the real ones would."""

import base64
import hashlib
import hmac
import http.server
import json
import logging
import threading
import urllib.parse
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.server.conftest import Running
from tests.store.manners import make_authority
from tests.waiting import wait_for

from jumar.notify import post as posting
from jumar.notify.messages import refusal, request
from jumar.notify.post import NotSent, post
from jumar.notify.sending import Sender
from jumar.notify.webhooks import Webhook, Webhooks
from jumar.spec.states import AttemptState

SECRET = "SEC-0123456789"


class Chat(http.server.ThreadingHTTPServer):
    """Keeps what it hears; `answers` come first, then 0 for all."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Ear)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook/{SECRET}"

    def texts(self) -> list[str]:
        return [body["text"]["content"] for _, body in self.heard]


class _Ear(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        chat = cast("Chat", self.server)
        chat.heard.append((self.path, json.loads(self.rfile.read(size))))
        given = chat.answers.pop(0) if chat.answers else (200, b'{"errcode": 0}')
        self.send_response(given[0])
        self.end_headers()
        self.wfile.write(given[1])

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def chat() -> Generator[Chat]:
    with Chat() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join(60)


def test_jobs_are_told_of_and_secrets_never(
    running: Running, chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"kind": "dingtalk", "url": chat.url, "secret": SECRET, "language": "en"}
    made = running.api("POST", "/webhooks", body=body, user="root")
    assert made.status == 201
    hook = made.json["id"]
    assert running.api("POST", f"/webhooks/{hook}/test", user="root").status == 204
    jobs = [
        running.api("POST", "/jobs", body={"name": name, "command": "true"}, user="root").json["id"]
        for name in ("good", "bad", "mine")
    ]
    ends = (AttemptState.SUCCEEDED, AttemptState.FAILED)
    for job, state in zip(jobs, ends, strict=False):
        wait_for(lambda job=job: job in [one for one, _ in running.engine.started()])
        running.engine.finish(job, state, reason="exit code 3" if state is ends[1] else None)
    # What one stops oneself is no news.
    running.api("POST", f"/jobs/{jobs[2]}/stop", user="root")
    wait_for(lambda: sum(text.count("/jobs/") for text in chat.texts()) >= 2)
    told = "\n".join(chat.texts())
    assert "Messages of jumar arrive here." in told
    assert f"good ({jobs[0]}) is done" in told
    assert f"bad ({jobs[1]}) failed: exit code 3" in told
    assert "mine" not in told
    # Signed as DingTalk says: over the milliseconds and the secret.
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(chat.heard[0][0]).query)
    stamp = query["timestamp"][0]
    wanted = hmac.new(SECRET.encode(), f"{stamp}\n{SECRET}".encode(), hashlib.sha256).digest()
    assert query["sign"] == [base64.b64encode(wanted).decode()]
    chat.answers = [(200, b'{"errcode": 310000, "errmsg": "sign not match"}'), (500, b"")]
    refused = running.api("POST", f"/webhooks/{hook}/test", user="root")
    assert (refused.status, refused.json["error"]["code"]) == (502, "webhook-failed")
    assert "sign not match" in refused.json["error"]["message"]
    listed = running.api("GET", "/webhooks", user="root")
    assert listed.json[0]["error"] is not None
    assert (listed.json[0]["host"], listed.json[0]["signed"]) == ("127.0.0.1", True)
    shown = [made.json, refused.json, listed.json, caplog.text]
    assert SECRET not in json.dumps(shown)
    assert (running.home / "webhooks.json").stat().st_mode & 0o077 == 0
    assert running.api("GET", "/webhooks", user="ann").json == []
    assert running.api("DELETE", f"/webhooks/{hook}", user="ann").status == 404
    assert running.api("DELETE", f"/webhooks/{hook}", user="root").status == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "icq", "url": "https://example.org"}, 422),
        ({"kind": "slack", "url": "ftp://example.org"}, 422),
        ({"kind": "slack", "url": "https://[::1"}, 422),
        ({"kind": "slack", "url": "https://example.org:99999/"}, 422),
        ({"kind": "slack", "url": "https://example.org/a b"}, 422),
        ({"kind": "slack", "url": "https://a..b/"}, 422),
        ({"kind": "slack", "url": f"https://{'a' * 64}.org/"}, 422),
        ({"kind": "slack", "url": "https://example.org", "secret": "x"}, 422),
        ({"kind": "slack", "url": "https://example.org", "events": ["lunch"]}, 422),
        ({"kind": "slack", "url": "https://example.org", "events": []}, 422),
        ({"kind": "slack", "url": "http://example.org"}, 403),
    ],
)
def test_bad_webhooks_are_refused(running: Running, body: dict[str, Any], status: int) -> None:
    assert running.api("POST", "/webhooks", body=body, user="ann").status == status


def test_members_do_not_reach_into_the_sites_network(running: Running, chat: Chat) -> None:
    url = chat.url.replace("http:", "https:")
    hook = running.api("POST", "/webhooks", body={"kind": "slack", "url": url}, user="ann").json
    refused = running.api("POST", f"/webhooks/{hook['id']}/test", user="ann")
    assert refused.status == 502
    assert "inside the site's own network" in refused.json["error"]["message"]
    assert chat.heard == []
    for address in ("http://[::1]:1/", "http://169.254.169.254/", "http://0.0.0.0:1/"):
        with pytest.raises(NotSent, match="own network"):
            post(address, b"", anywhere=False)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_chat_that_drips_is_cut(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_encrypted: bool
) -> None:
    if is_encrypted:
        certificate, context = make_authority(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        chat.socket = context.wrap_socket(chat.socket, server_side=True)
        chat.url = chat.url.replace("http:", "https:")
    going, said = threading.Event(), list[str]()

    def drip(self: _Ear) -> None:
        while not going.wait(0.05):
            self.wfile.write(b"H")
            self.wfile.flush()

    monkeypatch.setattr(_Ear, "do_POST", drip)

    def tell() -> None:
        with pytest.raises(NotSent) as refused:
            post(chat.url, b"{}", anywhere=True, limit_s=5)
        said.append(str(refused.value))

    try:
        threading.Thread(target=tell, daemon=True).start()
        wait_for(lambda: said, "it is cut", 60)
    finally:
        going.set()
    assert "did not answer" in said[0]
    assert posting.LIMIT_S < 60


def test_no_address_and_no_answer_ends_the_telling(chat: Chat) -> None:
    """One for each of the threads that tell, then one that is to be heard."""
    chat.answers = [(200, b"[" * 60_000), (200, b"[" * 60_000)]
    # Kept from before such names were refused.
    urls = ["https://a..b/", f"https://{'a' * 64}.org/", chat.url, chat.url, chat.url]
    sender = Sender(gather_s=0.0, pause_s=0.0)
    for number, url in enumerate(urls):
        sender.add(_hook(str(number), f"user{number}", url), f"job {number}")
    sender.start()
    try:
        wait_for(lambda: len(chat.heard) == 3 and len(sender.errors) == 4, "all were tried")
    finally:
        sender.close()
    assert "no name of a host" in sender.errors["0"]
    assert sorted(sender.errors.values())[-1] == "the answer is not JSON"


def test_an_address_that_hangs_holds_up_no_other_users_messages(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, going = list[str](), threading.Event()
    hear = _Ear.do_POST

    def hang(self: _Ear) -> None:
        begun.append(self.path)
        if self.path.endswith("/eve"):
            going.wait(60)
        hear(self)

    monkeypatch.setattr(_Ear, "do_POST", hang)
    sender = Sender(gather_s=0.0, pause_s=0.0)
    for number, user in enumerate(("eve", "eve", "eve", "ann")):
        sender.add(_hook(str(number), user, f"{chat.url}/{user}"), "done")
    sender.start()
    try:
        wait_for(lambda: chat.heard, "ann is told")
        assert [path.rpartition("/")[2] for path in sorted(begun)] == ["ann", "eve"]
    finally:
        going.set()
        sender.close()


def _hook(number: str, user: str, url: str) -> Webhook:
    return Webhook(
        id=number, user=user, kind="wecom", url=url, secret="", events=("done",),
        language="en", anywhere=True,
    )  # fmt: skip


def test_what_waits_goes_as_one_message_and_is_tried_again(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.notify.sending._AGAIN_S", (0.1, 0.1))
    chat.answers = [(503, b"")]
    hook = Webhook(
        id="1", user="ann", kind="wecom", url=chat.url, secret="", events=("done",),
        language="zh", anywhere=True,
    )  # fmt: skip
    sender = Sender(gather_s=0.2, pause_s=0.2)
    for number in range(25):
        sender.add(hook, f"job {number}")
    sender.start()
    try:
        wait_for(lambda: len(chat.heard) == 2)
    finally:
        sender.close()
    assert chat.texts()[0] == chat.texts()[1]
    assert chat.texts()[1].splitlines()[-2:] == ["job 19", "另有 5 条"]


def test_each_chat_gets_its_own_form() -> None:
    _, feishu = request("feishu", "https://x.org/h", "s", "您好", 1599360473.9)
    sign = hmac.new(b"1599360473\ns", b"", hashlib.sha256).digest()
    assert json.loads(feishu) == {
        "timestamp": "1599360473",
        "sign": base64.b64encode(sign).decode(),
        "msg_type": "text",
        "content": {"text": "您好"},
    }
    assert request("slack", "https://x.org/h?a=1", "", "hi", 0.0) == (
        *("https://x.org/h?a=1", b'{"text": "hi"}'),
    )
    assert refusal("feishu", 200, b'{"code": 0}') is None
    assert refusal("feishu", 200, b'{"code": 19021, "msg": "sign match fail"}') is not None
    assert refusal("wecom", 200, b"<html>") == "the answer is not JSON"
    assert refusal("wecom", 200, b"[]") is not None
    assert refusal("slack", 200, b"ok") is None
    assert refusal("slack", 404, b"no_service") == "HTTP status 404"


def test_who_wanted_all_events_before_there_were_alerts_gets_those_too(tmp_path: Path) -> None:
    same = {"user": "ann", "kind": "slack", "url": "https://x.example/1", "secret": ""}
    same |= {"language": "en", "anywhere": False}
    told = (["done", "failed", "preempted", "sweep"], ["done", "failed"])
    rows = [{**same, "id": str(n), "events": events} for n, events in enumerate(told)]
    (tmp_path / "webhooks.json").write_text(json.dumps(rows))
    everything, some = Webhooks(tmp_path).all
    assert "alert" in everything.events
    assert list(some.events) == told[1]
    # Who chooses so today keeps to it.
    hooks = Webhooks(tmp_path)
    hooks.add("bob", kind="slack", url="https://x.example/2", events=tuple(told[0]))
    assert list(Webhooks(tmp_path).of("bob")[0].events) == told[0]
    assert "alert" in Webhooks(tmp_path).of("ann")[0].events
