"""Archives of strangers: unpacked whole, or refused with nothing left behind."""

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.store.archive import Limits, UnpackReport, unpack
from jumar.store.base import Store
from jumar.store.credentials import StoreConfig
from jumar.store.places import open_place


@pytest.fixture
def config(folder_config: StoreConfig) -> StoreConfig:
    return folder_config


@pytest.fixture
def lab(config: StoreConfig) -> Store:
    return open_place("obs://lab/", config).store


def unpacked(name: str, config: StoreConfig, limits: Limits | None = None) -> UnpackReport:
    source = open_place(f"obs://lab/{name}", config)
    return unpack(source, open_place("obs://lab/to/", config), limits or Limits())


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def file(name: str) -> tarfile.TarInfo:
    return tarfile.TarInfo(name)


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def odd(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("good", b"x")
        info = zipfile.ZipInfo("out")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc")
    return out.getvalue()


def patched_zip(at: int, value: int) -> bytes:
    """A zip of two files, with another number in the headers of the second: flags, or the method."""
    data = bytearray(zipped({"good": b"x" * 99, "second": b"y" * 99}))
    local, central = data.rindex(b"PK\x03\x04"), data.rindex(b"PK\x01\x02")
    struct.pack_into("<H", data, local + at, value)
    struct.pack_into("<H", data, central + at + 2, value)
    return bytes(data)


def damaged(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes(value ^ 0xFF for value in data[at : at + 40]) + data[at + 40 :]


NOISE = bytes((n * n * 31 + n // 7) % 251 for n in range(50_000))


def tar_with_header_of(size: int) -> bytes:
    """A tar whose first header says that a list of long names follows, of this size."""
    return odd_sized("names", tarfile.XHDTYPE, size).tobuf(tarfile.GNU_FORMAT) + bytes(10240)


def odd_sized(name: str, kind: bytes, size: int) -> tarfile.TarInfo:
    info = odd(name, kind)
    info.size = size
    return info


BAD: dict[str, Callable[[], bytes]] = {
    "up.zip": lambda: zipped({"good": b"x", "../escape": b"x"}),
    "lead.zip": lambda: zipped({"/etc/cron.d/x": b"x"}),
    "bomb.zip": lambda: zipped({"zeros": bytes(150_000_000)}),
    "slash.zip": lambda: zipped({"good": b"x", "..\\..\\escape": b"x"}),
    "link.zip": zip_link,
    "secret.zip": lambda: patched_zip(6, 1),
    "method.zip": lambda: patched_zip(8, 9),
    "both.zip": lambda: zipped({"a": b"x", "a/b": b"x"}),
    "bits.zip": lambda: damaged(zipped({"noise": NOISE})),
    "broken.zip": lambda: b"PK\x03\x04 and nothing",
    "up.tar": lambda: tarred((file("a/../../escape"), b"x")),
    "lead.tar": lambda: tarred((file("/etc/cron.d/x"), b"x")),
    "soft.tar": lambda: tarred((odd("out", tarfile.SYMTYPE, "/etc"), b""), (file("out/x"), b"x")),
    "hard.tar": lambda: tarred((file("a"), b"x"), (odd("b", tarfile.LNKTYPE, "/etc/group"), b"")),
    "device.tar": lambda: tarred((odd("null", tarfile.CHRTYPE), b"")),
    "pipe.tar": lambda: tarred((odd("pipe", tarfile.FIFOTYPE), b"")),
    "header.tar.gz": lambda: gzip.compress(tar_with_header_of(3_000_000_000)),
    "bomb.tar.gz": lambda: gzip.compress(tarred((file("zeros"), bytes(150_000_000))), 1),
    "bits.tar.gz": lambda: damaged(gzip.compress(tarred((file("noise"), NOISE)))),
    "bits.tar.bz2": lambda: damaged(bz2.compress(tarred((file("noise"), NOISE)))),
    "cut.tar.gz": lambda: gzip.compress(tarred((file("noise"), NOISE)))[:-900],
    "broken.tar": lambda: b"nothing",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_archives_are_refused_and_leave_nothing(
    tmp_path: Path, config: StoreConfig, lab: Store, name: str
) -> None:
    lab.write(name, BAD[name]())
    with pytest.raises(BadInput):
        unpacked(name, config)
    assert [entry.key for entry in lab.walk()] == [name]
    assert not any(path.name == "escape" for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["many.zip", "many.tar.gz"])
def test_more_files_than_fit_are_refused(config: StoreConfig, lab: Store, name: str) -> None:
    if name.endswith(".zip"):
        lab.write(name, zipped({f"{n}": b"" for n in range(50)}))
    else:
        members = [(file(f"{n}"), b"") for n in range(50)]
        lab.write(name, gzip.compress(tarred(*members)))
    with pytest.raises(BadInput, match="more than the allowed 40 files"):
        unpacked(name, config, Limits(free_files=40, bytes_per_file=10_000))
    assert [entry.key for entry in lab.walk()] == [name]
    assert unpacked(name, config).files == 50


def zip_named(name: bytes, system: int) -> bytes:
    """A zip of one file whose name no flag says is UTF-8, made on this system: 0 is Windows, 3 Unix."""
    data = bytearray(zipped({"X" * len(name): b"hi"}).replace(b"X" * len(name), name))
    data[data.rindex(b"PK\x01\x02") + 5] = system
    return bytes(data)


@pytest.mark.parametrize(
    ("raw", "system", "name"),
    [
        ("数据.txt".encode("gbk"), 0, "数据.txt"),
        # Bytes that are also UTF-8, of letters that stand in no name.
        ("图片.jpg".encode("gbk"), 0, "图片.jpg"),
        ("图片.jpg".encode(), 0, "图片.jpg"),
        ("图片.jpg".encode(), 3, "图片.jpg"),
        ("é.jpg".encode(), 3, "é.jpg"),
        ("caf\x82.jpg".encode("latin-1"), 0, "café.jpg"),
        (b"./a.jpg", 3, "a.jpg"),
    ],
)
def test_names_are_read_as_they_were_packed(
    config: StoreConfig, lab: Store, raw: bytes, system: int, name: str
) -> None:
    lab.write("named.zip", zip_named(raw, system))
    assert unpacked("named.zip", config).files == 1
    assert lab.read(f"to/{name}") == b"hi"


def test_names_of_a_tar_may_be_gbk(config: StoreConfig, lab: Store) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT, encoding="gbk") as archive:
        archive.addfile(file("数据/图片.jpg"))
    lab.write("gbk.tar", out.getvalue())
    unpacked("gbk.tar", config)
    assert lab.stat("to/数据/图片.jpg").size == 0


def test_backslashes_are_folders_and_litter_is_left_out(config: StoreConfig, lab: Store) -> None:
    members = {"cat\\图.jpg": b"a", "__MACOSX/cat/._1.jpg": b"b", "cat/.DS_Store": b"c"}
    lab.write("windows.zip", zipped(members))
    assert unpacked("windows.zip", config).files == 1
    assert [entry.key for entry in lab.walk("to/")] == ["to/cat/图.jpg"]


@pytest.mark.full
def test_large_members_and_all_kinds_of_tar(config: StoreConfig, lab: Store) -> None:
    members = [(file("./a/large"), NOISE * 200), (file("b" * 150), b"b")]
    packers = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    for ending, pack in packers.items():
        lab.write(f"set.tar{ending}", pack(tarred(*members)))
        assert unpacked(f"set.tar{ending}", config) == UnpackReport(files=2, bytes=10_000_001)
        assert lab.read("to/a/large") == NOISE * 200
