"""Send many objects to S3 servers and back with `jumar data`.

`python -m tests.store.objects [--count N] [--server KIND]`. The servers are SeaweedFS behind jumar's door
and those of `manners.py`. Push, list, count, sync again (nothing to do), pull, and compare every byte;
then sync with `--delete` after half of the files are gone, and remove the rest. The first step that goes
wrong ends it with 1."""

import argparse
import filecmp
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from tests.ports import free_port
from tests.store.manners import MANNERS, make_authority, mannered

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import Credential, save_credential
from jumar.store.door import Door

JUMAR = str(Path(sys.executable).parent / "jumar")
IN_A_FOLDER = 1000
LIMIT_S = 3600
SEAWEED = "seaweed"


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
    _say(f"  {words[0]}: {time.monotonic() - began:.0f} s")
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


@contextmanager
def seaweed(folder: Path) -> Generator[Credential]:
    """SeaweedFS, with a bucket `lab`."""
    door = Door(folder / "door", free_port())
    door.start()
    try:
        S3(door.credential.wire()).create_bucket("lab")
        yield door.credential
    finally:
        door.stop()


def try_server(kind: str, count: int) -> str | None:
    """What went wrong there, if anything."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jumar-objects-")))
        home = folder / "home"
        home.mkdir(mode=0o700)
        if kind == SEAWEED:
            credential = stack.enter_context(seaweed(folder))
        else:
            manner = stack.enter_context(mannered(kind, make_authority(folder)))
            credential = manner.credential
            stack.enter_context(mock.patch.dict(os.environ, manner.environment))
        save_credential(home / "store.json", "obs", credential)
        url = "obs://lab/data"
        return send_and_fetch(folder, home, url, count) or remove(folder, home, url, count)


def main() -> int:
    """0 when everything came back as it was, from every server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--server", action="append", choices=(SEAWEED, *MANNERS))
    given = parser.parse_args()
    for kind in given.server or (SEAWEED, *MANNERS):
        _say(f"{kind}:")
        wrong = try_server(kind, given.count)
        _say(f"{kind}: " + (wrong or f"{given.count} objects went there and back, and away"))
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
