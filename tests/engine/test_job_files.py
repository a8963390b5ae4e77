"""The files of jobs as the rooms above ask for them, wherever they are."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.conftest import CARDS, Workshop, make_attempt, wait_final
from tests.waiting import wait_for

from jumar.engine.base import StartHindered
from jumar.engine.files import OffersFiles
from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.files import Stages
from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.shared.observing import written
from jumar.engine.shared.stopping import ask_by_file
from jumar.engine.site.asking import Root
from jumar.engine.site.files import RootFiles
from jumar.errors import NotFound
from jumar.jobs.folders import read_folders
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.news import Ending, read_ending, words_of, write_words
from jumar.launch.jobdir.safefile import Unusable, write_json
from jumar.root.program import empty
from jumar.spec.job import JobSpec
from jumar.spec.records import LogFile
from jumar.spec.states import AttemptState, JobState
from jumar.store.users import UserStores

JOB, OTHER = "k7x2m9q4tb", "k7x2m9q4tc"


def log(home: Path) -> Path:
    path = home / "jobs" / JOB / "logs/node0/rank0.log"
    path.parent.mkdir(parents=True)
    return path


def a_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize("put", [a_link, a_pipe, Path.mkdir, nothing])
def test_only_a_plain_file_is_opened_as_a_log(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(log(tmp_path))
    with pytest.raises(NotFound):
        SharedFiles(tmp_path / "jobs").open_log(JOB, 0, 0)


@pytest.mark.parametrize("place", ["logs", "logs/node0"])
def test_a_link_opens_no_log_of_another_job(tmp_path: Path, place: str) -> None:
    """A pod has its own job's folder alone, but it can make links that the server would follow."""
    log(tmp_path).write_text("secret")
    folder = tmp_path / "jobs" / OTHER / place
    folder.parent.mkdir(parents=True)
    folder.symlink_to(os.path.relpath(tmp_path / "jobs" / JOB / place, folder.parent))
    files = SharedFiles(tmp_path / "jobs")
    assert files.logs(OTHER) == ()
    assert files.logs(JOB) == (LogFile(node=0, rank=0, size=6),)
    with pytest.raises(NotFound):
        files.open_log(OTHER, 0, 0)


def test_an_output_elsewhere_is_shown_only_where_jobs_may_have_some(tmp_path: Path) -> None:
    """The pod's folder of that name is another one, and what it can write may lead to the server's own."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    for folder in (shared / "mine", home, tmp_path / "jobs" / JOB / "out/x"):
        folder.mkdir(parents=True)
    (home / "store.json").write_text("keys")
    (shared / "mine/w").write_text("w")
    (shared / "evil").symlink_to(home)
    files = SharedFiles(tmp_path / "jobs", within=(str(shared),))
    for place in (home, shared / "evil"):
        with pytest.raises(NotFound):
            files.open_file(JOB, "out/x/store.json", elsewhere={"out/x": str(place)})
    with files.open_file(JOB, "out/x/w", elsewhere={"out/x": str(shared / "mine")}) as opened:
        assert opened.read() == b"w"


def test_a_folder_in_the_place_of_the_jobs_is_held_to_the_same(tmp_path: Path) -> None:
    """A pod may put a link in the place of the folder that it runs in."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    for folder in (shared / "mine", home):
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("key = 1")
    (shared / "evil").symlink_to(home)
    files = SharedFiles(tmp_path / "jobs", within=(str(shared),))
    evil, mine = {"": str(shared / "evil")}, {"": str(shared / "mine")}
    with pytest.raises(NotFound):
        files.open_file(JOB, "config.toml", elsewhere=evil)
    with pytest.raises(NotFound):
        files.entries(JOB, "", elsewhere=evil, after="", limit=9)
    assert [
        one.path for one in files.entries(JOB, "", elsewhere=mine, after="", limit=9).files
    ] == ["config.toml"]
    with files.open_file(JOB, "config.toml", elsewhere=mine) as opened:
        assert opened.read() == b"key = 1"


def test_a_site_shows_no_job_folder_in_the_place_of_another(tmp_path: Path) -> None:
    """What lies elsewhere only its user can see: the job's results are not taken for that."""
    (tmp_path / "control" / JOB).mkdir(parents=True)
    files = RootFiles(tmp_path, tmp_path, Roots(), Root(tmp_path / "nobody"))
    with pytest.raises(NotFound):
        files.entries(JOB, "", elsewhere={"": "/home/ann"}, after="", limit=9)
    with pytest.raises(NotFound):
        files.open_file(JOB, "a.py", elsewhere={"": "/home/ann"})


@pytest.mark.parametrize("place", ["attempts", "attempts/1"])
def test_a_link_leads_no_writer_and_no_reader_into_another_job(tmp_path: Path, place: str) -> None:
    own, other = JobDir(str(tmp_path / OTHER), 1), JobDir(str(tmp_path / JOB), 1)
    make_folders(other)
    write_words(other, words_of(Ending("failed", "exit-code", "secret", tail="secret")))
    write_json(other.stage_status, {"phase": "failed", "error": "secret"})
    link = Path(own.root, place)
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(other.root, place))
    before = sorted(Path(other.root).rglob("*"))
    with pytest.raises(Unusable, match="is not in"):
        read_ending(own)
    staged = Stages(UserStores(tmp_path)).read(own)
    assert staged is not None
    assert "secret" not in str(staged)
    with pytest.raises(NotADirectoryError):
        make_folders(own)
    with pytest.raises(StartHindered):
        Stages(UserStores(tmp_path)).prepare(make_attempt(tmp_path, "true", job_id=OTHER), own)
    ask_by_file(own, "stopped")
    written(own, Ending("lost", "launcher-killed", "gone"))
    assert sorted(Path(other.root).rglob("*")) == before
    ended = read_ending(other)
    assert ended is not None
    assert ended.state == "failed"


def test_folders_that_are_there_do_where_nothing_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file servers look at rights first, and only then whether the folder exists."""
    directory, missing = JobDir(str(tmp_path / JOB), 1), JobDir(str(tmp_path / JOB), 2)
    make_folders(directory)

    def closed(path: str, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "mkdir", closed)
    make_folders(directory)
    with pytest.raises(PermissionError, match="attempts/2"):
        make_folders(missing)


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_file(path: Path) -> None:
    path.write_text("x")


def a_link_elsewhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize("put", [to_itself, a_file, a_pipe, a_link_elsewhere])
def test_what_is_no_folder_hides_no_other_job(tmp_path: Path, put: Callable[[Path], None]) -> None:
    log(tmp_path).write_text("line\n")
    put(tmp_path / "jobs" / "a000000001")
    put(tmp_path / "jobs" / JOB / "attempts")
    files = SharedFiles(tmp_path / "jobs")
    assert files.job_ids() == [JOB]
    assert files.attempts(JOB) == []
    jobs, left = read_folders(files, files.job_ids())
    assert (len(jobs), len(left)) == (0, 1)


def test_as_many_attempts_are_known_as_a_job_may_have(tmp_path: Path) -> None:
    most = 10_000
    spec = JobSpec(name="a", command=["true"], segments="auto", time_limit=60)
    assert spec.has_segment(most)
    assert not spec.has_segment(most + 1)
    for number in (999, most, 99_999):
        (tmp_path / JOB / "attempts" / str(number)).mkdir(parents=True)
    found = SharedFiles(tmp_path).attempts(JOB)
    assert [one.number for one in found] == [999, most, 99_999]


@pytest.mark.parametrize("put", [to_itself, a_file, a_pipe, a_link_elsewhere, Path.mkdir])
def test_whatever_a_job_has_left_in_the_place_of_its_folder_is_removed(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    put(tmp_path / JOB)
    files = SharedFiles(tmp_path)
    files.set_aside(JOB)
    files.delete(JOB)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("put", [to_itself, a_pipe, a_link, a_link_elsewhere, Path.mkdir])
def test_what_is_no_log_is_not_listed(tmp_path: Path, put: Callable[[Path], None]) -> None:
    log(tmp_path).write_text("line\n")
    put(tmp_path / "jobs" / JOB / "logs/node0/rank1.log")
    (tmp_path / "jobs" / JOB / "logs/node0" / f"rank{'9' * 60}.log").write_text("line\n")
    assert SharedFiles(tmp_path / "jobs").logs(JOB) == (LogFile(node=0, rank=0, size=5),)


def test_a_log_is_listed_and_read(tmp_path: Path) -> None:
    log(tmp_path).write_text("line\n")
    log(tmp_path / "other").write_text("not of this home\n")
    files = SharedFiles(tmp_path / "jobs")
    assert files.logs(JOB) == (LogFile(node=0, rank=0, size=5),)
    with files.open_log(JOB, 0, 0) as file:
        assert file.read() == b"line\n"


def test_jobs_are_found_again_and_removed_with_the_platforms_files(
    workshop: Workshop, tmp_path: Path
) -> None:
    control = tmp_path / "control"
    engine = LocalEngine(workshop.home, CARDS, stages=workshop.stages, control=control)
    assert isinstance(engine, OffersFiles)
    made = make_attempt(workshop.home, "exit 3", job_id=JOB)
    workshop.attempts.append(made)
    engine.start(made)
    wait_final(engine, made)
    (found,), left = read_folders(engine.files, engine.files.job_ids())
    assert (found.id, found.state, found.is_live, left) == (JOB, JobState.FAILED, False, [])
    engine.files.set_aside(JOB)
    assert (engine.files.job_ids(), engine.files.aside()) == ([], [JOB])
    engine.files.put_back(JOB)
    assert [one.number for one in engine.files.attempts(JOB)] == [1]
    engine.files.set_aside(JOB)
    engine.files.delete(JOB)
    assert engine.files.aside() == []
    assert list(control.iterdir()) == []
    engine.close()


def test_an_attempt_is_live_while_its_keeper_is(workshop: Workshop) -> None:
    made = make_attempt(workshop.home, "sleep 600", job_id=JOB)
    workshop.attempts.append(made)
    workshop.engine.start(made)
    wait_for(Path(Roots().of(made).claim).exists, "it is claimed")
    (found,), _ = read_folders(workshop.engine.files, [JOB])
    assert (found.is_live, found.state) == (True, JobState.RUNNING)
    workshop.engine.stop(made, AttemptState.STOPPED)
    wait_final(workshop.engine, made)


def test_a_job_is_measured_however_deep_its_folders_are(tmp_path: Path) -> None:
    place = tmp_path / "jobs" / JOB
    place.mkdir(parents=True)
    deep = str(place)
    for _ in range(1100):
        deep = os.path.join(deep, "d")
        os.mkdir(deep)
    for folder in (str(place), deep):
        Path(folder, "file").write_bytes(b"x" * 1000)
    blocks = sum(Path(folder, "file").stat().st_blocks for folder in (str(place), deep))
    assert blocks >= 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Fewer descriptors than folders, and enough for all else in this process.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        assert SharedFiles(tmp_path / "jobs").taken(JOB).bytes == blocks * 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        empty(str(place))
