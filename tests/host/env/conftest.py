"""Tiny wheels that stand for the frameworks, and `jumar env` in a process of its own."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from jumar.host.env.needs import needed_by
from jumar.host.versions import Version

LIMIT_S = 120
_DRIVER = """
import sys
from jumar.cli import app
for name in ("doctor", "env"):
    app.COMMANDS.setdefault(name, app.Entry("jumar.cli." + name, "", app.TOOLS))
sys.exit(app.run(sys.argv[1:]))
"""
WORKING = "__version__ = {version!r}\n"


def make_wheel(
    folder: Path, name: str, version: str, program: str = WORKING, *, tag: str = "py3-none-any"
) -> Path:
    """A wheel with one module that runs `program` when it is imported."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": program.format(version=version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        f"Tag: {tag}\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    place = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return place


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class Bench:
    """A folder to work in, wheels to install, and the command."""

    folder: Path
    wheels: Path

    @property
    def environ(self) -> dict[str, str]:
        tools = Path(sys.executable).parent
        return {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{tools}:{os.defpath}",
            "HOME": str(self.folder),
            "JUMAR_HOME": str(self.folder / "home"),
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            "PIP_NO_CACHE_DIR": "1",
            "PIP_CONFIG_FILE": os.devnull,
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", _DRIVER, *arguments],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def create(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.run("env", "create", *self.wishes, *arguments)

    @property
    def wishes(self) -> tuple[str, ...]:
        links = ("--no-index", "--find-links", str(self.wheels))
        return ("--torch", "2.14", "--cann", "9.1.0", *links)

    def add_tool(self, name: str, script: str) -> None:
        place = self.folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)

    @property
    def left_behind(self) -> list[str]:
        known = {"bin", "uv-cache", "wheels", "home"}
        return sorted(path.name for path in self.folder.iterdir() if path.name not in known)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    frameworks = {"torch": "2.14.0", "torch_npu": "2.14.0", "torchvision": "0.29.0"}
    for name, version in frameworks.items():
        make_wheel(wheels, name, version)
    for package in needed_by("torch", Version.parse("2.14.0")):
        make_wheel(wheels, package.name, "1.0")
    return Bench(tmp_path, wheels)
