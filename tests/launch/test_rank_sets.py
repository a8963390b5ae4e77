"""Checkpoints in parts, one file of each rank, that a script overwrites: which they are, and that all parts come back."""

import os
import pickle
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jumar.launch.complete import Place, Versions
from jumar.launch.complete.rank_sets import split
from jumar.launch.jobdir.files import JobDir
from jumar.launch.node.progress import Progress

WORLD = frozenset({4})


@pytest.mark.parametrize(
    "names",
    [
        [f"rank{n}.pt" for n in range(4)],
        [f"model_rank_{n}.pt" for n in range(3)],
        [f"mp_rank_{n:02}_model_states.pt" for n in range(16)],
        [f"deep/optim-{n:05}-of-00004.bin" for n in range(1, 5)],
        [f"state_{n}.pkl" for n in range(4)],
        [f"state_{n:03}.pkl" for n in range(1, 5)],
        [f"epoch_3_rank{n}.pt" for n in range(2)],
    ],
)
def test_files_that_are_parts_of_one_checkpoint(names: list[str]) -> None:
    alone, sets = split([*reversed(names), "best.pt"], WORLD)
    assert alone == ["best.pt"]
    assert [list(one.names) for one in sets] == [names]
    assert sets[0].is_all


@pytest.mark.parametrize(
    "names",
    [
        [f"epoch_{n}.pt" for n in range(4)],
        [f"step{n}.pt" for n in range(1, 5)],
        [f"iter-{n}-of-4.pt" for n in range(1, 5)],
        [f"checkpoint_{n}.pt" for n in range(4)],
        [f"model_ep{n}.pt" for n in range(4)],
        [f"state_{n}.pkl" for n in range(5)],
        [f"state_{n}.pkl" for n in (0, 1, 2, 4)],
        [f"rank{n}_epoch_{e}.pt" for n in range(2) for e in range(2)],
        ["rank0.pt", "rank00.pt"],
    ],
)
def test_files_that_are_versions_of_each_other(names: list[str]) -> None:
    assert split(names, WORLD) == ([], [])


def test_a_set_that_says_how_many_there_are_is_not_all_with_less() -> None:
    (one,) = split([f"optim-{n:05}-of-00004.bin" for n in range(1, 4)])[1]
    assert not one.is_all


class Scene:
    """Ranks that overwrite a file each, at times of our own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "rank%d.pkl"):
        self.saved, self.kept, self._name = folder / "ckpt", folder / "kept", name
        self.saved.mkdir()
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.versions = self.made()

    def made(self) -> Versions:
        return Versions(Place(str(self.saved), str(self.kept), worlds=frozenset({2})))

    def path(self, rank: int) -> Path:
        return self.saved / (self._name % rank)

    def save(self, number: int, *ranks: int, apart_s: float = 0.1) -> None:
        for rank in ranks or (0, 1):
            self.now += apart_s
            self.path(rank).write_bytes(pickle.dumps((number, bytes(999))))
            os.utime(self.path(rank), (self.now, self.now))

    def look(self, for_s: float = 10.0) -> list[int]:
        """Which saves are kept meanwhile."""
        kept: list[str] = []
        for _ in range(int(for_s / 0.5)):
            self.now += 0.5
            kept += self.versions.keep()
        return [pickle.loads(Path(path).read_bytes())[0] for path in kept]

    def tear(self, rank: int) -> None:
        self.now += 0.1
        self.path(rank).write_bytes(pickle.dumps((99, bytes(999)))[:500])
        os.utime(self.path(rank), (self.now, self.now))

    def back(self) -> list[int]:
        """What the next start finds, if it finds that anything has to be put back."""
        versions = self.made()
        put = versions.restore()
        assert sorted(put) == (sorted(str(self.path(rank)) for rank in (0, 1)) if put else [])
        self.versions = versions
        return self.there() if put else []

    def there(self) -> list[int]:
        return [pickle.loads(self.path(rank).read_bytes())[0] for rank in (0, 1)]


@pytest.fixture(
    params=["rank%d.pkl", "mp_rank_%02d_states.pkl", "optim-%05d-of-00002.pkl", "%d.pkl"]
)
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch, request.param)


def saved_twice(scene: Scene) -> None:
    """As of the second save all of them know that it is overwritten."""
    scene.save(1)
    scene.look()
    scene.save(2)
    assert scene.look() == [2, 2]


def saved_into_new_files(scene: Scene) -> None:
    """Three times, as scripts do that remove a file or rename a new one to it."""
    for number in range(1, 4):
        for rank in (0, 1):
            scene.path(rank).unlink(missing_ok=True)
        # Lest the new ones get the numbers of the old.
        (scene.saved / f".hold{number}").touch()
        scene.save(number)
        scene.look()


def test_all_come_back_where_one_is_torn_missing_or_of_another_save(scene: Scene) -> None:
    saved_twice(scene)
    assert scene.back() == []
    scene.save(3, 0)
    scene.tear(1)
    assert scene.back() == [2, 2]
    scene.path(1).unlink()
    assert scene.back() == [2, 2]
    scene.save(3, 0)
    assert scene.back() == [2, 2]
    scene.path(0).unlink()
    scene.path(1).unlink()
    assert scene.back() == [2, 2]
    # Of saves that nobody saw: all are new, but not of one save.
    scene.save(3)
    scene.now += 9
    scene.save(4, 0)
    assert scene.back() == [2, 2]
    scene.save(3)
    assert scene.back() == []
    assert scene.there() == [3, 3]


def test_nothing_is_kept_until_every_rank_has_saved_again(scene: Scene) -> None:
    saved_twice(scene)
    scene.save(3, 0)
    assert scene.look(60) == []
    scene.save(3, 1)
    assert scene.look() == [], "it came long after the other"
    scene.save(4)
    assert scene.look() == [4, 4]
    scene.tear(0)
    assert scene.look() == []
    assert scene.back() == [4, 4]


def test_two_versions_are_kept_and_no_more(scene: Scene) -> None:
    saved_twice(scene)
    for number in range(3, 7):
        scene.save(number)
        assert scene.look() == [number] * 2
    assert len([path for path in scene.kept.rglob("*.pkl")]) == 4
    assert not [name for name in os.listdir(scene.kept) if name.startswith(".")]
    # The newer one was damaged.
    newest = max(scene.kept.iterdir(), key=lambda path: int(path.name))
    next(newest.rglob("*.pkl")).write_bytes(b"\x80\x02")
    scene.tear(1)
    assert scene.back() == [5, 5]


def test_parts_that_are_written_once_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, "model-%05d-of-00002.pkl")
    scene.save(1)
    assert scene.look(60) == []
    assert not scene.kept.exists()


def test_the_first_save_of_files_that_are_named_after_ranks_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    # While no other has saved it stands for itself.
    scene.save(1, 0)
    assert scene.look(2) == [1]
    scene.save(1, 1)
    scene.look(60)
    scene.save(2)
    assert scene.look() == [2, 2]
    assert len(list(scene.kept.rglob("*.pkl"))) in (2, 4), "the one alone is gone"
    scene.tear(0)
    assert scene.back() == [2, 2]


def test_a_part_kept_alone_is_not_put_beside_those_of_another_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    scene.save(1, 0)
    assert scene.look(2) == [1]
    scene.save(1, 1)
    scene.save(2, 1)
    scene.tear(0)
    assert scene.back() == []
    assert scene.path(0).stat().st_size == 500


def test_a_version_of_one_part_that_was_left_does_not_take_the_place_of_the_set_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a kill after all were kept and before it was removed."""
    scene = Scene(tmp_path, monkeypatch)
    saved_twice(scene)
    left = scene.kept / "1"
    shutil.rmtree(left, ignore_errors=True)
    left.mkdir()
    (left / "rank0.pkl").write_bytes(pickle.dumps((1, bytes(999))))
    scene.path(1).unlink()
    scene.tear(0)
    assert scene.back() == [2, 2]


def test_a_version_of_fewer_ranks_is_not_put_beside_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    saved_twice(scene)
    scene.save(3, 2)
    scene.tear(1)
    assert scene.back() == []


def test_files_that_new_ones_are_renamed_to_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    saved_into_new_files(scene)
    newest = max(scene.kept.iterdir(), key=lambda path: int(path.name))
    assert (newest / "rank0.pkl").stat().st_ino == scene.path(0).stat().st_ino


def test_no_version_takes_the_room_that_the_next_save_of_all_needs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_twice(scene)
    scene.save(3)
    size, before = scene.path(0).stat().st_size, sorted(os.listdir(scene.kept))

    def room(count: int) -> None:
        full = SimpleNamespace(f_bavail=count, f_frsize=1)

        def statvfs(_: object) -> SimpleNamespace:
            return full

        monkeypatch.setattr(os, "statvfs", statvfs)

    room(4 * size - 1)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            scene.look()
    assert sorted(os.listdir(scene.kept)) == before
    room(4 * size)
    assert scene.look(1) == [3, 3]


def test_what_was_put_back_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, work = tmp_path / "job", tmp_path / "work"
    for folder in (job / "logs", work):
        folder.mkdir(parents=True)
    scene = Scene(job, monkeypatch)
    store = job / "versions" / str(job / "ckpt").strip("/").replace("/", "-")
    scene.kept = store
    scene.versions = scene.made()
    saved_twice(scene)
    scene.tear(0)
    # A thread keeps versions from here on.
    monkeypatch.undo()
    told, aside = _begun(job, 2, work)
    assert told.endswith(f"all of its last complete save is back: {scene.saved}/rank*.pkl")
    assert aside == f"what was replaced is kept: {store}/replaced"
    assert scene.there() == [2, 2]
    scene.tear(1)
    for version in store.glob("[0-9]*"):
        (version / ".set.json").unlink()
        for path in version.iterdir():
            path.unlink()
    (told,) = _begun(job, 3, work)
    assert "a torn checkpoint was set aside" in told


def _begun(job: Path, attempt: int, work: Path) -> list[str]:
    progress = Progress(JobDir(str(job), attempt), worlds=frozenset({2}))
    told = progress.begin(str(work))
    assert progress.close() == []
    return told


def test_ranks_that_never_save_at_once_do_not_go_far_back(scene: Scene) -> None:
    saved_twice(scene)
    scene.save(3)
    scene.now += 9
    apart_s = 0.6 * 9
    for number in range(4, 24):
        scene.save(number, 0)
        scene.now += apart_s
        scene.save(number, 1)
        scene.now += 9
    assert scene.back() == []
    assert scene.there() == [23, 23]
