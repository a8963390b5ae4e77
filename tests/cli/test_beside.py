"""Commands and shells in running jobs: real jobs, real processes, a real terminal."""

import fcntl
import json
import os
import pty
import secrets
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller, environment_for
from tests.waiting import wait_for

LIMIT_S = 120.0
Follow = Callable[..., "subprocess.Popen[str]"]
# Leaves the session, hears no polite signal, and holds its output open.
STUBBORN = "(setsid sh -c 'trap \"\" HUP TERM; sleep {0}; sleep {0}') & trap '' HUP TERM; echo on; sleep {0}; sleep {0}"


def mark() -> str:
    """A time to sleep that no other process sleeps."""
    return f"{1000 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def sleepers(mark: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, text=True)
    return found.stdout.split()


def state_of(jumar: Jumar, job: str) -> str:
    return json.loads(jumar("show", job, "--json").stdout)["state"]


def start(jumar: Jumar, *flags: str) -> str:
    job = jumar("run", "--device", "sim:2", *flags, "--", "sleep", "600").stdout.strip()
    wait_for(lambda: state_of(jumar, job) == "running", "the job does not run")
    return job


@pytest.fixture(scope="module")
def shared(
    jumar_program: str, live_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Jumar, str]]:
    """A job that runs for as long as these tests."""
    jumar = caller(jumar_program, live_home, tmp_path_factory.mktemp("beside"))
    job = start(jumar, "--env", "FLAVOUR=pear", "--env", "MY_SECRET=plum")
    yield jumar, job
    jumar("stop", job, rc=None)


def test_a_command_is_one_more_process_of_the_job(shared: tuple[Jumar, str]) -> None:
    jumar, job = shared
    script = 'cat; echo "$FLAVOUR $JUMAR_JOB_ID $PWD" >&2; exit 7'
    done = jumar("exec", job, "--", "sh", "-c", script, text="typed\n", rc=7)
    folder = json.loads(jumar("show", job, "--json").stdout)["spec"]["workdir"]
    assert (done.stdout, done.stderr) == ("typed\n", f"pear {job} {folder}\n")
    # The same cards, secrets and all.
    ranks = environment_home(shared) / "jobs" / job / "attempts/1/node0/ranks.json"
    (rank,) = json.loads(ranks.read_text())["pids"]
    expected = Path(f"/proc/{rank}/environ").read_text().split("\0")
    assert sorted(jumar("exec", job, "--", "env", "-0").stdout.split("\0")) == sorted(expected)
    assert jumar("exec", job, "--", "sh", "-c", "kill -9 $$", rc=137).stdout == ""
    assert "command not found: nosuch" in jumar("exec", job, "nosuch", rc=2).stderr
    assert "no command given" in jumar("exec", job, "--", rc=2).stderr


def test_much_goes_through_both_ways_and_unread_input_stops_nothing(
    shared: tuple[Jumar, str], follow: Follow
) -> None:
    jumar, job = shared
    text = "0123456789abcde\n" * 200_000
    done = jumar("exec", job, "--", "cat", text=text)
    assert done.stdout == text
    # `true` reads none of it.
    assert jumar("exec", job, "--", "true", text=text).returncode == 0
    number = mark()
    running = follow("exec", job, "--", "sh", "-c", f"echo on; exec sleep {number}")
    assert running.stdout is not None
    assert running.stdout.readline() == "on\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=LIMIT_S) == 128 + signal.SIGINT
    wait_for(lambda: not sleepers(number), "it was not interrupted")


def test_nothing_is_left_when_the_client_is_killed(
    shared: tuple[Jumar, str], follow: Follow
) -> None:
    jumar, job = shared
    number = mark()
    running = follow("exec", job, "--", "sh", "-c", STUBBORN.format(number))
    assert running.stdout is not None
    assert running.stdout.readline() == "on\n"
    assert sleepers(number)
    running.kill()
    wait_for(lambda: not sleepers(number), "processes are left")
    # Nor when a command ends by itself.
    jumar("exec", job, "--", "sh", "-c", f"setsid sleep {number} & exit 0")
    assert not sleepers(number)
    assert state_of(jumar, job) == "running"


def test_a_shell_has_a_terminal(shared: tuple[Jumar, str], jumar_program: str) -> None:
    _, job = shared
    home = environment_home(shared)
    pid, terminal = pty.fork()
    if pid == 0:
        environment = environment_for(home, TERM="vt100", SHELL="/bin/sh", PS1="ready> ")
        os.execvpe(jumar_program, [jumar_program, "shell", job], environment)
    try:
        _type(terminal, "echo $((40+2)) $TERM $FLAVOUR", "42 vt100 pear")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        # The signal is on its way through a server: asked until it has come.
        _type(terminal, "until stty size | grep 33; do sleep 0.1; done", "33 111")
        _type(terminal, "sleep 600", "sleep 600")
        # What is interrupted before the shell has given it the terminal runs on: both again until it is heard.
        _type(terminal, "\x03echo after $((1+1))", "after 2", again_s=2.0)
        _type(terminal, "exit 9", "")
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 9


def environment_home(shared: tuple[Jumar, str]) -> Path:
    jumar, job = shared
    return Path(json.loads(jumar("show", job, "--json").stdout)["directory"]).parents[1]


def _type(terminal: int, text: str, expected: str, *, again_s: float = LIMIT_S) -> None:
    """Type a line, and read until the other side has said this. Again after so long: a shell that is
    interrupted throws away what was typed meanwhile."""
    line = f"{text}\n".encode()
    heard, give_up_at = b"", time.monotonic() + LIMIT_S
    os.write(terminal, line)
    typed_at = time.monotonic()
    while expected.encode() not in heard:
        assert time.monotonic() < give_up_at, heard
        if time.monotonic() - typed_at > again_s:
            os.write(terminal, line)
            typed_at = time.monotonic()
        if select.select([terminal], [], [], 0.2)[0]:
            heard += os.read(terminal, 4096)


def test_it_ends_with_the_job_and_does_not_keep_it(
    shared: tuple[Jumar, str], follow: Follow
) -> None:
    jumar, _ = shared
    job, number = start(jumar, "--grace", "600s"), mark()
    left = environment_home(shared) / "jobs" / job / "attempts/1/beside.json"
    assert left.stat().st_mode & 0o777 == 0o600
    running = follow("exec", job, "--", "sh", "-c", STUBBORN.format(number))
    assert running.stdout is not None
    assert running.stdout.readline() == "on\n"
    jumar("stop", job)
    # Long before the time that the job's own processes would have.
    wait_for(lambda: state_of(jumar, job) == "stopped", "the job does not end")
    assert not sleepers(number)
    assert running.wait(timeout=LIMIT_S) == 2
    assert running.stderr is not None
    assert "the job has ended" in running.stderr.read()
    assert not left.exists()
    error = jumar("exec", job, "true", rc=2).stderr
    assert "has ended" in error
    assert f"jumar files {job}" in error


def test_a_shell_through_the_queue_holds_its_cards_while_it_is_open(
    jumar: Jumar, jumar_program: str, live_home: Path
) -> None:
    script = 'echo "$JUMAR_JOB_ID"; exit 5\n'
    done = jumar("shell", "--device", "sim:1", "--time-limit", "10m", text=script, rc=5)
    assert state_of(jumar, done.stdout.strip()) == "succeeded"
    # Whose client is killed, holds them no longer either.
    running = subprocess.Popen(
        [jumar_program, "shell", "--device", "sim:1", "--name", "gone"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_for(live_home),
        text=True,
    )
    with running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("echo $JUMAR_JOB_ID\n")
        running.stdin.flush()
        job = running.stdout.readline().strip()
        assert state_of(jumar, job) == "running"
        running.kill()
    wait_for(lambda: state_of(jumar, job) == "succeeded", "the job does not end")
    assert "neither a job nor a device" in jumar("shell", rc=2).stderr


def test_a_killed_server_leaves_no_command(
    fresh_jumar: Jumar, fresh_home: Path, jumar_program: str
) -> None:
    fresh_jumar("up", "--detach")
    job, number = start(fresh_jumar), mark()
    running = subprocess.Popen(
        [jumar_program, "exec", job, "--", "sh", "-c", STUBBORN.format(number)],
        env=environment_for(fresh_home),
        stdout=subprocess.PIPE,
    )
    with running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"on\n"
        os.kill(int((fresh_home / "server.pid").read_text()), signal.SIGKILL)
        assert running.wait(timeout=LIMIT_S) == 2
    wait_for(lambda: not sleepers(number), "processes are left")
    assert state_of(fresh_jumar, job) == "running"
    fresh_jumar("stop", job)
