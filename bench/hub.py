"""A large LFS object up and down, against nginx on the same machine: `hub.py [--mb 1024] [--times 3]`.

Down is compared with a plain file of nginx. Up is compared with a PUT to nginx followed by what the hub
also does: SHA-256 and fsync. Both are asked by curl, in turns; the best time of each counts."""

import argparse
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

LEAST_DOWN, LEAST_UP, MOST_MB = 0.8, 0.9, 200
JUMAR = str(Path(sys.executable).parent / "jumar")
CONFIG = """\
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
  access_log off; sendfile on; client_max_body_size 0; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/t; fastcgi_temp_path {folder}/t; uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
  server {{ listen 127.0.0.1:{port}; location / {{ root {folder}/files; dav_methods PUT; }} }}
}}
"""


def main() -> int:
    """0 when the hub is as quick as promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or shutil.which("curl") is None:
        print("nginx or curl is missing: sh tools/system-packages.sh bench")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        digest = _write(source, options.mb)
        with _nginx(program, folder / "nginx") as plain, _hub(folder / "home") as hub:
            return _compare(plain, hub, source, digest, options.times)


def _compare(plain: "Nginx", hub: "Hub", source: Path, digest: str, times: int) -> int:
    ups: list[tuple[float, float]] = []
    downs: list[tuple[float, float]] = []
    for number in range(times):
        theirs = _timed(plain.up, source, digest)
        link = hub.link("upload", digest, source.stat().st_size)
        ups.append((theirs, _timed(_curl, "-T", str(source), link)))
        theirs = _timed(_curl, "-o", "/dev/null", f"{plain.url}/source")
        link = hub.link("download", digest, source.stat().st_size)
        downs.append((theirs, _timed(_curl, "-o", "/dev/null", link)))
        if number + 1 < times:
            hub.forget(digest)
    size = source.stat().st_size / 1e6
    peak = hub.peak_mb()
    failed = peak > MOST_MB
    for word, pairs, least in (("down", downs, LEAST_DOWN), ("up", ups, LEAST_UP)):
        theirs, ours = (min(one) for one in zip(*pairs, strict=True))
        print(
            f"{word}: hub {size / ours:.0f} MB/s, nginx {size / theirs:.0f} MB/s, "
            f"ratio {theirs / ours:.2f} (at least {least})"
        )
        failed = failed or theirs / ours < least
    print(f"the server's memory: at most {peak:.0f} MB (at most {MOST_MB})")
    return int(failed)


class Nginx:
    """One that takes and gives files."""

    def __init__(self, url: str, files: Path) -> None:
        self.url = url
        self._files = files

    def up(self, source: Path, digest: str) -> None:
        """Put a file, then hash and sync it."""
        _curl("-T", str(source), f"{self.url}/source")
        with (self._files / "source").open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest
            os.fsync(file.fileno())


class Hub:
    """A server of its own with one model repository."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._number = 0
        self._run("up", "--detach")
        self._next()

    def _run(self, *words: str) -> str:
        environment = {**os.environ, "JUMAR_HOME": str(self._home)}
        return subprocess.run(
            [JUMAR, *words],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout

    def _next(self) -> None:
        self._number += 1
        self._repo = json.loads(self._run("repo", "create", "model", f"r{self._number}", "--json"))
        self._token = self._repo["clone_url_with_token"].split("@")[0].rpartition(":")[2]

    def link(self, operation: str, oid: str, size: int) -> str:
        """Where git-lfs would send to, or fetch from."""
        body = {"operation": operation, "objects": [{"oid": oid, "size": size}]}
        asked = urllib.request.Request(
            f"{self._repo['clone_url']}/info/lfs/objects/batch",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}"},
        )
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return json.load(answer)["objects"][0]["actions"][operation]["href"]

    def forget(self, oid: str) -> None:
        """Have the next upload send its bytes again."""
        self._run("repo", "delete", "model", f"r{self._number}", "--yes")
        self._run("repo", "gc")
        self._next()

    def peak_mb(self) -> float:
        """The most memory that the server has had."""
        pid = (self._home / "server.pid").read_text().strip()
        status = Path(f"/proc/{pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1000

    def close(self) -> None:
        """Stop the server."""
        self._run("down")


@contextmanager
def _hub(home: Path) -> Generator[Hub]:
    made = Hub(home)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def _nginx(program: str, folder: Path) -> Generator[Nginx]:
    (folder / "files").mkdir(parents=True)
    (folder / "body").mkdir()
    # Its workers are nobody's where root starts it.
    os.chmod(folder.parent, 0o755)
    for place in (folder, folder / "files", folder / "body"):
        os.chmod(place, 0o777)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, port=port))
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(config)])
    try:
        time.sleep(1)
        yield Nginx(f"http://127.0.0.1:{port}", folder / "files")
    finally:
        process.terminate()
        process.wait(30)


def _write(path: Path, megabytes: int) -> str:
    hashed = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(megabytes):
            block = os.urandom(1 << 20)
            hashed.update(block)
            file.write(block)
    return hashed.hexdigest()


def _curl(*words: str) -> None:
    subprocess.run(["curl", "-sSf", "-H", "Expect:", *words], check=True, timeout=600)


def _timed(work: Callable[..., None], *given: object) -> float:
    start = time.perf_counter()
    work(*given)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
