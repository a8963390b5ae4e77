"""Versions whose files go: those of earlier epochs, those that the script writes into, and those without room."""

import errno
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.launch.test_rank_sets import Scene, saved_into_new_files

from jumar.launch.complete import TORN, Place, Versions, copies, judge, set_aside_torn
from jumar.launch.jobdir.trouble import trouble_with


def _saved(number: int) -> bytes:
    return pickle.dumps((number, bytes(999)))


def _number(path: Path) -> int:
    return pickle.loads(path.read_bytes())[0]


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.pkl"))


class _Alone:
    """A script that saves into one folder."""

    def __init__(self, folder: Path) -> None:
        self.saved, self.kept = folder / "ckpt", folder / "kept"
        self.saved.mkdir()
        self.now_s = 1000
        self.versions = self.made()

    def made(self) -> Versions:
        return Versions(Place(str(self.saved), str(self.kept)))

    def save(self, name: str, number: int, *, is_new: bool = False) -> Path:
        path = self.saved / name
        self.now_s += 1
        # While the old one is there, a new one has another inode.
        written = self.saved / ".new" if is_new else path
        written.write_bytes(_saved(number))
        os.utime(written, (self.now_s, self.now_s))
        written.replace(path)
        return path


@pytest.fixture
def alone(tmp_path: Path) -> _Alone:
    return _Alone(tmp_path)


def test_a_script_that_keeps_the_last_epoch_alone_has_two_versions_of_it(alone: _Alone) -> None:
    last = alone.saved
    for epoch in range(6):
        last = alone.save(f"epoch={epoch}.pkl", epoch)
        (alone.saved / f"epoch={epoch - 1}.pkl").unlink(missing_ok=True)
        assert alone.versions.keep(0.0)
    assert _files(alone.kept) == ["epoch=4.pkl", "epoch=5.pkl"]
    last.write_bytes(_saved(5)[:500])
    assert alone.made().restore() == [str(last)]
    assert _files(alone.saved) == ["epoch=5.pkl"]
    # One that removes the old one first, and is killed while it writes the new one.
    last.unlink()
    (alone.saved / "epoch=6.pkl").write_bytes(_saved(6)[:500])
    assert alone.made().restore() == [str(last)]
    assert _number(last) == 5


def test_sets_of_earlier_epochs_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, "epoch0_rank%d.pkl")
    for epoch in range(5):
        scene = _renamed(scene, f"epoch{epoch}_rank%d.pkl")
        scene.save(epoch)
        scene.look()
    assert _files(scene.kept) == [f"epoch{e}_rank{r}.pkl" for e in (3, 4) for r in (0, 1)]
    scene.tear(1)
    assert scene.back() == [4, 4]
    assert len(_files(scene.saved)) == 2


def _renamed(scene: Scene, name: str) -> Scene:
    for path in scene.saved.iterdir():
        path.unlink()
    scene._name = name  # pyright: ignore[reportPrivateUsage]
    return scene


def test_names_that_never_come_again_keep_no_versions(
    alone: _Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for word in ("ant", "bee", "cat", "dog"):
        for path in alone.saved.iterdir():
            path.unlink()
        alone.save(f"best-{word}.pkl", 1)
        assert alone.versions.keep(0.0)
        clock[0] += 40.0
    # Not gone for so long, a file may be about to be written again.
    assert _files(alone.kept) == ["best-bee.pkl", "best-cat.pkl", "best-dog.pkl"]


def test_a_version_that_is_another_name_of_the_file_does_not_stay_the_last(alone: _Alone) -> None:
    path = alone.saved / "last.pkl"
    for number in range(3):
        alone.save(path.name, number, is_new=True)
        assert alone.versions.keep(0.0)
    assert path.stat().st_nlink > 1
    # As torch.save does it in a job once there is no room for two.
    for number in range(3, 9):
        alone.save("last.pkl", number)
        assert alone.versions.keep(0.0)
    path.write_bytes(_saved(9)[:500])
    assert alone.made().restore() == [str(path)]
    assert _number(path) == 8


def test_a_set_that_is_other_names_of_the_files_is_no_version_of_two_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    saved_into_new_files(scene)
    assert scene.path(0).stat().st_nlink > 1
    # Killed in the first save in place: what was of save 3 is of two by now.
    scene.save(4, 0)
    assert scene.there() == [4, 3]
    assert scene.back() == [2, 2]


def test_a_set_that_is_written_in_place_later_is_kept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    saved_into_new_files(scene)
    assert scene.path(0).stat().st_nlink > 1
    for number in range(4, 7):
        scene.save(number)
        assert scene.look() == [number, number]
    scene.tear(0)
    assert scene.back() == [6, 6]


def test_what_another_job_is_writing_in_the_same_folder_stays_in_its_place(alone: _Alone) -> None:
    path, other = alone.save("others.pkl", 1), alone.saved / "first.pkl"
    ranks = [alone.saved / f"rank{rank}.pkl" for rank in (0, 1)]
    assert alone.versions.keep(0.0)
    data = _saved(2)
    with path.open("wb") as writing, other.open("wb") as first, ranks[0].open("wb") as rank:
        for file in (writing, first, rank):
            file.write(data[:500])
            file.flush()
        assert alone.made().restore() == []
        assert set_aside_torn(str(alone.saved)) == []
        writing.write(data[500:])
    assert _number(path) == 2
    # Now they are torn, and nobody writes.
    assert len(set_aside_torn(str(alone.saved))) == 2


def test_ranks_of_another_job_that_save_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    for number in (1, 2):
        scene.save(number)
        scene.look()
    data = _saved(3)
    scene.save(3, 0)
    with scene.path(1).open("wb") as writing:
        writing.write(data[:500])
        writing.flush()
        assert scene.made().restore() == []
        writing.write(data[500:])
    assert scene.there() == [3, 3]


def test_what_is_longer_than_its_version_is_kept_aside(alone: _Alone) -> None:
    """A script may add to a file, a pickle each time."""
    path = alone.save("steps.pkl", 1)
    assert alone.versions.keep(0.0)
    longer = path.read_bytes() + _saved(2) + _saved(3)[:500]
    path.write_bytes(longer)
    versions = alone.made()
    assert versions.restore() == [str(path)]
    assert versions.aside is not None
    assert (Path(versions.aside) / "steps.pkl").read_bytes() == longer


def test_a_clock_that_was_set_back_since_the_job_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    place = Place(str(scene.saved), str(scene.kept), scene.now + 3600, frozenset({2}))
    scene.versions, last = Versions(place), scene.saved / "last.pkl"
    for number in (1, 2, 3):
        scene.save(number)
        last.write_bytes(_saved(number))
        os.utime(last, (scene.now, scene.now))
        # What was there at first may be another's.
        assert scene.look() == ([] if number == 1 else [number] * 3)


def test_names_as_long_as_they_may_be(alone: _Alone) -> None:
    path = alone.save("模" * 83 + ".pkl", 1)
    assert alone.versions.keep(0.0)
    path.write_bytes(_saved(2)[:500])
    assert alone.made().restore() == [str(path)]
    assert _number(path) == 1


def _no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_a_version_gets_a_second_name(
    alone: _Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = alone.save("last.pkl", 1)
    assert alone.versions.keep(0.0)
    path.write_bytes(_saved(2)[:500])
    with monkeypatch.context() as full:
        full.setattr(copies, "_fill", _no_room)
        assert alone.made().restore() == [str(path)]
    assert _number(path) == 1
    assert not list(alone.saved.glob(".*"))


def test_on_a_full_disk_a_set_gets_second_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    for number in (1, 2):
        scene.save(number)
        scene.look()
    scene.tear(1)
    with monkeypatch.context() as full:
        full.setattr(copies, "_fill", _no_room)
        assert scene.back() == [2, 2]


@pytest.mark.parametrize("is_enough", [True, False])
def test_a_torn_file_makes_room_where_versions_lie_elsewhere(
    alone: _Alone, monkeypatch: pytest.MonkeyPatch, is_enough: bool
) -> None:
    path = alone.save("last.pkl", 1)
    assert alone.versions.keep(0.0)
    torn = _saved(2)[:900]
    path.write_bytes(torn)
    really: Callable[..., None] = copies._fill  # pyright: ignore[reportPrivateUsage]

    def fill(*words: Any) -> None:
        if path.stat().st_size > 64 or not is_enough:
            _no_room()
        really(*words)

    def elsewhere(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(copies, "_fill", fill)
    monkeypatch.setattr(os, "link", elsewhere)
    if is_enough:
        assert alone.made().restore() == [str(path)]
        assert _number(path) == 1
        return
    with pytest.raises(OSError, match="No space") as error:
        alone.made().restore()
    assert trouble_with(error.value, "/").values == {"folder": str(alone.saved)}
    assert torn.startswith(path.read_bytes())
    assert judge(str(path)).state == TORN


def test_many_files_take_no_time_of_each_other_s(alone: _Alone) -> None:
    for word in range(1500):
        (alone.saved / f"{''.join(chr(97 + int(c)) for c in str(word))}.pkl").write_bytes(
            b"\x80\x02N."
        )
    looks = [0]
    listed = copies.files

    def counted(folder: str) -> Any:
        looks[0] += 1
        return listed(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "files", counted)
        patch.setattr(os, "fsync", str)
        assert len(alone.versions.keep(0.0)) == 1500
    assert looks[0] < 10
