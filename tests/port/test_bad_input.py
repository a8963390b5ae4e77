"""What cannot be read or written: each a clear word, the rest is ported, the source stays whole."""

import ctypes
import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.port import Mode, Options
from jumar.port.run import Target, port_repository

CODE = "import torch\nx.cuda()\n"


def port(source: Path, target: Path) -> list[tuple[str, str, str]]:
    outcome = port_repository(source, Options(mode=Mode.NPU_ONLY), target=Target(target))
    assert outcome.report is not None
    return [(r, f.code, f.why.en) for r, f in outcome.report.findings]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text(CODE)
    return folder


def test_pipes_and_sockets_are_told_and_left_out(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        # The path of a socket must be short.
        folder = os.open(source, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/s.sock")
        os.close(folder)
        found = port(source, tmp_path / "out")
    assert [(path, code) for path, code, _ in found] == [("pipe.py", "JP005"), ("s.sock", "JP005")]
    assert all("is not a plain file" in why for _, _, why in found)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["jumar-report", "train.py"]


def test_links_that_lead_nowhere_outside_or_in_a_circle_stay_links(
    source: Path, tmp_path: Path
) -> None:
    (source / "gone.py").symlink_to("nowhere.py")
    (source / "outside.py").symlink_to("/etc/hostname")
    (source / "round.py").symlink_to("round.py")
    (source / "a").symlink_to("b")
    (source / "b").symlink_to("a")
    (source / "up").symlink_to("..", target_is_directory=True)
    assert port(source, tmp_path / "out") == []
    for name in ("gone.py", "outside.py", "round.py", "a", "b", "up"):
        assert os.readlink(tmp_path / "out" / name) == os.readlink(source / name)
    assert "x.npu()" in (tmp_path / "out/train.py").read_text()


def test_names_that_are_no_text_are_ported_like_others(source: Path, tmp_path: Path) -> None:
    odd = os.fsencode(source) + b"/na\xffme with \n.py"
    with open(odd, "wb") as file:
        file.write(CODE.encode())
    port(source, tmp_path / "out")
    with open(os.fsencode(tmp_path / "out") + b"/na\xffme with \n.py", "rb") as file:
        assert b"x.npu()" in file.read()


def test_an_empty_folder_is_ported_to_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert port(tmp_path / "src", tmp_path / "out") == []
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["jumar-report"]


@pytest.mark.parametrize("place", ["file/out", "file/deeper/out"])
def test_a_target_below_a_file_is_refused(source: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    before = contents(source)
    with pytest.raises(BadInput, match="cannot write"):
        port(source, tmp_path / place)
    assert contents(source) == before
    assert (tmp_path / "file").read_text() == "mine"


# --- what may not be read; root may read everything, unless it gives that right up


def bound_by_rights(action: Callable[[], None]) -> None:
    """Run something in a process that the rights of files bind; what it raises fails the test."""

    def run() -> None:
        if os.geteuid() == 0:
            _give_up_overriding()
        action()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(180)
    assert process.exitcode == 0


def _give_up_overriding() -> None:
    """Give up CAP_DAC_OVERRIDE (1) and CAP_DAC_READ_SEARCH (2), for programs started later too."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for number in (1, 2):
        assert libc.prctl(24, number, 0, 0, 0) == 0
    for index in range(3):
        sets[index] &= ~0b110
    assert libc.capset(header, sets) == 0


def test_a_file_that_may_not_be_read_is_told_and_the_rest_is_ported(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "closed").mkdir(parents=True)
    (source / "train.py").write_text(CODE)
    (source / "secret.py").write_text(CODE)
    (source / "closed/in.py").write_text(CODE)
    (source / "secret.py").chmod(0)
    (source / "closed").chmod(0)

    def check() -> None:
        found = port(source, tmp_path / "out")
        assert [(path, code) for path, code, _ in found] == [
            ("closed", "JP005"),
            ("secret.py", "JP005"),
        ]
        assert "x.npu()" in (tmp_path / "out/train.py").read_text()
        assert not (tmp_path / "out/secret.py").exists()

    bound_by_rights(check)
    (source / "closed").chmod(0o700)
    assert (source / "secret.py").read_text() == CODE


def test_a_source_that_may_not_be_read_and_a_target_that_may_not_be_written(tmp_path: Path) -> None:
    source, closed = tmp_path / "src", tmp_path / "closed"
    source.mkdir()
    closed.mkdir()
    (source / "train.py").write_text(CODE)
    closed.chmod(0o555)

    def check() -> None:
        with pytest.raises(BadInput, match="cannot write"):
            port(source, closed / "out")
        source_closed = tmp_path / "none"
        with pytest.raises(BadInput, match="cannot read"):
            port(source_closed, tmp_path / "out")

    (tmp_path / "none").mkdir()
    (tmp_path / "none").chmod(0)
    bound_by_rights(check)
    (tmp_path / "none").chmod(0o700)
    assert (source / "train.py").read_text() == CODE
