"""Stored files that are hashed while they are read, in all the ways in which a library may read."""

import hashlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import cast

import pytest

from jumar.hub import soundness
from jumar.hub.soundness import SET_ASIDE, Soundness

WHOLE = bytes(range(256)) * 1000
OID = hashlib.sha256(WHOLE).hexdigest()


WAYS: dict[str, Callable[[BufferedReader], object]] = {
    "nothing": lambda file: file.read(0),
    "into": lambda file: file.readinto(bytearray(10)),
    "lines": lambda file: (file.read(10), file.readline()),
    "what has come": lambda file: (file.read(10), file.read1(10), file.read(10)),
    "again": lambda file: (file.read(10), file.seek(0)),
    "later": lambda file: file.seek(7),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_sound_file_is_never_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(soundness, "_AT_ONCE_BYTES", 0)
    path = tmp_path / "object"
    path.write_bytes(WHOLE)
    with Soundness().open(path, OID, ValueError("damaged")) as file:
        WAYS[way](cast("BufferedReader", file))
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
