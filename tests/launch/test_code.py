"""Tar files that try to get out of their folder."""

import io
import signal
import tarfile
from collections.abc import Generator
from pathlib import Path

import pytest

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request
from jumar.launch.prepare.code import bring_code
from jumar.launch.prepare.steps import Steps
from jumar.launch.processes.control import Control
from jumar.launch.processes.tree import Tree
from jumar.launch.verdict import SetupFailed

JOB = Job(
    "job",
    "n",
    "u",
    ["true"],
    "archive",
    None,
    None,
    None,
    "cpu",
    1,
    "node",
    None,
    {},
    {},
    {},
    None,
    (),
    1,
    "/envs",
)


@pytest.fixture
def control() -> Generator[Control]:
    """Takes the signals of this process, which wants them back as they were."""
    handlers = {number: signal.getsignal(number) for number in range(1, 32)}
    made = Control()
    yield made
    made.close()
    for number, handler in handlers.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", text: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(text)
    return info, text


def unpack(folder: Path, control: Control, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    archive = folder / "code.tar"
    with tarfile.open(archive, "w") as tar:
        for info, text in members:
            tar.addfile(info, io.BytesIO(text))
    directory = JobDir(str(folder / "job"), 1)
    Path(directory.root).mkdir()
    steps = Steps(control, Tree(None), str(folder / "setup.log"), 1)
    return Path(bring_code(directory, JOB, Request((), None, None, str(archive)), steps, {}))


@pytest.mark.parametrize(
    "bad",
    [
        member("../escape", text=b"x"),
        member("/tmp/escape", text=b"x"),
        member("a/../../escape", text=b"x"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "../outside"),
        member("a/link", tarfile.SYMTYPE, "../../outside"),
        member("link", tarfile.SYMTYPE, "a/../.."),
        member("hard", tarfile.LNKTYPE, "/etc/passwd"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda pair: f"{pair[0].name}-{pair[0].linkname}",
)
def test_members_that_lead_outside_are_refused_and_nothing_stays(
    tmp_path: Path, control: Control, bad: tuple[tarfile.TarInfo, bytes]
) -> None:
    with pytest.raises(SetupFailed) as failure:
        unpack(tmp_path, control, member("good.py", text=b"x"), bad)
    assert failure.value.cause in ("code-outside", "code-odd")
    assert not list((tmp_path / "job").iterdir())
    assert not Path("/tmp/escape").exists()


def test_files_folders_and_inner_links_arrive(tmp_path: Path, control: Control) -> None:
    script = member("bin/run.sh", text=b"echo")
    script[0].mode = 0o700
    folder = unpack(
        tmp_path,
        control,
        member("empty", tarfile.DIRTYPE),
        script,
        member("bin/same.sh", tarfile.SYMTYPE, "run.sh"),
        member("top.sh", tarfile.SYMTYPE, "./bin/same.sh"),
        member("bin/up", tarfile.SYMTYPE, "../empty"),
    )
    assert (folder / "empty").is_dir()
    assert (folder / "top.sh").read_bytes() == b"echo"
    assert (folder / "bin/run.sh").stat().st_mode & 0o111
    assert (folder / "bin/up").resolve() == folder / "empty"


def test_a_file_is_never_written_through_a_link(tmp_path: Path, control: Control) -> None:
    with pytest.raises(SetupFailed):
        unpack(
            tmp_path,
            control,
            member("here", tarfile.SYMTYPE, "."),
            member("here/x", text=b"x"),
        )


def test_a_cut_off_tar_file_is_told(tmp_path: Path, control: Control) -> None:
    archive = tmp_path / "code.tar"
    with tarfile.open(archive, "w") as tar:
        info, text = member("a", text=b"x" * 100000)
        tar.addfile(info, io.BytesIO(text))
    archive.write_bytes(archive.read_bytes()[:50000])
    directory = JobDir(str(tmp_path), 1)
    steps = Steps(control, Tree(None), str(tmp_path / "setup.log"), 1)
    with pytest.raises(SetupFailed, match="tar"):
        bring_code(directory, JOB, Request((), None, None, str(archive)), steps, {})


def test_an_archive_that_is_gone_is_named(tmp_path: Path, control: Control) -> None:
    archive = tmp_path / "code.tar"
    request = Request((), None, None, str(archive))
    steps = Steps(control, Tree(None), str(tmp_path / "log"), 1)
    with pytest.raises(SetupFailed, match=f"the uploaded code no longer exists: {archive}"):
        bring_code(JobDir(str(tmp_path), 1), JOB, request, steps, {})
