"""Images for tests, made of this machine's busybox: nothing is fetched."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

LIMIT_S = 120
CONFIG = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
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
