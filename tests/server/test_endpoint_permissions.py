"""Who gets into a job: every way in, tried by every kind of user. What each gets is the table of the page
docs/howto/open-a-job.md."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncssh
import pytest
from tests.server.conftest import LIMIT_S, Running, serving
from tests.server.test_endpoints import UPGRADE, Job, ask, entered, head, hello, opened, raw
from tests.server.test_endpoints import websocket as echo

PAGE = Path(__file__).parents[2] / "docs/howto/open-a-job.md"
STRANGER, PENDING, OWNER, OTHER, ADMIN = "", "eve", "ann", "bob", "root"
EVERYBODY = (OWNER, ADMIN, OTHER, PENDING, STRANGER)
YES, NO = "yes", "no"
Line = Any
"""A connection of asyncssh, whose types are incomplete."""


class Try:
    """One user before one job of ann, with all that this user has."""

    def __init__(self, server: Running, job: Job, target: str, user: str, key: asyncssh.SSHKey):
        self.server, self.job, self.target, self.user, self.key = server, job, target, user, key

    def api(self, method: str, path: str, body: object = None) -> bool:
        found = self.server.api(
            method, f"/jobs/{self.target}{path}", user=self.user or None, body=body
        )
        assert found.status in (200, 201, 204, 401, 403), found.text
        return found.status < 300

    def page(self, path: str) -> bool:
        cookies = {"Cookie": f"jumar_session={self.server.token(self.user)}"} if self.user else {}
        found = self.server.ask("GET", f"/jobs/{self.target}{path}", user=None, headers=cookies)
        assert found.status in (200, 303, 403), found.text
        return found.status == 200 or "_jumar/enter" in found.headers.get("Location", "")

    def _cookies(self, url: str) -> str:
        """Of the endpoint if the user gets in; else all that the user has, under the endpoint's name."""
        answer = self.server.api(
            "POST", f"/jobs/{self.target}/endpoints/jupyter", user=self.user or None
        )
        if answer.status == 201:
            return entered(answer.json["url"])
        name = f"jumar_endpoint_{self.target}-jupyter"
        found = [f"{name}=guess"]
        if self.user:
            found += [f"jumar_session={self.server.token(self.user)}"]
            found += [f"{name}={self.server.token(self.user)}"]
        if self.user == OTHER:
            own = opened(self.server, self.server.running_job(OTHER).id, user=OTHER)
            found.append(f"{name}={entered(own).partition('=')[2]}")
        return "; ".join(found)

    def endpoint(self, method: str) -> bool:
        url = self._origin()
        self.job.serve = hello
        found = ask(url, "/", method, b"x" if method == "POST" else None, Cookie=self._cookies(url))
        assert found.status in (200, 303, 401)
        return found.status == 200

    def websocket(self) -> bool:
        url = self._origin()
        cookies = self._cookies(url)
        self.job.serve = echo
        origin = f"Origin: http://{urlsplit(url).netloc}"
        with raw(url, head(url, cookies, *UPGRADE, origin)) as stream:
            status = stream.recv(12)[-3:]
        assert status in (b"101", b"401")
        return status == b"101"

    def _origin(self) -> str:
        return opened(self.server, self.target).partition("/_jumar")[0]

    def ssh(self, ask: Callable[[Line], Awaitable[None]]) -> bool:
        async def attempt() -> bool:
            door = self.server.site.info.ssh_port
            async with asyncio.timeout(LIMIT_S):
                async with asyncssh.connect(
                    "127.0.0.1",
                    door,
                    username=self.target,
                    client_keys=[self.key],
                    known_hosts=None,
                    config=None,
                    agent_path=None,
                ) as line:
                    await ask(line)
            return True

        try:
            return asyncio.run(attempt())
        except (asyncssh.PermissionDenied, asyncssh.ChannelOpenError):
            return False


async def shell(line: Line) -> None:
    assert (await line.run(None, input="", term_type="xterm")).exit_status == 0


async def command(line: Line) -> None:
    assert (await line.run("echo x")).stdout == "ran"


async def sftp(line: Line) -> None:
    process = await line.create_process(subsystem="sftp")
    assert (await process.wait()).stdout == "ran"


async def forward(line: Line) -> None:
    reader, writer = await line.open_connection("localhost", 6006)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")


async def elsewhere(line: Line) -> None:
    await line.open_connection("example.org", 80)


async def unix_socket(line: Line) -> None:
    await line.open_unix_connection("/run/x")


async def backwards(line: Line) -> None:
    try:
        await line.forward_remote_port("", 0, "localhost", 1)
    except asyncssh.ChannelListenError as error:
        raise asyncssh.ChannelOpenError(1, "refused") from error


async def backwards_to_a_file(line: Line) -> None:
    try:
        await line.forward_remote_path("/tmp/x", "/tmp/y")
    except asyncssh.ChannelListenError as error:
        raise asyncssh.ChannelOpenError(1, "refused") from error


async def tunnel(line: Line) -> None:
    await line.create_tun(asyncssh.SSHTunTapSession)


async def display(line: Line) -> None:
    words = {"x11_forwarding": True, "x11_display": ":9", "x11_auth_path": "/nonexistent"}
    await line.create_process("echo x", **words)


# The way in, and who gets in: the job's owner, an administrator, another member, somebody who waits for
# approval, a stranger.
TABLE: list[tuple[str, Callable[[Try], bool], tuple[str, ...]]] = [
    ("list its endpoints", lambda t: t.api("GET", "/endpoints"), (YES, YES, NO, NO, NO)),
    ("open one", lambda t: t.api("POST", "/endpoints/jupyter"), (YES, YES, NO, NO, NO)),
    ("close one", lambda t: t.api("DELETE", "/endpoints/http:1"), (YES, YES, NO, NO, NO)),
    ("open one from the page", lambda t: t.page("/open/jupyter"), (YES, YES, NO, NO, NO)),
    ("the page of the terminal", lambda t: t.page("/terminal"), (YES, YES, NO, NO, NO)),
    ("run a command", lambda t: t.api("POST", "/exec", {"command": ["x"]}), (YES, YES, NO, NO, NO)),
    ("GET an endpoint", lambda t: t.endpoint("GET"), (YES, YES, NO, NO, NO)),
    ("POST to an endpoint", lambda t: t.endpoint("POST"), (YES, YES, NO, NO, NO)),
    ("a websocket of an endpoint", lambda t: t.websocket(), (YES, YES, NO, NO, NO)),
    ("ssh: a shell", lambda t: t.ssh(shell), (YES, YES, NO, NO, NO)),
    ("ssh: a command", lambda t: t.ssh(command), (YES, YES, NO, NO, NO)),
    ("ssh: sftp and scp", lambda t: t.ssh(sftp), (YES, YES, NO, NO, NO)),
    ("ssh: `-L` to a port of the job", lambda t: t.ssh(forward), (YES, YES, NO, NO, NO)),
    ("ssh: `-L` to another host", lambda t: t.ssh(elsewhere), (NO, NO, NO, NO, NO)),
    ("ssh: `-L` to a Unix socket", lambda t: t.ssh(unix_socket), (NO, NO, NO, NO, NO)),
    ("ssh: `-R`", lambda t: t.ssh(backwards), (NO, NO, NO, NO, NO)),
    ("ssh: `-R` from a Unix socket", lambda t: t.ssh(backwards_to_a_file), (NO, NO, NO, NO, NO)),
    ("ssh: a network tunnel (`-w`)", lambda t: t.ssh(tunnel), (NO, NO, NO, NO, NO)),
    ("ssh: X11 (`-X`)", lambda t: t.ssh(display), (NO, NO, NO, NO, NO)),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("doors"), has_ssh=True) as made:
        yield made


def test_everybody_gets_in_where_the_page_says_and_nowhere_else(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job()
    monkeypatch.setattr(server.engine, "start_beside", job.start_beside, raising=False)
    target = server.running_job("ann").id
    keys = {user: asyncssh.generate_private_key("ssh-ed25519") for user in EVERYBODY}  # pyright: ignore[reportUnknownMemberType]
    for user in filter(None, EVERYBODY):
        line = keys[user].export_public_key().decode()
        server.site.accounts.ssh_keys.add(user, line)
    rows: list[str] = []
    for name, attempt, wanted in TABLE:
        job.serve = hello
        tries = [Try(server, job, target, user, keys[user]) for user in EVERYBODY]
        found = tuple(YES if attempt(one) else NO for one in tries)
        assert found == wanted, name
        rows.append(f"| {' | '.join((name, *wanted))} |")
    seen = b"".join(job.heads)
    for user in filter(None, EVERYBODY):
        assert server.token(user).encode() not in seen
    assert b"jumar_" not in seen
    table = PAGE.read_text().partition("|---|")[2].partition("\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows, "the page should have:\n" + "\n".join(rows)
