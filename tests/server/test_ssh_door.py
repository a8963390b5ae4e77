"""The SSH port under strangers and odd clients: nobody is held up, nothing old is spoken."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, suppress
from typing import Any

import asyncssh
import pytest
from tests.server.conftest import LIMIT_S, Running, serving
from tests.server.test_endpoints import Job, hello

from jumar.server.ssh import port

Line = Any
"""A connection of asyncssh, whose types are incomplete."""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("ssh"), has_ssh=True) as made:
        yield made


@pytest.fixture
def enter(
    door: Running, monkeypatch: pytest.MonkeyPatch
) -> "Callable[[Callable[[Line], Awaitable[Any]]], Any]":
    """Does something in a job of ann, as she."""
    job = Job()
    job.serve = hello
    monkeypatch.setattr(door.engine, "start_beside", job.start_beside, raising=False)
    target = door.running_job("ann").id
    key = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
    door.site.accounts.ssh_keys.add("ann", key.export_public_key().decode())

    def run(ask: Callable[[Line], Awaitable[Any]], **options: Any) -> Any:
        async def attempt() -> Any:
            async with (
                asyncio.timeout(LIMIT_S),
                asyncssh.connect(
                    "127.0.0.1",
                    door.site.info.ssh_port,
                    username=target,
                    client_keys=[key],
                    known_hosts=None,
                    config=None,
                    agent_path=None,
                    **options,
                ) as line,
            ):
                return await ask(line)

        return asyncio.run(attempt())

    return run


async def command(line: Line) -> object:
    return (await line.run("echo x")).stdout


def connect(door: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.site.info.ssh_port), LIMIT_S)


@pytest.mark.parametrize(
    ("most", "count"), [(5, 20), pytest.param(256, 1000, marks=pytest.mark.full)]
)
def test_those_who_never_show_a_key_keep_nobody_out(
    door: Running, enter: Any, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    monkeypatch.setattr(port, "MOST_CONNECTIONS", most)
    with ExitStack() as stack:
        for number in range(count):
            stranger = stack.enter_context(connect(door))
            # Silence, half a greeting, a greeting and no more, and far too much of one.
            said = (b"", b"SSH-2.0-half", b"SSH-2.0-x\r\n", b"y" * 20_000)[number % 4]
            with suppress(OSError):
                stranger.sendall(said)
        assert enter(command) == "ran"


def test_what_is_slow_or_broken_is_not_spoken(enter: Any) -> None:
    for old in (
        {"kex_algs": ["diffie-hellman-group18-sha512"]},
        {"kex_algs": ["diffie-hellman-group14-sha1"]},
        {"kex_algs": ["rsa2048-sha256"]},
        {"mac_algs": ["hmac-sha1"], "encryption_algs": ["aes256-ctr"]},
        {"compression_algs": ["zlib@openssh.com"]},
    ):
        # The door may be closed before the reason is read.
        with pytest.raises((asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost)):
            enter(command, **old)


def test_odd_wishes_are_refused_and_harm_nobody(
    enter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(line: Line) -> None:
        for words in ({"command": "a\0b"}, {"subsystem": "netconf"}):
            with pytest.raises(asyncssh.ChannelOpenError):
                await line.create_process(**words)
        done = await line.run("x", term_type="../../\n\x1b[2J", term_size=(2**31, 2**31))
        assert done.exit_status == 0

    enter(refused)
    monkeypatch.setattr(port, "MOST_FORWARDED", 3)

    async def too_many(line: Line) -> None:
        for _ in range(2):
            # Those that have ended count no more.
            held = [await line.open_connection("localhost", 6006) for _ in range(3)]
            with pytest.raises(asyncssh.ChannelOpenError):
                await line.open_connection("localhost", 6006)
            for reader, writer in held:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                writer.write_eof()
                await reader.read()
                writer.close()
                await writer.wait_closed()

    enter(too_many)
