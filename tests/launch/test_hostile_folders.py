"""Folders of checkpoints that take whoever looks into them long, or lead them astray."""

import os
import pickle
import subprocess
import time
import tracemalloc
from pathlib import Path

import pytest

from jumar.launch.complete import (
    COMPLETE,
    TORN,
    UNKNOWN,
    Place,
    Versions,
    judge,
    newest_complete,
    one_file,
    search,
    set_aside_torn,
    survey,
)

_SLOW = b"\x80\x02" + b"N0" * 300_000 + b"N."
"""A pickle of many operations."""
_WHOLE = b"\x80\x02N."


def test_many_pickles_that_take_long_hold_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_S", 0.3)
    for number in range(100):
        path = tmp_path / f"{number:03}.pkl"
        path.write_bytes(_SLOW)
        os.utime(path, (number, number))
    newest = tmp_path / "last.pkl"
    newest.write_bytes(_WHOLE)
    began = time.process_time()
    found = survey(str(tmp_path))
    assert newest_complete(str(tmp_path)) == str(newest)
    assert not Versions(Place(str(tmp_path), str(tmp_path / "kept"))).restore()
    assert time.process_time() - began < 5
    assert [one.path for one in found[:1]] == [str(newest)]
    assert len(found) == 101
    # Nothing is said of what nobody looked into: it is not set aside.
    assert found[-1].verdict.state == UNKNOWN


def test_a_torn_file_comes_back_where_all_others_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_S", 0.3)
    saved, kept = tmp_path / "ckpt", tmp_path / "kept"
    (kept / "1").mkdir(parents=True)
    (kept / "1" / "last.pkl").write_bytes(_WHOLE)
    saved.mkdir()
    for number in range(30):
        (saved / f"{number:03}.pkl").write_bytes(_SLOW)
    (saved / "last.pkl").write_bytes(_WHOLE[:-1])
    assert Versions(Place(str(saved), str(kept))).restore() == [str(saved / "last.pkl")]
    assert (saved / "last.pkl").read_bytes() == _WHOLE
    # Whether something newer is there, nobody knows then.
    (saved / "last.pkl").unlink()
    assert Versions(Place(str(saved), str(kept))).restore() == []


def test_digits_that_are_no_numbers_are_names(tmp_path: Path) -> None:
    saved, kept = tmp_path / "ckpt", tmp_path / "kept"
    (kept / "²").mkdir(parents=True)
    (saved / "iter_²").mkdir(parents=True)
    (saved / "iter_²" / "model.pt").write_bytes(b"")
    (saved / "latest_checkpointed_iteration.txt").write_text("²")
    assert Versions(Place(str(saved), str(kept))).restore() == []
    assert [one.path for one in set_aside_torn(str(saved))]


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only root reads it")
def test_a_file_of_the_kernel_that_says_nothing_is_torn(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    # It is plain by what the system says of it, and reading it does not wait.
    for name in ("trainer_state.json", "model.safetensors.index.json"):
        (folder / name).symlink_to("/proc/kmsg")
    assert judge(str(folder)).state == TORN


def test_a_version_goes_through_no_link_of_the_job_s(tmp_path: Path) -> None:
    """What was kept is the job's own, and so is the way back to it."""
    saved, kept, away = tmp_path / "ckpt", tmp_path / "kept", tmp_path / "away"
    (saved / "sub").mkdir(parents=True)
    away.mkdir()
    (saved / "sub/last.pth").write_bytes(_WHOLE)
    versions = Versions(Place(str(saved), str(kept)))
    assert versions.keep(0.0)
    (saved / "sub").rename(tmp_path / "was")
    (saved / "sub").symlink_to(away)
    assert versions.restore() == []
    assert os.listdir(away) == []


def test_no_version_is_made_of_what_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is replaced by a link to another while its files are being looked at."""
    saved, kept, away = tmp_path / "ckpt", tmp_path / "kept", tmp_path / "away"
    for folder in (saved / "sub", away):
        folder.mkdir(parents=True)
        (folder / "last.pth").write_bytes(_WHOLE)
    versions = Versions(Place(str(saved), str(kept)))
    really = search.parts

    def swap(path: str) -> frozenset[str] | None:
        (saved / "sub").rename(tmp_path / "was")
        (saved / "sub").symlink_to(away)
        return really(path)

    os.utime(away / "last.pth", (1, 1))
    os.utime(saved / "sub/last.pth", (1, 1))
    monkeypatch.setattr(search, "parts", swap)
    assert versions.keep(0.0) == []
    # Now all of it is seen through the link, and one file follows the other.
    monkeypatch.setattr(search, "parts", really)

    def through_the_link(_: str) -> list[str]:
        return [str(saved / "sub/last.pth")]

    monkeypatch.setattr(search, "files", through_the_link)
    os.utime(away / "last.pth", (2, 2))
    assert versions.keep(0.0) == []
    assert not list(kept.rglob("*.pth"))


def test_a_folder_that_has_become_a_link_is_not_looked_into(tmp_path: Path) -> None:
    saved, away = tmp_path / "ckpt", tmp_path / "away"
    away.mkdir()
    (away / "secret.pkl").write_bytes(_WHOLE)
    saved.symlink_to(away)
    assert Versions(Place(str(saved), str(tmp_path / "kept"))).keep(0.0) == []
    assert not list(tmp_path.rglob("kept/*"))


def test_torn_files_are_moved_through_no_link(tmp_path: Path) -> None:
    saved, away = tmp_path / "ckpt", tmp_path / "away"
    saved.mkdir()
    away.mkdir()
    (saved / ".torn").symlink_to(away)
    (saved / "last.pth").write_bytes(_WHOLE[:-1])
    assert [one.now for one in set_aside_torn(str(saved))] == [str(saved / ".torn/1-last.pth")]
    assert os.listdir(away) == []


@pytest.mark.parametrize("name", ["step_1", ".torn"])
def test_folders_deeper_than_calls_may_be(name: str, tmp_path: Path) -> None:
    """A program whose stack is full would end the job as if it had been killed."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "model.pt").write_bytes(_WHOLE)
    (tmp_path / "last.pkl").write_bytes(_WHOLE)
    deep = os.open(tmp_path / name, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=deep)
        above, deep = deep, os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(above)
    os.close(deep)
    try:
        assert set_aside_torn(str(tmp_path)) == []
        assert newest_complete(str(tmp_path))
        Versions(Place(str(tmp_path), str(tmp_path / name))).restore()
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / name)], check=True)


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


_NUMBER = b"\xff" * 8 + b"\x7f"
_NAME = _field(1, b"w")
_FILES = {
    "dims.ckpt": _field(1, _NAME + _field(2, _field(1, _NUMBER * 100_000) + _field(2, b"Int8"))),
    "fields.ckpt": _field(1, _NAME + b"\x28\x00" * 5_000_000),
    "huge.ckpt": _field(1, _NAME + _field(2, _field(1, _NUMBER * 60) + _field(2, b"Int8"))),
}
"""Of MindSpore's kind: too many dimensions, too much that says nothing, and a product without end."""
_DOUBLED = {
    "names": b"\x80\x04X\x60\xea\0\0" + b"a" * 60_000 + b"\x8c\x01b\x93" + b"2\x93" * 40 + b".",
    "words": b"\x80\x04\x8c\x01a" + b"2\x86" * 40 + b"\x8c\x01b\x93.",
}
"""What doubles with each of its bytes."""


@pytest.mark.parametrize("name", _FILES)
def test_files_that_would_be_read_for_hours(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(_FILES[name])
    began = time.process_time()
    assert judge(str(tmp_path / name)).state != COMPLETE
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", _DOUBLED)
def test_pickles_that_would_fill_the_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(_DOUBLED[name])
    tracemalloc.start()
    try:
        assert judge(str(tmp_path)).state == UNKNOWN
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_state_that_many_values_have_in_common_is_not_searched_for_each(tmp_path: Path) -> None:
    place = {"relative_path": "a", "offset": 0, "length": 0, **dict.fromkeys(range(50_000))}
    value = b"N)R" + pickle.dumps(place, 2)[2:-1] + b"br\xff\xff\0\0"
    stored = b"N)R}X\x0c\0\0\0storage_data}(" + b"Nj\xff\xff\0\0" * 50_000 + b"usb."
    (tmp_path / ".metadata").write_bytes(b"\x80\x02" + value + stored)
    began = time.process_time()
    assert judge(str(tmp_path)).state == UNKNOWN
    assert time.process_time() - began < 10


def test_an_error_that_no_reader_expects_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: str) -> None:
        raise OverflowError("of a number that a job made up")

    monkeypatch.setattr(one_file, "check", fails)
    (tmp_path / "a.pkl").write_bytes(_WHOLE)
    assert judge(str(tmp_path / "a.pkl")).state == UNKNOWN
