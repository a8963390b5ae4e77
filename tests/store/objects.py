"""Send many objects to an S3 server and back with `jumar data`: `full_objects.py [--count N]`.

The server is SeaweedFS behind jumar's door. Push, list, count, sync again (nothing to do), pull, and
compare every byte; then sync with `--delete` after half of the files are gone, and remove the rest. The
first step that goes wrong ends it with 1."""

import argparse
import filecmp
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import save_credential
from jumar.store.door import Door

JUMAR = str(Path(sys.executable).parent / "jumar")
IN_A_FOLDER = 1000
LIMIT_S = 3600


def make(folder: Path, count: int) -> None:
    """Small files of odd sizes, some of them empty, in folders of a thousand."""
    for number in range(count):
        if number % IN_A_FOLDER == 0:
            (folder / f"part {number // IN_A_FOLDER:03}").mkdir(parents=True)
        content = hashlib.sha256(str(number).encode()).digest() * (number % 40)
        path = folder / f"part {number // IN_A_FOLDER:03}" / f"样本+{number}.bin"
        path.write_bytes(content)


def call(home: Path, *words: str) -> str:
    """One command; what it printed on stdout."""
    began = time.monotonic()
    done = subprocess.run(
        [JUMAR, "data", *words],
        env={**os.environ, "JUMAR_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    _say(f"{words[0]}: {time.monotonic() - began:.0f} s")
    return done.stdout


def same(one: Path, other: Path) -> bool:
    """Whether both trees have the same files with the same bytes."""
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    if names != sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file()):
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


def send_and_fetch(folder: Path, home: Path, url: str, count: int) -> str | None:
    """What went wrong, if anything."""
    make(folder / "data", count)
    source = str(folder / "data")
    pushed = json.loads(call(home, "push", "--json", source, url))
    if pushed["copied"] != count:
        return f"{pushed['copied']} of {count} were pushed"
    listed = json.loads(call(home, "ls", "--json", "-r", url))
    if len(listed) != count:
        return f"{len(listed)} of {count} are listed"
    again = json.loads(call(home, "sync", "--json", source, url))
    if (again["copied"], again["skipped"]) != (0, count):
        return f"a second sync sent {again['copied']} and skipped {again['skipped']}"
    size = sum(path.stat().st_size for path in (folder / "data").rglob("*") if path.is_file())
    counted = json.loads(call(home, "du", "--json", url))
    if counted != {"files": count, "bytes": size}:
        return f"du says {counted} of {count} files with {size} bytes"
    call(home, "pull", "--json", url, str(folder / "back"))
    return None if same(folder / "data", folder / "back") else "what came back is not the same"


def remove(folder: Path, home: Path, url: str, count: int) -> str | None:
    """What went wrong, if anything, when half of the objects and then all were deleted."""
    gone = [path for path in (folder / "data").rglob("*.bin") if _number(path) % 2]
    for path in gone:
        path.unlink()
    synced = json.loads(call(home, "sync", "--json", "--delete", str(folder / "data"), url))
    if (synced["copied"], synced["deleted"]) != (0, len(gone)):
        return f"sync --delete deleted {synced['deleted']} of {len(gone)}"
    listed = {
        row["key"].rpartition("/")[2] for row in json.loads(call(home, "ls", "--json", "-r", url))
    }
    if listed != {path.name for path in (folder / "data").rglob("*.bin")}:
        return "sync --delete left other objects than it should"
    removed = json.loads(call(home, "rm", "--json", "-r", url))
    if removed["deleted"] != count - len(gone):
        return f"rm -r deleted {removed['deleted']} of {count - len(gone)}"
    left = json.loads(call(home, "ls", "--json", "-r", url.rpartition("/")[0] + "/"))
    return f"{len(left)} objects are left after rm -r" if left else None


def _number(path: Path) -> int:
    return int(path.stem.rpartition("+")[2])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """0 when everything came back as it was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    count: int = parser.parse_args().count
    with tempfile.TemporaryDirectory(prefix="jumar-objects-") as name:
        folder = Path(name)
        home = folder / "home"
        home.mkdir(mode=0o700)
        door = Door(folder / "door", _free_port())
        door.start()
        try:
            S3(door.credential.wire()).create_bucket("full")
            save_credential(home / "store.json", "obs", door.credential)
            url = "obs://full/data"
            wrong = send_and_fetch(folder, home, url, count) or remove(folder, home, url, count)
        finally:
            door.stop()
    _say(wrong or f"{count} objects went there and back, and away")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
