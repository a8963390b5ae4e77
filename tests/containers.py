"""Images for tests, made of this machine's busybox: nothing is fetched."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT_S, BUILD_LIMIT_S = 120, 900
CONFIG = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
LIBRARIES = [
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libgcc_s.so.1",
    "libstdc++.so.6",
]
TOOLS = [
    "sh",
    "env",
    "cat",
    "ls",
    "sleep",
    "id",
    "echo",
    "mkdir",
    "cp",
    "rm",
    "kill",
    "test",
    "true",
    "pwd",
    "dirname",
    "touch",
    "readlink",
]


def make_image(folder: Path, name: str) -> Path:
    """An image of busybox under this name, and the file that it was saved to; skips where that cannot
    be. `CONTAINERS_CONF` must be set to what this writes into `folder`."""
    busybox = shutil.which("busybox")
    if shutil.which("podman") is None or busybox is None:
        pytest.skip("needs podman and busybox-static")
    root = folder / "root"
    for path in ("bin", "etc", "tmp", "proc", "dev", "sys", "usr/bin"):
        (root / path).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    (root / "etc/os-release").write_text("NAME=tiny\n")
    tree = folder / "root.tar"
    with tarfile.open(tree, "w") as tar:
        tar.add(root, ".")
    podman("import", "--change", "ENV FROM_IMAGE=yes", "--change", "USER 12345", str(tree), name)
    saved = folder / "image.tar"
    podman("save", "--output", str(saved), name)
    return saved


def make_python_image(folder: Path, name: str) -> None:
    """One with the Python that runs the tests, pip included, and no package."""
    busybox, root = shutil.which("busybox"), folder / "python-root"
    assert busybox is not None
    for path in ("bin", "etc", "tmp", "proc", "dev", "sys", "usr/bin", "var/lib"):
        (root / path).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(busybox, root / "bin/busybox")
    for tool in [*TOOLS, "tail", "chown"]:
        (root / "bin" / tool).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    python = root / "usr/local"
    left_out = shutil.ignore_patterns("__pycache__", "test", "tests", "*.a", "site-packages")
    shutil.copytree(sys.base_prefix, python, symlinks=True, ignore=left_out)
    site = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for package in Path(sys.base_prefix, site).glob("pip*"):
        shutil.copytree(package, python / site / package.name)
    binaries = [python / "bin/python3", *python.rglob("*.so")]
    told = subprocess.run(
        ["ldd", *binaries], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    for line in told.stdout.splitlines():
        words = [word for word in line.split() if word.startswith("/") and not word.endswith(":")]
        for library in map(Path, words):
            place = root / str(library).lstrip("/")
            if not library.is_relative_to(root) and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library.resolve(), place)
    # What packages with compiled parts count on, which Python itself does not link to.
    beside = Path("/lib", f"{os.uname().machine}-linux-gnu")
    for library in filter(Path.exists, (beside / name for name in LIBRARIES)):
        place = root / str(library).lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library.resolve(), place)
    tree = folder / "python-root.tar"
    with tarfile.open(tree, "w") as tar:
        tar.add(root, ".")
    podman("import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", str(tree), name)
    tree.unlink()
    shutil.rmtree(root)


def make_server_image(folder: Path, base: str, name: str) -> None:
    """The server's own, by its Dockerfile over `base`; nothing but packages is fetched."""
    project = folder / "project"
    (project / "dist").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy", project / "deploy")
    pip, dist = (sys.executable, "-m", "pip"), str(project / "dist")
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, ".")
    (wheel,) = (project / "dist").glob("jumar-*.whl")
    wanted = f"{wheel}[postgres,kubernetes]"
    _run(*pip, "download", "--only-binary", ":all:", "--dest", dist, wanted)
    _run(
        *("podman", "build", "--file", "deploy/Dockerfile", "--network", "none"),
        *("--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1", "--tag", name, "."),
        folder=project,
    )


def _run(*words: str, folder: Path = ROOT) -> None:
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def write_config(folder: Path) -> str:
    """What lets podman run where there is neither systemd nor a full set of rights."""
    path = folder / "containers.conf"
    path.write_text(CONFIG)
    return str(path)


def podman(*words: str) -> str:
    done = subprocess.run(
        ["podman", *words], capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ)
    )
    if done.returncode != 0:
        pytest.skip(f"podman does not work here: {done.stderr.strip()}")
    return done.stdout
