"""The server's own Dockerfile, built by podman over an image that is made here; part of the full test."""

import json
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.containers import make_python_image, podman, write_config

pytestmark = pytest.mark.full
ROOT = Path(__file__).parents[2]
LIMIT_S = 900


def run(*words: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_image_of_the_server_is_built_and_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINERS_CONF", write_config(tmp_path))
    mark = secrets.token_hex(4)
    base, server = f"localhost/python-{mark}:1", f"localhost/jumar-{mark}:1"
    make_python_image(tmp_path, base)
    project = tmp_path / "project"
    (project / "dist").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy", project / "deploy")
    pip = (sys.executable, "-m", "pip")
    dist = str(project / "dist")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, ".")
    (wheel,) = (project / "dist").glob("jumar-*.whl")
    wanted = f"{wheel}[postgres,kubernetes]"
    run(*pip, "download", "--only-binary", ":all:", "--dest", dist, wanted)
    try:
        run(
            *("podman", "build", "--file", "deploy/Dockerfile", "--network", "none"),
            *("--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1", "--tag", server, "."),
            folder=project,
        )
        name = f"jumar-{mark}"
        podman(
            "run", "--detach", "--name", name, "--network", "host", server, *_up(port := _port())
        )
        try:
            assert _answer(port, name)["engine"] == "local"
            listed = podman("exec", name, "python3", "-m", "pip", "list", "--format", "json")
            assert {"kubernetes", "psycopg"} <= {one["name"] for one in json.loads(listed)}
            assert podman("exec", name, "id", "-u").strip() == "1000"
        finally:
            podman("rm", "--force", "--time", "5", name)
    finally:
        subprocess.run(["podman", "rmi", "--force", server, base], capture_output=True, timeout=120)


def _up(port: int) -> tuple[str, ...]:
    return ("jumar", "up", "--host", "127.0.0.1", "--port", str(port))


def _port() -> int:
    from jumar.launch.ranks.frameworks import free_port

    return free_port("")


def _answer(port: int, name: str) -> dict[str, str]:
    give_up = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/server", timeout=10
            ) as answer:
                return dict(json.load(answer))
        except OSError:
            assert time.monotonic() < give_up, podman("logs", name)
            time.sleep(0.2)
