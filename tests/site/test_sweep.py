"""What root's program ends for the nightly sweep: people's processes that hold a card without a job."""

import os
import signal
import stat
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.test_segments import Bench
from tests.site.conftest import CLEAN, Host, new_id, until

from jumar.engine.memory import MemoryEngine
from jumar.engine.site.asking import Root
from jumar.jobs.sweep import Sweep, SweepPlan
from jumar.spec.devices import Card, CardProcess, DeviceKind

NODE = Path("/dev/davinci7200")


@pytest.fixture(scope="module")
def card() -> Generator[Path]:
    """A device node that nothing else on the machine holds: /dev/full under a card's name."""
    os.mknod(NODE, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    NODE.chmod(0o666)
    try:
        yield NODE
    finally:
        NODE.unlink()


@contextmanager
def process_of(host: Host, user: str, node: Path | None) -> Generator["subprocess.Popen[bytes]"]:
    """One that holds the node, or no device at all."""
    held = f"exec 5>{node}; " if node is not None else ""
    with subprocess.Popen(
        [*host.identity(user), "/bin/bash", "-c", f"{held}echo on; read _"],
        env=CLEAN,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as made:
        try:
            assert made.stdout is not None
            assert made.stdout.readline() == b"on\n"
            yield made
        finally:
            made.kill()


def ask(host: Host, pid: int, *, hard: bool = False) -> dict[str, Any]:
    handle = os.pidfd_open(pid)
    try:
        return host.ask({"v": 1, "do": "sweep", "hard": hard}, (handle,))
    finally:
        os.close(handle)


def test_only_who_holds_a_card_without_a_job_is_ended(host: Host, card: Path) -> None:
    ann, bob = host.users[0], host.users[1]
    with ExitStack() as stack:
        holder = stack.enter_context(process_of(host, ann, card))
        other = stack.enter_context(process_of(host, bob, None))
        servers = stack.enter_context(process_of(host, host.server, card))
        # Root's file of the site has to allow it.
        assert ask(host, holder.pid)["code"] == "sweep"
        host.configure(sweep=True)
        stack.callback(host.configure, sweep=False)
        assert "No such device" in ask(host, other.pid)["no"]
        for pid in (servers.pid, os.getpid(), 1):
            assert ask(host, pid)["code"] == "account", pid
        with Path("/dev/null").open() as file:
            assert "no" in host.ask({"v": 1, "do": "sweep", "hard": True}, (file.fileno(),))
        assert "no" in host.ask({"v": 1, "do": "sweep", "hard": True})
        job = new_id()
        words = f"exec 5>{card}; echo $$ > ~/pid; sleep 60"
        assert host.start(job, words, ann, cards=[card.name])["ok"]
        path = host.home(ann) / "pid"
        until(lambda: path.exists() and path.read_text().strip(), "the job has begun")
        assert ask(host, int(path.read_text()))["code"] == "job"
        assert host.ask({"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "lost"})["ok"]
        assert (holder.poll(), other.poll(), servers.poll()) == (None, None, None)
        assert ask(host, holder.pid)["ok"]
        assert holder.wait(30) == -signal.SIGTERM
        assert f"sweep of {holder.pid}" in host.log.read_text()


class OfSite(MemoryEngine):
    """Asks root's program, as the engine of a site does."""

    def __init__(self, cards: tuple[Card, ...], host: Host) -> None:
        super().__init__(cards)
        self._host = host

    def end_other(self, handle: int, *, hard: bool) -> None:
        with self._host.being(self._host.server):
            Root(self._host.top / "run-root").ask("sweep", [handle], hard=hard)


def test_the_sweep_of_a_site_ends_another_users_process_after_its_warning(
    host: Host, card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = signal.pidfd_send_signal

    def as_server(handle: int, number: int) -> None:
        with host.being(host.server):
            send(handle, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", as_server)
    ann = host.users[0]
    warned: list[float] = []
    plan = SweepPlan(12 * 3600, 600.0)
    with ExitStack() as stack:
        host.configure(sweep=True)
        stack.callback(host.configure, sweep=False)
        holder = stack.enter_context(process_of(host, ann, card))
        seen = CardProcess(holder.pid, "bash", user=ann, own_pid=holder.pid)
        engine = OfSite((Card(DeviceKind.NPU, 0),), host)
        engine.processes = (Card(DeviceKind.NPU, 0, processes=(seen,)),)
        bench = Bench(tmp_path, engine)
        stack.callback(bench.service.close)
        foreign, draining = bench.service.foreign, bench.service.draining
        sweep = Sweep(plan, foreign, draining, lambda _, __, at: warned.append(at), engine)
        stack.callback(sweep.close)
        # Tomorrow: the processes of this test began before the hour.
        hour = plan.hour_near(time.time() + 86_400)
        for after_s in (-599.0, -1.0):
            sweep.look(hour + after_s)
        assert len(warned) == 1
        assert holder.poll() is None
        sweep.look(warned[0] + 1)
        assert holder.wait(30) == -signal.SIGTERM
