"""Versions of checkpoints, when whoever keeps them is killed at any line, or the disk is full at any call."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jumar.launch.complete import COMPLETE, Place, Versions, judge, set_aside_torn

_ROOM = os.path.dirname(sys.modules[Versions.__module__].__file__ or "")
_SAVED = [b"\x80\x02X\x04\x00\x00\x00" + b"%04d" % number + b"." for number in range(4)]
"""Complete pickles, of one length each."""
_MOST = 4000
_STEP = 7


class Scene:
    """A script that overwrites its only file, which was kept twice before."""

    def __init__(self, folder: Path) -> None:
        self.saved, self.kept = folder / "ckpt/last.pkl", folder / "kept"
        self.saved.parent.mkdir(parents=True)
        self.versions = self.made()
        for number in (0, 1):
            self.save(number)
            assert self.versions.keep(0.0)

    def made(self) -> Versions:
        return Versions(Place(str(self.saved.parent), str(self.kept)))

    def save(self, number: int) -> None:
        self.saved.write_bytes(_SAVED[number])
        os.utime(self.saved, (number + 1, number + 1))

    def tear(self) -> None:
        self.saved.write_bytes(_SAVED[3][:-1])

    def comes_back(self) -> int:
        """Which one the next attempt finds, after the script was killed while it saved."""
        self.tear()
        self.made().restore()
        set_aside_torn(str(self.saved.parent))
        assert judge(str(self.saved)).state == COMPLETE
        left = [path for path in self.kept.rglob(".*") if path.name != ".set.json"]
        assert not left, left
        empty = [path for path in self.kept.rglob("*") if path.is_dir() and not os.listdir(path)]
        assert not empty, empty
        return _SAVED.index(self.saved.read_bytes())


class SetScene(Scene):
    """Two ranks that overwrite a file each. What comes back is of one save."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "ckpt" / f"rank{rank}.pkl" for rank in (0, 1)]
        super().__init__(folder)

    def save(self, number: int) -> None:
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(_SAVED[number])
            os.utime(file, (number + 1, number + 1))

    def tear(self) -> None:
        self.files[0].write_bytes(_SAVED[3])
        self.files[1].write_bytes(_SAVED[3][:-1])

    def comes_back(self) -> int:
        self.saved = self.files[0]
        self.made().restore()
        found = {file.read_bytes() for file in self.files}
        assert len(found & set(_SAVED[:3])) == len(found) == 1, found
        number = super().comes_back()
        assert self.files[1].read_bytes() == _SAVED[number], "of two saves"
        return number


_SCENES = [Scene, SetScene]


def _keep(scene: Scene) -> None:
    scene.save(2)
    scene.versions.keep(0.0)


def _restore(scene: Scene) -> None:
    scene.tear()
    scene.made().restore()
    set_aside_torn(str(scene.saved.parent))


def _killed_at(line: int, act: Callable[[Scene], None], scene: Scene) -> bool:
    """Whether it was killed: at the first line after the last one, it has come to its end."""
    pid = os.fork()
    if pid == 0:
        left = [line]

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if not frame.f_code.co_filename.startswith(_ROOM):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            act(scene)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("made", _SCENES)
@pytest.mark.parametrize("act", [_keep, _restore])
def test_a_complete_one_comes_back_whatever_line_was_the_last(
    act: Callable[[Scene], None], made: type[Scene], tmp_path: Path
) -> None:
    for line in range(0, _MOST, _STEP):
        scene = made(tmp_path / str(line))
        was_killed = _killed_at(line, act, scene)
        assert scene.comes_back() in (1, 2), line
        if not was_killed:
            assert line > 30
            return
    raise AssertionError("it has more lines than were tried")


def _full_after(left: list[int], really: Callable[..., Any]) -> Callable[..., Any]:
    def call(*words: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(*words, **named)

    return call


_CALLS = ("open", "mkdir", "link", "replace", "fsync", "utime", "fchmod", "rename")


@pytest.mark.parametrize("made", _SCENES)
@pytest.mark.parametrize("act", [_keep, _restore])
def test_a_full_disk_costs_at_most_the_newest_version(
    act: Callable[[Scene], None], made: type[Scene], tmp_path: Path
) -> None:
    for number in range(_MOST):
        scene = made(tmp_path / str(number))
        left = [number]
        with pytest.MonkeyPatch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, _full_after(left, getattr(os, name)))
            try:
                act(scene)
            except OSError as error:
                assert error.errno == errno.ENOSPC
        assert scene.comes_back() in (1, 2), number
        if left[0] >= 0:
            assert number > 5
            return
    raise AssertionError("it has more calls than were tried")


@pytest.mark.parametrize("made", _SCENES)
def test_what_finds_no_room_leaves_nothing_however_often_it_is_tried(
    made: type[Scene], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = made(tmp_path)
    scene.save(2)

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    before = sorted(os.listdir(scene.kept))
    for _ in range(5):
        with pytest.raises(OSError, match="No space"):
            scene.versions.keep(0.0)
    assert sorted(os.listdir(scene.kept)) == before


def test_a_leftover_folder_that_stays_keeps_no_version_from_coming_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    (scene.kept / "7" / "sub").mkdir(parents=True)
    scene.tear()

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "rmdir", refused)
    assert scene.made().restore() == [str(scene.saved)]
    assert scene.saved.read_bytes() == _SAVED[1]
