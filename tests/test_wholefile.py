"""Files that appear complete or not at all."""

import stat
from pathlib import Path

import pytest

from jumar.wholefile import whole_file, write_whole


def _write_half(path: Path) -> None:
    with whole_file(path) as file:
        file.write(b"half")
        raise RuntimeError("midway")


def test_nothing_of_a_write_that_fails_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(RuntimeError, match="midway"):
        _write_half(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "public")
    with whole_file(path, private=True, durable=True) as file:
        file.write("秘密".encode())
        (aside,) = (one for one in tmp_path.iterdir() if one != path)
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert path.read_text("utf-8") == "秘密"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_replace_an_existing_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole_file(path, replace=False) as file:
        file.write(b"first")
    with pytest.raises(FileExistsError), whole_file(path, replace=False) as file:
        file.write(b"second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "file", "text")
