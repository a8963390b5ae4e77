"""A tar file that installs jumar on a host without a network: wheels, the launcher, a script."""

import bz2
import gzip
import hashlib
import lzma
import re
import shlex
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from jumar import __version__
from jumar.errors import BadInput
from jumar.host.env.create import run_step
from jumar.host.env.tools import Sources, Step, download_steps
from jumar.site.copying import PROGRAM, closure
from jumar.site.one_file import build_launcher
from jumar.site.own_wheel import build_wheel

ARCHITECTURES = {"x86_64": 0x3E, "aarch64": 0xB7}
"""And what the head of a program says of them."""
_PROGRAM = re.compile(r"(?:(?P<root>.*)/)?bin/python(?P<version>3\.\d+)")
_VERSION = re.compile(r"3\.\d{1,2}", re.ASCII)
_OLDEST = (3, 11)
_COMPRESSED: dict[bytes, Callable[[Path], object]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ": lzma.open,
    b"BZh": bz2.open,
}
_ZSTD = b"\x28\xb5\x2f\xfd"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python in an archive."""

    root: str
    """Its folder in the archive."""
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the bundle is for."""

    arch: str
    python: str
    """Version of the host's Python; of the one in `archive`, if there is one."""
    archive: Path | None = None
    root: str = ""
    """Where in the archive it is."""
    extra: tuple[str, ...] = ()
    """Requirements to install besides jumar."""


def wanted_bundle(arch: str, version: str, archive: Path | None, extra: Sequence[str]) -> Wanted:
    """What was asked for, checked."""
    for one in extra:
        if one.startswith("-") or "/" in one or "\n" in one:
            raise BadInput(f"{one!r} is not a requirement", hint="for example --with torch==2.7.1")
    found = Interpreter("", version) if archive is None else look_inside(archive, arch)
    if not _VERSION.fullmatch(found.version):
        raise BadInput(f"{found.version!r} is not a version of Python", hint="for example 3.11")
    if tuple(map(int, found.version.split("."))) < _OLDEST:
        raise BadInput(
            f"jumar needs Python {'.'.join(map(str, _OLDEST))} or later, not {found.version}",
            hint="put a newer one into the bundle: --python ARCHIVE",
        )
    return Wanted(
        arch=arch, python=found.version, archive=archive, root=found.root, extra=tuple(extra)
    )


def make_bundle(
    wanted: Wanted, output: Path, environ: Mapping[str, str], progress: Progress
) -> None:
    """Write the bundle aside, then rename it."""
    name = f"jumar-{__version__}-{wanted.arch}"
    try:
        with tempfile.TemporaryDirectory(prefix=".bundle-", dir=output.parent) as made:
            folder = Path(made) / name
            _fill(folder, wanted, environ, progress)
            aside = Path(made) / "aside.tar"
            with tarfile.open(aside, "w") as archive:
                archive.add(folder, name, filter=_plain)
            aside.replace(output)
    except OSError as error:
        raise BadInput(f"cannot write {output}: {error.strerror or error}") from error


def look_inside(archive: Path, arch: str) -> Interpreter:
    """The Python in an archive, which must be for `arch`."""
    hint = "a tar file of a relocatable Python, compressed with gzip, xz, bzip2 or not at all"
    try:
        with _opened(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as members:
            for member in members:
                match = _PROGRAM.fullmatch(member.name.removeprefix("./"))
                program = members.extractfile(member) if match and member.isfile() else None
                if match is not None and program is not None:
                    _check_machine(archive, program.read(20), arch)
                    return Interpreter(match["root"] or ".", match["version"])
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        raise BadInput(f"cannot read {archive}: {error}", hint=hint) from error
    raise BadInput(f"{archive} has no bin/python3.N", hint=hint)


def _check_machine(archive: Path, head: bytes, arch: str) -> None:
    is_program = head.startswith(b"\x7fELF") and len(head) == 20
    number = struct.unpack_from("<H", head, 18)[0] if is_program else None
    if number != ARCHITECTURES[arch]:
        other = next((name for name, one in ARCHITECTURES.items() if one == number), "other hosts")
        raise BadInput(f"the Python in {archive} is for {other}, not for {arch}")


def _fill(folder: Path, wanted: Wanted, environ: Mapping[str, str], progress: Progress) -> None:
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    own = build_wheel(wheels)
    # Those that this jumar runs with here: they are known to work together.
    pins = [f"{one.name}=={one.version}" for one in closure(*PROGRAM) if one.name != "jumar"]
    requirements = ["pip", str(own), *pins, *wanted.extra]
    for step in _steps(wheels, wanted, requirements, Sources(), environ):
        run_step(step, environ, progress)
    _check_resolves(wheels, wanted, environ, progress)
    build_launcher(folder / "jumar-launch.pyz")
    shutil.copyfile(Path(__file__).with_name("install.sh"), folder / "install.sh")
    (folder / "install.sh").chmod(0o755)
    if wanted.archive is not None:
        # As a plain tar file: not every host has xz.
        with _opened(wanted.archive) as packed, (folder / "python.tar").open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 20)
    values = {
        "VERSION": __version__,
        "ARCH": wanted.arch,
        "PYTHON": wanted.python,
        "PYTHON_ROOT": wanted.root,
        "EXTRA": "\n".join(wanted.extra),
    }
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in values.items()]
    (folder / "bundle.env").write_text("".join(lines), "utf-8")
    _write_sums(folder)


def _steps(
    to: Path,
    wanted: Wanted,
    requirements: list[str],
    sources: Sources,
    environ: Mapping[str, str],
) -> tuple[Step, ...]:
    return download_steps(
        to=to,
        python=wanted.python,
        machine=wanted.arch,
        requirements=requirements,
        sources=sources,
        environ=environ,
    )


def _check_resolves(
    wheels: Path, wanted: Wanted, environ: Mapping[str, str], progress: Progress
) -> None:
    """Have pip find everything as that host will: in this folder alone, for that processor."""
    alone = Sources(no_index=True, find_links=(str(wheels),))
    with tempfile.TemporaryDirectory(prefix=".again-", dir=wheels.parent) as again:
        # What is configured here is not configured there.
        bare = {**environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}
        for step in _steps(Path(again), wanted, ["jumar", *wanted.extra], alone, environ):
            run_step(step, bare, progress)


def _write_sums(folder: Path) -> None:
    lines: list[str] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {path.relative_to(folder).as_posix()}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), "utf-8")


def _opened(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        head = file.read(6)
    if head.startswith(_ZSTD):
        raise BadInput(f"{archive} is compressed with zstd", hint=f"first: unzstd {archive}")
    for magic, opener in _COMPRESSED.items():
        if head.startswith(magic):
            return cast("IO[bytes]", opener(archive))
    return archive.open("rb")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nobody's, whoever has made it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
