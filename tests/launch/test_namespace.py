"""A view of the file system for one process: with and without root rights."""

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from jumar.launch.processes import namespace, process
from jumar.launch.processes.namespace import Mount, View, view_of

NOBODY = 65534
PR_GET_PDEATHSIG = 2
PR_SET_DUMPABLE = 4


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o777)
        yield Path(made)


def in_child(work: Callable[[], str]) -> str:
    """What `work` says, in a process of its own."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            words = work()
        except (OSError, AssertionError) as error:
            words = f"{type(error).__name__}: {error}"
        os.write(said, words.encode())
        os._exit(0)
    os.close(said)
    with os.fdopen(heard) as file:
        words = file.read()
    os.waitpid(pid, 0)
    return words


def view(folder: Path, *targets: str) -> View:
    for name in ("job", "job/staging", "data"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "data" / "x").write_text("seen")
    made = view_of(
        [Mount(target, str(folder / "data")) for target in targets], str(folder / "job/staging")
    )
    assert made is not None
    return made


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # As after an exec; else the files in /proc/self stay root's.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def dies_with_parent() -> bool:
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value == signal.SIGKILL


@pytest.mark.parametrize("as_root", [True, False])
def test_deep_targets_come_true_and_nothing_else_changes(folder: Path, as_root: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    # Below a folder that exists, which has to be opened up.
    made = view(folder, "/jumar-test", str(folder / "deep" / "er"), "/usr/jumar-test/a")

    def work() -> str:
        if not as_root:
            become_nobody()
        process.end_with_parent(signal.SIGKILL)
        namespace.enter(made)
        assert dies_with_parent(), "the kernel forgot it"
        texts = {Path(mount.target, "x").read_text() for mount in made.mounts}
        (folder / "data" / "written").touch()
        owner = (folder / "data" / "written").stat().st_uid
        shown = sorted(os.listdir("/")), sorted(os.listdir("/usr"))
        return repr((texts, owner, os.getuid(), shown, os.path.realpath("/bin/sh")))

    before = sorted(os.listdir("/")), sorted(os.listdir("/usr"))
    user = 0 if as_root else NOBODY
    names = tuple(sorted([*part, "jumar-test"]) for part in before)
    expected = repr(({"seen"}, user, user, names, os.path.realpath("/bin/sh")))
    found = in_child(work)
    if not as_root and "unshare: Operation not permitted" in found:
        pytest.skip("no user namespaces here")
    assert found == expected
    assert (sorted(os.listdir("/")), sorted(os.listdir("/usr"))) == before
    assert os.listdir(folder / "job/staging") == []
    assert not (folder / "deep").exists()


def test_what_is_there_already_and_what_has_no_source_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nowhere")
    mounts = [Mount("/usr", str(tmp_path)), Mount(str(tmp_path / "new"), "/no/source")]
    assert view_of(mounts, str(tmp_path)) is None
    made = view_of([*mounts, Mount(str(tmp_path / "new"), "/usr")], str(tmp_path))
    assert made is not None
    assert [mount.source for mount in made.mounts] == ["/usr"]


def test_a_trial_says_why_not(folder: Path) -> None:
    made = view(folder, "/jumar-test")
    refused = namespace.trial(made._replace(staging="/no/such/folder"))
    assert refused is not None
    assert "/no/such/folder" in refused or "not permitted" in refused


def test_what_a_job_has_made_in_its_own_tmp_keeps_nobody_out(folder: Path) -> None:
    """A command beside a rank comes later, when others may have given such names to other things."""
    if os.geteuid() != 0:
        pytest.skip("only root can be sure to mount")
    own, staging = folder / "own", folder / "staging"
    own.mkdir()
    staging.mkdir()
    with tempfile.TemporaryDirectory(dir="/tmp") as one, tempfile.NamedTemporaryFile() as other:
        (own / Path(one).name).write_text("mine")
        (own / Path(other.name).name).mkdir()
        made = View((), str(staging), str(own))

        def work() -> str:
            namespace.enter(made)
            assert Path(one).read_text() == "mine"
            return "seen" if Path(other.name).is_dir() else "covered"

        assert in_child(work) == "seen"
