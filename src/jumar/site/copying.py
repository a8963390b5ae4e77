"""The program and its interpreter, copied to a folder that only root can change.

Root must run nothing that anybody else could write, and users must be able to read all of it: neither
holds for an environment in somebody's home."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import jumar
from jumar.errors import HomeUnusable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Of the standard library, what a server has no use for: two thirds of its size.
_LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages",
    "dist-packages", "config-*", "__pycache__",
)  # fmt: skip
PROGRAM = ("jumar", "asyncssh")
"""What a site's server may import: nothing can be added to the copy later."""
_COMPILED = shutil.ignore_patterns("__pycache__")


def copy_program(target: Path) -> Path:
    """Copy this interpreter and this jumar with all it needs; gives the copied interpreter."""
    aside = target.with_name(f".{target.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _copy_interpreter(aside)
        packages = _packages_folder(aside)
        for found in closure(*PROGRAM):
            _copy_distribution(found, packages)
        _copy_weed(aside)
        command = aside / "bin" / "jumar"
        command.write_text(f"#!{target}/bin/python3 -I\nfrom jumar.cli import main\n\nmain()\n")
        command.chmod(0o755)
        # Whatever the umask was: everybody runs it, root alone writes it.
        subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(aside)], check=True, timeout=120)
        subprocess.run(["chown", "-R", "0:0", str(aside)], check=True, timeout=120)
        _check_imports(aside)
        if target.exists():
            shutil.rmtree(target)
        aside.rename(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise HomeUnusable(f"cannot copy the program to {target}: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target / "bin" / "python3"


def _copy_interpreter(target: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "bin").mkdir(parents=True)
    program = target / "bin" / "python3"
    shutil.copy(os.path.realpath(sys.executable), program)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, target / "lib" / version, ignore=_LEFT_OUT, symlinks=False)
    shared = str(sysconfig.get_config_var("INSTSONAME"))
    place = Path(str(sysconfig.get_config_var("LIBDIR")), shared)
    if shared.startswith("libpython") and ".so" in shared and place.is_file():
        shutil.copy(place, target / "lib" / shared)
        _find_library_beside(program, place.parent)


def _find_library_beside(program: Path, folder: Path) -> None:
    """Have an interpreter that names the folder of its library look for it beside itself.

    The name is in its table of strings, where a shorter one has room."""
    named, beside = os.fsencode(folder) + b"\0", b"$ORIGIN/../lib\0"
    data = program.read_bytes()
    if named in data and len(beside) <= len(named):
        program.write_bytes(data.replace(named, beside.ljust(len(named), b"\0")))


def _ask(target: Path, words: str) -> str:
    asked = subprocess.run(
        [str(target / "bin" / "python3"), "-I", "-c", words],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if asked.returncode:
        raise HomeUnusable(f"the copied interpreter does not run: {asked.stderr.strip()[-400:]}")
    return asked.stdout.strip()


def _packages_folder(target: Path) -> Path:
    """Where the copied interpreter looks for packages: systems differ."""
    folder = Path(_ask(target, "import site; print(site.getsitepackages()[0])"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _copy_weed(target: Path) -> None:
    """SeaweedFS, which the S3 door needs, where it is installed with this jumar."""
    found = Path(sysconfig.get_path("scripts"), "weed")
    if found.is_file():
        place = Path(_ask(target, "import sysconfig; print(sysconfig.get_path('scripts'))"))
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(found, place / "weed")


def _check_imports(target: Path) -> None:
    """As root, so that what is compiled is kept: users cannot write here."""
    modules = "jumar.cli.app, jumar.server.process.serving, jumar.launch.node.kept"
    staging = "jumar.store.staging.bring, jumar.store.staging.send"
    slurm = "jumar.launch.slurm.alone, jumar.launch.slurm.as_user"
    _ask(target, f"import {modules}, {staging}, {slurm}, jumar.launch.later as later; later.load()")


def closure(*names: str) -> Iterator[importlib.metadata.Distribution]:
    """Distributions that are installed and all that they require, extras left out."""
    wanted, seen = list(names), set[str]()
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # Meant for another system or another Python, or an extra that is not wanted here.
            continue
        yield found
        for line in found.requires or ():
            requirement, _, marker = line.partition(";")
            match = _NAME.match(requirement)
            if match is not None and "extra ==" not in marker.replace("'", '"'):
                wanted.append(match[0])


def _copy_distribution(found: importlib.metadata.Distribution, packages: Path) -> None:
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts or file.suffix in (".pyc", ".pth") or not source.is_file():
            continue
        place = packages / Path(*file.parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
    own = packages / "jumar"
    if found.metadata["Name"] == "jumar" and not (own / "__init__.py").exists():
        # Installed for development: its files are where they are edited.
        shutil.copytree(Path(str(jumar.__file__)).parent, own, ignore=_COMPILED, dirs_exist_ok=True)
