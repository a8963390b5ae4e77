"""What the host of an endpoint finds out about its job, and what it starts for it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.launch.jobdir.files import JobDir
from jumar.launch.node.side_programs import (
    clear_place,
    connect,
    make_place,
    program_of,
    remove_place,
)
from jumar.launch.processes import listeners as listening
from jumar.launch.processes.container import (
    Container,
    Wrapping,
    entered,
    folder_in,
    has_own_shell,
    held,
    is_elsewhere,
)
from jumar.launch.processes.listeners import holders, listeners, still_holds
from jumar.launch.processes.namespace import Mount
from jumar.launch.processes.network import Network
from jumar.launch.processes.spawn import Program


def test_a_listener_is_its_process_s_only_as_long_as_that_has_it() -> None:
    def pids() -> Iterator[int]:
        yield os.getppid()
        yield os.getpid()
        # Where many processes run, to look at all of them for each connection would take long.
        raise AssertionError("one more was looked at than it takes")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (one,) = listeners(port)
        found = holders([one.inode], pids())
        assert found[one.inode].who.pid == os.getpid()
        assert still_holds(found[one.inode], one.inode)
        assert not still_holds(found[one.inode], one.inode + 1)
        descriptor = listening.fileno()
    assert not still_holds(found[one.inode], one.inode)
    assert listeners(port) == []
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert other.fileno() == descriptor
        assert not still_holds(found[one.inode], one.inode)
    assert holders([one.inode], [os.getpid(), 0]) == {}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::"])
@pytest.mark.parametrize("is_answered", [True, False])
def test_listeners_are_found_where_they_can_be_reached(
    address: str, is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_answered:
        # As in a sandbox that has no such sockets.
        monkeypatch.setattr(listening, "_NETLINK_SOCK_DIAG", 31)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        (one,) = listeners(port)
        assert one.inode == os.fstat(server.fileno()).st_ino
        with socket.create_connection((one.address, port)) as made:
            assert made.family == one.family
            assert listeners(made.getsockname()[1]) == []


@pytest.mark.parametrize("name", ["jupyter", "tensorboard"])
def test_programs_are_in_the_network_of_the_job(name: str, tmp_path: Path) -> None:
    path = {"PATH": os.path.dirname(sys.executable), "JUPYTER_TOKEN": "of a notebook"}
    network = Network("/proc/1/ns/net", None)
    rank = Program(["sleep", "9"], path, str(tmp_path), "", network=network)
    made = program_of(name, JobDir(str(tmp_path), 1), rank, str(tmp_path / "private"))
    assert made is not None
    assert (made.network, made.directory) == (network, str(tmp_path))
    assert "JUPYTER_TOKEN" not in made.environment


def test_apptainer_hides_no_folder_by_the_one_it_is_in() -> None:
    """An input in the working folder: mounted first, it would be there to be written."""
    container = Container("/usr/bin/apptainer", "x.sif")
    wrapping = Wrapping(container, "j", (Mount("/w", "/w"),), (Mount("/w/data", "/w/data"),), {})
    argv = wrapping.wrapped(Program(["true"], {}, "/w", "/w/log"), 0).argv
    binds = [word for word in argv if word.startswith("--bind=")]
    assert binds == ["--bind=/w:/w", "--bind=/w/data:/w/data:ro"]


def test_apptainer_runs_what_is_beside_a_rank_in_a_container_like_it(tmp_path: Path) -> None:
    container = Container("/opt/bin/apptainer", "/a.sif", ("--nv",))
    wrapping = Wrapping(container, "j", (Mount("/x", "/y"),), (), {"PATH": "/bin"})
    rank = wrapping.wrapped(Program(["train"], {"STEP": "12"}, "/work", ""), 0)
    assert (rank.argv[-2:], rank.environment["APPTAINERENV_STEP"]) == (["/a.sif", "train"], "12")
    assert not has_own_shell(rank)
    assert not is_elsewhere(rank)
    assert folder_in(rank.enter) == "/work"
    words = entered(rank.enter, ["sh", "-c", "x"], terminal=True)
    assert words == [*rank.argv[:-1], "sh", "-c", "x"]
    assert entered(rank.enter, [], terminal=True)[-3] == "/bin/sh"


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_is_held_beside_a_rank_removes_only_its_own_folder(
    tmp_path: Path, is_shared: bool
) -> None:
    short, shared = tmp_path / "short", tmp_path / "shared"
    shared.mkdir()
    if is_shared:
        # As apptainer shows the machine's /tmp.
        short.mkdir()
        (short / "meeting").touch()
    words = held(("env", "A=b"), ["touch", f"{short}/p/made"], str(short), str(shared), "p")
    given, kept = os.pipe()
    try:
        subprocess.run(words, check=True, stdin=given, timeout=120)
    finally:
        os.close(given)
        os.close(kept)
    assert (shared / "made").exists()
    assert short.exists() == is_shared
    assert (short / "meeting").exists() == is_shared


def test_a_link_in_the_place_of_a_program_s_socket_leads_nowhere(tmp_path: Path) -> None:
    """In a container the job can write the folder: its link must not lead the server's visitors to docker."""
    private, folder, away = tmp_path / "private", tmp_path / "job", tmp_path / "away"
    for one in (private, folder / "home", away):
        one.mkdir(parents=True)
    rank = Program(["true"], {}, "/", "", enter=("podman", "exec", "x"))
    make_place(JobDir(str(folder), 1), rank, str(private))
    shared = Path(os.readlink(private / "p"))
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as own:
        other.bind(str(away / "s"))
        other.listen()
        own.bind(str(shared / "s"))
        own.listen()
        with socket.socket(socket.AF_UNIX) as made:
            connect(str(private), made)
        (shared / "s").unlink()
        (shared / "s").symlink_to(away / "s")
        with socket.socket(socket.AF_UNIX) as made, pytest.raises(OSError, match="refused"):
            connect(str(private), made)
        clear_place(str(private))
        shared.rmdir()
        shared.symlink_to(away)
        with socket.socket(socket.AF_UNIX) as made, pytest.raises(NotADirectoryError):
            connect(str(private), made)
        with pytest.raises(NotADirectoryError):
            clear_place(str(private))
        remove_place(str(private))
    assert os.listdir(away) == ["s"]
