"""The server's own Dockerfile, built by podman over an image that is made here; part of the full test."""

import json
import secrets
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from tests.containers import make_python_image, make_server_image, podman, write_config
from tests.ports import free_port

pytestmark = pytest.mark.full


def test_the_image_of_the_server_is_built_and_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINERS_CONF", write_config(tmp_path))
    mark = secrets.token_hex(4)
    base, server = f"localhost/python-{mark}:1", f"localhost/jumar-{mark}:1"
    make_python_image(tmp_path, base)
    try:
        make_server_image(tmp_path, base, server)
        name = f"jumar-{mark}"
        # As deploy/server.yaml has it run.
        closed = ("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--cap-drop", "all")
        kept = ("--security-opt", "no-new-privileges", "--network", "host")
        podman("run", "--detach", "--name", name, *closed, *kept, server, *_up(port := free_port()))
        try:
            assert _answer(port, name)["engine"] == "local"
            listed = podman("exec", name, "python3", "-m", "pip", "list", "--format", "json")
            assert {"kubernetes", "psycopg"} <= {one["name"] for one in json.loads(listed)}
            assert podman("exec", name, "id", "-u").strip() == "1000"
            refused = subprocess.run(
                ["podman", "exec", name, "touch", "/etc/x"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert "Read-only file system" in refused.stderr
            at = f"JUMAR_PORT={port}"
            said = podman("exec", "--env", at, name, "jumar", "run", "--follow", "--", "id", "-u")
            assert said.splitlines()[-1] == "1000"
        finally:
            podman("rm", "--force", "--time", "5", name)
    finally:
        subprocess.run(["podman", "rmi", "--force", server, base], capture_output=True, timeout=120)


def _up(port: int) -> tuple[str, ...]:
    return ("jumar", "up", "--host", "127.0.0.1", "--port", str(port))


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
