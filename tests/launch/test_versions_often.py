"""A file that a script overwrites again and again, however often: one kill in the middle of a write costs little."""

import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.launch.complete import Place, Versions
from jumar.launch.jobdir.files import JobDir
from jumar.launch.node.progress import Progress

_SCRIPT = """
import os, pickle, sys, time
path, pause_s, enough = sys.argv[1], float(sys.argv[2]), sys.argv[3]
os.makedirs(os.path.dirname(path), exist_ok=True)
epoch = 0
while not os.path.exists(enough):
    epoch += 1
    with open(path, "wb") as file:
        pickle.dump({"epoch": epoch, "weights": list(range(2000))}, file)
    time.sleep(pause_s)
with open(path, "wb") as file:
    file.write(pickle.dumps({"epoch": epoch, "weights": list(range(2000))})[:3000])
    file.flush()
    print("torn", flush=True)
    time.sleep(600)
"""


def _epochs(versions: Path) -> list[int]:
    found: list[int] = []
    # Files and folders may be removed meanwhile, for newer ones.
    for folder, _, names in os.walk(versions):
        if "state.pkl" in names:
            with suppress(FileNotFoundError):
                found.append(pickle.loads(Path(folder, "state.pkl").read_bytes())["epoch"])
    return found


@pytest.mark.parametrize("pause_s", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("name", ["job/ckpt", "work/output", "work/ckpt", "work/checkpoints"])
def test_what_is_overwritten_often_comes_back_after_a_kill_in_a_write(
    name: str, pause_s: float, tmp_path: Path
) -> None:
    job, work = tmp_path / "job", tmp_path / "work"
    for folder in (job / "ckpt", job / "logs", work):
        folder.mkdir(parents=True)
    file, enough = tmp_path / name / "state.pkl", tmp_path / "enough"
    first = Progress(JobDir(str(job), 1))
    assert first.begin(str(work)) == []
    first.ranks_run()
    command = [sys.executable, "-c", _SCRIPT, str(file), str(pause_s), str(enough)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            # Two of them: none is the one that was there at first.
            wait_for(
                lambda: len(_epochs(job / "versions")) == 2, "versions while it is overwritten"
            )
            newest = max(_epochs(job / "versions"))
            enough.touch()
            assert writer.stdout is not None
            assert writer.stdout.readline() == "torn\n"
        finally:
            writer.kill()
    assert first.close() == []
    second = Progress(JobDir(str(job), 2))
    (told,) = second.begin(str(work))
    assert second.close() == []
    assert "its last complete version is back" in told
    assert pickle.loads(file.read_bytes())["epoch"] >= newest


def test_a_torn_file_without_a_version_is_set_aside_in_every_folder(tmp_path: Path) -> None:
    job, work = tmp_path / "job", tmp_path / "work"
    folders = [job / "ckpt", job / "out" / "model", work / "ckpt", work / "output"]
    for folder in (*folders, job / "logs"):
        folder.mkdir(parents=True)
    torn = pickle.dumps(list(range(2000)))[:3000]
    for folder in folders:
        (folder / "state.pkl").write_bytes(torn)
    # Older than the job, so another's.
    others = work / "output" / "others.pkl"
    others.write_bytes(torn)
    before = time.time() - 3600
    os.utime(others, (before, before))
    second = Progress(JobDir(str(job), 2))
    told = second.begin(str(work))
    assert second.close() == []
    assert len(told) == len(folders)
    for folder in folders:
        assert not (folder / "state.pkl").exists()
        assert (folder / ".torn" / "1-state.pkl").read_bytes() == torn
        assert any(str(folder / ".torn") in words for words in told)
    assert others.exists()


def test_a_complete_file_that_is_still_open_to_write_is_no_version_yet(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    versions = Versions(Place(str(folder), str(tmp_path / "versions")))
    file = folder / "state.pkl"
    with file.open("wb") as writing:
        # The first of two that its script reads.
        pickle.dump({"model": 1}, writing)
        writing.flush()
        past = time.time() - 1
        os.utime(file, (past, past))
        assert versions.keep(60) == []
        assert versions.is_unsettled
        pickle.dump({"optimizer": 2}, writing)
    os.utime(file, (past, past))
    (kept,) = versions.keep(60)
    assert Path(kept).read_bytes() == file.read_bytes()


def test_copies_of_one_file_take_a_small_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ckpt"
    folder.mkdir()
    versions = Versions(Place(str(folder), str(tmp_path / "versions")))
    clock = [1000.0]

    def slow_fsync(_: int) -> None:
        clock[0] += 2.0

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "fsync", slow_fsync)

    def saved_at(now: float) -> bool:
        clock[0] = now
        (folder / "big.pkl").write_bytes(pickle.dumps(now))
        os.utime(folder / "big.pkl", (now, now))
        return bool(versions.keep())

    assert saved_at(1000)
    assert not saved_at(1039), "2 s of 40 are its share"
    assert saved_at(1041)


_RANKS = """
import os, pickle, sys, time
folder, rank, begin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = os.path.join(folder, f"rank{rank}.pt")
step = pickle.load(open(path, "rb"))["step"] if begin else 0
print(step, flush=True)
for line in sys.stdin:
    # As ranks do that wait for each other in every step.
    step += 1
    data = pickle.dumps({"step": step, "rank": rank, "weights": list(range(50000))})
    with open(path, "wb") as file:
        for at in range(0, len(data), 20000):
            file.write(data[at : at + 20000])
            file.flush()
            time.sleep(float(line))
    print(step, flush=True)
"""


_CUT = [((0, 0.0), (1, 0.2)), ((0, 0.2), (1, 0.2)), ((0, 0.0),), ((1, 0.0),)]
"""The last save of each segment: which ranks begin it, and how slowly. One whole and one torn, both torn, one new and
one of the save before."""


class _Ranks:
    """Two that save in step, each by open and write."""

    def __init__(self, folder: Path, segment: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.running = [
            subprocess.Popen(
                [sys.executable, "-c", _RANKS, str(folder), str(rank), str(segment)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]
        self.began = self.steps()

    def steps(self) -> list[int]:
        return [int(rank.stdout.readline()) for rank in self.running if rank.stdout]

    def save(self, slowness_s: float = 0.0, *ranks: int) -> None:
        for rank in ranks or (0, 1):
            asked = self.running[rank].stdin
            assert asked is not None
            print(slowness_s, file=asked, flush=True)

    def end(self) -> None:
        for rank in self.running:
            rank.kill()
        for rank in self.running:
            rank.communicate()


def test_two_ranks_go_on_from_one_step_after_kills_in_the_middle_of_their_writes(
    tmp_path: Path,
) -> None:
    job, work = tmp_path / "job", tmp_path / "work"
    for folder in (job / "logs", work):
        folder.mkdir(parents=True)
    store, kept = job / "versions", list[list[int]]()

    def newest() -> int:
        found = [version for version in store.glob("*/[0-9]*") if (version / "rank1.pt").exists()]
        newest = max(found, key=lambda path: int(path.name), default=None)
        return 0 if newest is None else pickle.loads((newest / "rank0.pt").read_bytes())["step"]

    for segment in range(4):
        progress = Progress(JobDir(str(job), segment + 1), worlds=frozenset({2}))
        told = progress.begin(str(work))
        # What is back, and where that is which it took the place of.
        assert len(told) == 2 * (segment > 0), told
        ranks = _Ranks(job / "ckpt", segment)
        try:
            progress.ranks_run()
            kept.append(ranks.began)
            at_least, until, pause_s = newest() + 2, time.monotonic() + 300, 0.7
            while (before := newest()) < at_least:
                assert time.monotonic() < until, "no version of both"
                ranks.save()
                ranks.steps()
                time.sleep(pause_s)
                # Where a version takes longer than the ranks until they save again, so do their steps.
                pause_s = pause_s * 1.5 if newest() == before else 0.7
            last = newest()
            for rank, slowness_s in _CUT[segment]:
                ranks.save(slowness_s, rank)
            time.sleep(0.3)
        finally:
            ranks.end()
        assert progress.close() == []
        assert newest() >= last
    for steps in kept:
        assert steps[0] == steps[1]
    assert [steps[0] for steps in kept] == sorted({steps[0] for steps in kept})


def test_a_thread_that_finds_no_room_is_started_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ranks may have all processes and threads that the job is allowed."""
    saved = tmp_path / "ckpt" / "state.pkl"
    for folder in (saved.parent, tmp_path / "logs"):
        folder.mkdir()

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    progress = Progress(JobDir(str(tmp_path), 1))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        assert progress.begin(str(tmp_path)) == []
        progress.ranks_run()
    assert progress.close() == []
    saved.write_bytes(pickle.dumps({"epoch": 1}))
    progress.ranks_run()
    wait_for(lambda: _epochs(tmp_path / "versions") == [1], "it is kept")
    assert progress.close() == []
