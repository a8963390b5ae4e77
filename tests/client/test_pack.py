import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from jumar.client.pack import Package, format_size, pack
from jumar.errors import BadInput


def names(package: Package) -> list[str]:
    with tarfile.open(fileobj=package.file) as archive:
        return archive.getnames()


def fill(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "train.py").write_text("print('hi')\n")
    (folder / "sub" / "数据.txt").write_text("x" * 300)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def test_the_same_folder_gives_the_same_digest(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "one"), fill(tmp_path / "two")
    os.utime(two / "train.py", (1, 1))
    (two / "train.py").chmod(0o600)
    with pack(one).file as first, pack(two).file as second:
        assert first.read() == second.read()


def test_digest_and_size_are_those_of_the_bytes(tmp_path: Path) -> None:
    package = pack(fill(tmp_path / "code"))
    with package.file:
        data = package.file.read()
    assert package.size == len(data)
    assert package.digest == hashlib.sha256(data).hexdigest()


def digest_of(folder: Path) -> str:
    package = pack(folder)
    package.file.close()
    return package.digest


def test_a_changed_byte_changes_the_digest(tmp_path: Path) -> None:
    code = fill(tmp_path / "code")
    before = digest_of(code)
    (code / "train.py").write_text("print('ho')\n")
    assert digest_of(code) != before


def test_modes_and_content_come_out_again(tmp_path: Path) -> None:
    package = pack(fill(tmp_path / "code"))
    with package.file, tarfile.open(fileobj=package.file) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out/sub/数据.txt").read_text() == "x" * 300
    assert os.access(tmp_path / "out/run.sh", os.X_OK)
    assert not os.access(tmp_path / "out/train.py", os.X_OK)


def test_links_stay_only_if_they_stay_inside(tmp_path: Path) -> None:
    code = fill(tmp_path / "code")
    (code / "inside").symlink_to("sub/数据.txt")
    (code / "sub" / "absolute").symlink_to(code / "train.py")
    (code / "out").symlink_to("../secret")
    (code / "etc").symlink_to("/etc")
    (code / "hop").symlink_to("etc/passwd")
    os.mkfifo(code / "pipe")
    package = pack(code)
    assert [entry.partition(" ")[0] for entry in package.listing.left_out] == [
        "etc",
        "hop",
        "out",
        "pipe",
    ]
    with package.file, tarfile.open(fileobj=package.file) as archive:
        assert archive.getmember("inside").linkname == "sub/数据.txt"
        assert archive.getmember("sub/absolute").linkname == "../train.py"
        assert "etc" not in archive.getnames()


def test_what_is_ignored_does_not_travel(tmp_path: Path) -> None:
    code = fill(tmp_path / "code")
    for hidden in (".git/config", "__pycache__/x.pyc", ".venv/bin/python", "ckpt/big.pt"):
        (code / hidden).parent.mkdir(parents=True, exist_ok=True)
        (code / hidden).write_text("x")
    (code / ".jumarignore").write_text("ckpt/\n")
    package = pack(code)
    with package.file:
        assert names(package) == [".jumarignore", "run.sh", "sub", "sub/数据.txt", "train.py"]


def test_too_much_names_the_biggest(tmp_path: Path) -> None:
    code = fill(tmp_path / "code")
    for name, size in (("small", 100), ("weights", 5000), ("data", 3000)):
        (code / name).mkdir()
        (code / name / "file").write_bytes(b"0" * size)
    with pytest.raises(BadInput, match=r"biggest: weights \(4.9 KiB\), data \(2.9 KiB\)") as caught:
        pack(code, most_bytes=4000)
    assert ".jumarignore" in str(caught.value.hint)


def test_a_sparse_giant_is_refused(tmp_path: Path) -> None:
    code = fill(tmp_path / "code")
    with (code / "huge.bin").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(BadInput, match=r"huge\.bin"):
        pack(code)


@pytest.mark.parametrize(("place", "said"), [("missing", "there is no folder"), ("file", "is not")])
def test_a_folder_that_is_none(tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=said):
        pack(tmp_path / place)


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (2048, "2.0 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text
