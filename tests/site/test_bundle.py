"""The offline bundle: what is in it, what it refuses, and that it installs where there is no network.

With torch, in a bare system, it has not been tried."""

import gzip
import io
import lzma
import os
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.site.bundle import ARCHITECTURES, Interpreter, look_inside, wanted_bundle

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
LIMIT_S = 300


def _jumar(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=LIMIT_S)


def _unpacked(program: str, folder: Path, arch: str) -> Path:
    made = _jumar(program, "site", "bundle", "--arch", arch, "-o", str(folder / "jumar.tar"))
    assert made.returncode == 0, made.stderr[-2000:]
    assert [path.name for path in folder.iterdir()] == ["jumar.tar"]
    with tarfile.open(folder / "jumar.tar") as archive:
        assert {(member.uid, member.uname) for member in archive} == {(0, "")}
        archive.extractall(folder, filter="data")
    (top,) = (path for path in folder.iterdir() if path.is_dir())
    return top


def test_for_another_processor_every_wheel_fits_it(jumar_program: str, tmp_path: Path) -> None:
    """The command itself has pip resolve everything from the bundle alone, for that processor."""
    arch = next(name for name in ARCHITECTURES if name != platform.machine())
    top = _unpacked(jumar_program, tmp_path, arch)
    tags = [path.stem.rpartition("-")[2] for path in (top / "wheels").iterdir()]
    assert all(tag == "any" or arch in tag for tag in tags)
    assert any(arch in tag for tag in tags)
    names = {path.name for path in top.iterdir()}
    assert names == {"SHA256SUMS", "bundle.env", "install.sh", "jumar-launch.pyz", "wheels"}
    refused = subprocess.run(
        ["sh", top / "install.sh", "--to", tmp_path / "to"], capture_output=True
    )
    assert (refused.returncode, f"is for {arch}" in refused.stderr.decode()) == (2, True)
    assert not (tmp_path / "to").exists()


@pytest.mark.full
def test_it_installs_without_a_network(jumar_program: str, tmp_path: Path) -> None:
    top = _unpacked(jumar_program, tmp_path, platform.machine())
    to, path = tmp_path / "a place", tmp_path / "bin"
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    path.mkdir()

    def install() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*alone, "sh", top / "install.sh", "--to", to],
            env={"PATH": f"{path}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip

    for name in ("python3", f"python{HERE}"):
        (path / name).write_text("#!/bin/sh\necho 3.9\n")
        (path / name).chmod(0o755)
    refused = install()
    assert refused.returncode == 2
    assert f"needs Python {HERE}; this host has: 3.9" in refused.stderr
    assert not list((to / "versions").iterdir())
    (path / f"python{HERE}").unlink()
    (path / f"python{HERE}").symlink_to(getattr(sys, "_base_executable", sys.executable))
    done = install()
    assert done.returncode == 0, done.stderr
    help_ = _jumar(str(to / "bin/jumar"), "demo", "--help")
    assert (help_.returncode, "Usage" in help_.stdout) == (0, True)
    (version,) = (to / "versions").iterdir()
    assert len(list(version.rglob("jumar/examples/**/job.yaml"))) > 0
    with next((top / "wheels").glob("click-*")).open("ab") as wheel:
        wheel.write(b"x")
    damaged = install()
    assert (damaged.returncode, "is damaged" in damaged.stderr) == (2, True)
    assert list((to / "versions").iterdir()) == [version]
    shutil.rmtree(to)


def _archive(path: Path, name: str, data: bytes, packed: str = "") -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    pack = {"": bytes, "gz": gzip.compress, "xz": lzma.compress}[packed]
    path.write_bytes(pack(buffer.getvalue()))
    return path


def _program(arch: str) -> bytes:
    return b"\x7fELF".ljust(18, b"\0") + struct.pack("<H", ARCHITECTURES[arch]) + b"rest"


def test_a_python_is_looked_at_before_it_is_put_in(tmp_path: Path) -> None:
    path = tmp_path / "python.tar"
    for packed in ("", "gz", "xz"):
        _archive(path, "./python/bin/python3.12", _program("aarch64"), packed)
        assert look_inside(path, "aarch64") == Interpreter("python", "3.12")
        wanted = wanted_bundle("aarch64", "3.11", path, ["torch"])
        assert (wanted.python, wanted.root) == ("3.12", "python")
    _archive(path, "bin/python3.11", _program("x86_64"))
    assert look_inside(path, "x86_64") == Interpreter(".", "3.11")
    whole = path.read_bytes()
    for data, words in (
        (whole, "is for x86_64, not for aarch64"),
        (_archive(path, "bin/python3.11", b"#!/bin/sh").read_bytes(), "is for other hosts"),
        (
            _archive(path, "bin/python3.9", _program("aarch64")).read_bytes(),
            "3.11 or later, not 3.9",
        ),
        (_archive(path, "bin/perl", b"").read_bytes(), "has no bin/python"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (gzip.compress(whole)[:60], "cannot read"),
        (b"hello", "cannot read"),
        (b"", "cannot read|has no bin"),
    ):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=words):
            wanted_bundle("aarch64", "3.11", path, [])
    with pytest.raises(BadInput, match="cannot read"):
        look_inside(tmp_path / "none", "aarch64")


@pytest.mark.parametrize(
    ("version", "extra", "words"),
    [
        ("3.9", "torch", "3.11 or later, not 3.9"),
        ("three", "torch", "not a version"),
        ("3.11", "--index-url=x", "not a requirement"),
        ("3.11", "./local", "not a requirement"),
        ("3.11", "a\nb", "not a requirement"),
    ],
)
def test_what_cannot_be_in_a_bundle(version: str, extra: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        wanted_bundle("x86_64", version, None, [extra])
