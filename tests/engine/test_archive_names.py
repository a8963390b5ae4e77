"""The names in uploaded code: read once, in a child that cannot take the server with it."""

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tars import tar_of

from jumar.engine import archive_names
from jumar.engine.archive_names import BadArchive, index_path, keep_names, names_of
from jumar.errors import BadInput
from jumar.jobs.archives import CodeArchives


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The archives that a child was started for."""
    asked: list[Path] = []
    really = archive_names._read_in_child  # pyright: ignore[reportPrivateUsage] - counted, not changed

    def counted(archive: Path, target: Path) -> None:
        asked.append(archive)
        really(archive, target)

    monkeypatch.setattr(archive_names, "_read_in_child", counted)
    return asked


def test_files_and_the_folders_above_them_are_found(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar_of(src__deep__train="", 模型=""))
    names = names_of(archive)
    for there in ("src/deep/train.py", "./src/deep", "src//", "src", "模型.py"):
        assert there in names
    for missing in ("train.py", "src/deep/train", "..", "/src"):
        assert missing not in names


def test_an_archive_of_an_earlier_version_is_read_once_however_many_ask(
    tmp_path: Path, children: list[Path]
) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar_of(train=""))
    seen: list[bool] = []
    threads = [
        threading.Thread(target=lambda: seen.append("train.py" in names_of(archive)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8
    assert children == [archive]


def test_a_bad_archive_of_an_earlier_version_is_read_once(
    tmp_path: Path, children: list[Path]
) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(b"this is not a tar file")
    for _ in range(3):
        with pytest.raises(BadArchive, match="cannot be read"):
            names_of(archive)
    assert children == [archive]


def test_code_is_looked_into_at_its_upload_and_never_again(
    tmp_path: Path, children: list[Path]
) -> None:
    data = tar_of(train="")
    digest = hashlib.sha256(data).hexdigest()
    archives = CodeArchives(tmp_path)
    archives.receive(digest, [data])
    assert len(children) == 1
    for _ in range(4):
        assert "train.py" in names_of(archives.find(digest))
    archives.receive(digest, [data])
    assert len(children) == 1


def test_an_upload_that_is_no_tar_file_is_not_kept(tmp_path: Path) -> None:
    data = b"this is not a tar file"
    digest = hashlib.sha256(data).hexdigest()
    with pytest.raises(BadInput, match="cannot be read") as refused:
        CodeArchives(tmp_path).receive(digest, [data])
    assert refused.value.status == 422
    assert os.listdir(tmp_path) == []


def test_a_hundred_thousand_names_are_kept_in_a_few_bytes_each(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    header = tarfile.TarInfo("x")
    with archive.open("wb") as file:
        for number in range(100_000):
            header.name = f"data/{number // 1000}/{number}.bin"
            file.write(header.tobuf(tarfile.USTAR_FORMAT))
        file.write(bytes(1024))
    names = names_of(archive)
    assert "data/99/99999.bin" in names
    assert index_path(archive).stat().st_size < 1_000_000


def _cut() -> bytes:
    return tar_of(train="x" * 100_000)[:50_000]


def _outside() -> bytes:
    return tar_of(**{"..__train": ""})


def _long_name() -> bytes:
    return tar_of(**{"x" * 5000: ""})


def _large_header() -> bytes:
    """A header that says it is followed by two gigabytes of names."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 2 << 30
    made = io.BytesIO()
    made.write(info.tobuf(tarfile.USTAR_FORMAT))
    return made.getvalue()


@pytest.mark.parametrize("make", [_cut, _outside, _long_name, _large_header, bytes])
def test_what_is_no_whole_tar_file_is_refused_and_leaves_nothing(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    archive, index = tmp_path / "a.tar", tmp_path / "a.names"
    archive.write_bytes(make())
    with pytest.raises(BadArchive):
        keep_names(archive, index)
    assert os.listdir(tmp_path) == ["a.tar"]


def test_more_entries_than_code_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_names, "MOST_ENTRIES", 2)
    archive, target = tmp_path / "a.tar", tmp_path / "a.names"
    archive.write_bytes(tar_of(a="", b="", c=""))
    with pytest.raises(tarfile.TarError, match="more than 2 files"):
        archive_names._hashes(str(archive))  # pyright: ignore[reportPrivateUsage] - what the child runs
    assert not target.exists()


def test_headers_that_need_too_much_memory_end_the_child_only(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    with archive.open("wb") as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        # A sparse file: large to read, nothing on the disk.
        file.truncate((1 << 30) + 2048)
    with pytest.raises(BadArchive, match="MiB to read"):
        keep_names(archive, tmp_path / "a.names")
