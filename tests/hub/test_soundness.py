"""Stored files that are hashed while they are read, in all the ways in which a library may read."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from jumar.hub import soundness
from jumar.hub.soundness import SET_ASIDE, Soundness

WHOLE = bytes(range(256)) * 1000
OID = hashlib.sha256(WHOLE).hexdigest()


@pytest.mark.parametrize(
    "begin",
    [
        lambda file: file.read(0),
        lambda file: file.readinto(bytearray(10)),
        lambda file: (file.read(10), file.readline()),
        lambda file: (file.read(10), file.read1(10), file.read(10)),
        lambda file: (file.read(10), file.seek(0)),
        lambda file: file.seek(7),
    ],
)
def test_a_sound_file_is_never_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Callable[[BinaryIO], object]
) -> None:
    monkeypatch.setattr(soundness, "_AT_ONCE_BYTES", 0)
    path = tmp_path / "object"
    path.write_bytes(WHOLE)
    with Soundness().open(path, OID, ValueError("damaged")) as file:
        begin(file)
        at = file.tell()
        assert file.read() == WHOLE[at:]
        assert file.read() == b""
    assert path.exists()


def test_a_damaged_one_is_before_its_last_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soundness, "_AT_ONCE_BYTES", 0)
    path = tmp_path / "object"
    path.write_bytes(WHOLE[:-1] + b"x")
    with Soundness().open(path, OID, ValueError("damaged")) as file:
        file.seek(0, 2)
        file.seek(0)
        assert file.read(0) == b""
        assert file.read(1000) == WHOLE[:1000]
        with pytest.raises(ValueError, match="damaged"):
            file.read()
    assert not path.exists()
    assert (tmp_path / f"object{SET_ASIDE}").exists()
