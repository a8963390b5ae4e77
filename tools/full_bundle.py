"""Install the offline bundle, with torch, in a bare system without a network and run the demo there.

The bare system is a folder with Debian's essential packages as they are installed here and what they
need, as `debootstrap --variant=minbase` makes it, but without asking a mirror; and this Python. Needs root and a Debian-like machine. Ends with 1 if a step goes wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
JUMAR = str(Path(sys.executable).parent / "jumar")
GOOD_ENOUGH = 0.98
LIMIT_S = 1800
INSTALL_AND_RUN = """\
set -e
ip link set lo up
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
exec chroot "$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 sh -ec '
    cd /root
    tar -xf jumar.tar
    sh jumar-*/install.sh --to /opt/jumar-cli >&2
    /opt/jumar-cli/bin/jumar demo --json
    /opt/jumar-cli/bin/jumar down >&2'
"""


def main() -> int:
    """All steps, with their times."""
    with tempfile.TemporaryDirectory(prefix="jumar-bundle-") as name:
        folder = Path(name)
        root = folder / "root"
        bundle = folder / "jumar.tar"
        words = [JUMAR, "site", "bundle", "-o", str(bundle)]
        words += ["--with", f"torch=={version('torch')}", "--with", f"numpy=={version('numpy')}"]
        _timed("the bundle made", lambda: _run(words))
        _timed("the bare system made", lambda: _make_system(root))
        (root / "root").mkdir(exist_ok=True)
        bundle.rename(root / "root/jumar.tar")
        alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
        done = _timed(
            "installed, demo run",
            lambda: _run([*alone, "sh", "-c", INSTALL_AND_RUN, "sh", str(root)]),
        )
    result = json.loads(done)
    _say(f"the demo's job: {result['state']}, accuracy {result['accuracy']}")
    return 0 if result["state"] == "succeeded" and result["accuracy"] >= GOOD_ENOUGH else 1


def _timed(what: str, step: Callable[[], T]) -> T:
    began = time.monotonic()
    made = step()
    _say(f"{what}: {time.monotonic() - began:.0f} s")
    return made


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def _run(words: list[str]) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    return done.stdout


def _make_system(root: Path) -> None:
    for name in ("proc", "dev", "tmp", "root", "etc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib64")):
        if path.is_symlink():
            (root / path.readlink()).mkdir(parents=True)
            (root / path.name).symlink_to(path.readlink())
    for path in _files_of(_essential()):
        _copy(path, root)
    _copy_python(root)
    for name in ("passwd", "group"):
        shutil.copy(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    _run(["ldconfig", "-r", str(root)])


def _essential() -> set[str]:
    """The essential packages and all that they depend on."""
    query = "${Package}\\t${Essential}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n"
    needs: dict[str, list[str]] = {}
    providers: dict[str, str] = {}
    waiting: list[str] = []
    for line in _run(["dpkg-query", "-Wf", query]).splitlines():
        package, essential, depends, provides = line.split("\t")
        needs[package] = [_name(one) for one in re.split(r"[,|]", depends)]
        providers |= dict.fromkeys(map(_name, provides.split(",")), package)
        if essential == "yes":
            waiting.append(package)
    found: set[str] = set()
    while waiting:
        package = waiting.pop()
        package = package if package in needs else providers.get(package, "")
        if package and package not in found:
            found.add(package)
            waiting += needs[package]
    return found


def _name(dependency: str) -> str:
    return dependency.strip().partition(" ")[0].partition(":")[0]


def _files_of(packages: Iterable[str]) -> list[Path]:
    return [
        Path(line) for line in _run(["dpkg-query", "-L", *packages]).splitlines() if line[:1] == "/"
    ]


def _copy_python(root: Path) -> None:
    """This interpreter, in the same place, without what is installed in it, and what it is linked with."""
    folder = Path(sys.base_prefix)
    extra = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
    shutil.copytree(folder, root / folder.relative_to("/"), symlinks=True, ignore=extra)
    name = f"python3.{sys.version_info.minor}"
    (root / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    (root / "usr/local/bin" / name).symlink_to(folder / "bin" / name)
    programs = [folder / "bin" / name, *folder.glob("lib/python3*/lib-dynload/*.so")]
    linked = subprocess.run(
        ["ldd", *map(str, programs)], stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    for path in set(re.findall(r"=> (/\S+)", linked.stdout)):
        _copy(Path(path), root)


def _copy(path: Path, root: Path) -> None:
    target = root / path.relative_to("/")
    if os.path.lexists(target):
        return
    if path.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path.readlink())
        if path.exists() and path.is_file():
            _copy(path.parent / path.readlink(), root)
    elif path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif path.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


if __name__ == "__main__":
    sys.exit(main())
