"""MindRecord, by MindSpore: its own reader and writer, in the Python that has it.

jumar's Python rarely has MindSpore; the shell's may. A child (`mindrecord_child.py`) tells the labels
of all records, is told which to keep, and writes them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

from jumar.errors import BadInput
from jumar.store.mini.choice import Few, Wish
from jumar.store.mini.documents import plain_labels
from jumar.store.mini.tree import Chosen, Tree

_CHILD = Path(__file__).with_name("mindrecord_child.py")
_MAGIC_NAME = re.compile(r"(.+\.mindrecord\w*?|.+?\.mindrecord)(\d*)$", re.IGNORECASE)
_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('mindspore') is None)"
_PROBE_S = 60
_LIMIT_S = 3600.0


def cut_mindrecord(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Reduce all MindRecord files; shards are one data set."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(left):
        match = _MAGIC_NAME.fullmatch(name)
        # Each has an index beside it, in SQLite.
        if match is not None and f"{name}.db" in left:
            groups[match[1]].append(name)
    done: set[str] = set()
    for shards in groups.values():
        with tempfile.TemporaryDirectory(prefix="jumar-mindrecord-") as scratch:
            made, classes = _cut(tree, shards, wish, Path(scratch))
        chosen.make("mindrecord", made, classes)
        done |= {one for shard in shards for one in (shard, f"{shard}.db")}
    return done


def _cut(tree: Tree, shards: list[str], wish: Wish, scratch: Path) -> tuple[dict[str, bytes], int]:
    python = _python_with_mindspore(shards[0])
    (scratch / "in").mkdir()
    (scratch / "out").mkdir()
    files = [str(tree.local(shard, scratch / "in")) for shard in shards]
    for shard in shards:
        tree.local(f"{shard}.db", scratch / "in")
    last = [shard.rpartition("/")[2] for shard in shards]
    request = {"files": files, "names": last, "out": str(scratch / "out")}
    with open(scratch / "said", "w+b") as said:
        few = _converse(python, request, wish, said, shards[0])
    folder = shards[0].removesuffix(last[0])
    made = {f"{folder}{path.name}": path.read_bytes() for path in (scratch / "out").iterdir()}
    return made, few.classes


def _converse(python: str, request: dict[str, Any], wish: Wish, said: IO[bytes], name: str) -> Few:
    """The child tells one line of labels, gets one line of rows, and ends."""
    few = Few(wish)
    child = subprocess.Popen(
        [python, str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        # So that what it imports is MindSpore's, not ours.
        cwd=request["out"],
    )
    limit = threading.Timer(_LIMIT_S, child.kill)
    limit.start()
    try:
        assert child.stdin is not None and child.stdout is not None  # noqa: PT018
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        for line in child.stdout:
            if line.startswith(b"LABELS "):
                for number, label in enumerate(json.loads(line[7:])):
                    few.see(str(number), plain_labels(label))
                child.stdin.write(json.dumps(few.chosen()).encode() + b"\n")
                child.stdin.flush()
        child.stdin.close()
        if child.wait(_LIMIT_S) == 0:
            return few
    except BrokenPipeError:
        child.wait(_LIMIT_S)
    finally:
        limit.cancel()
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").strip().splitlines() or ["no word"]
    raise BadInput(f"{name}: MindSpore could not read or write it: {lines[-1]}")


def _python_with_mindspore(name: str) -> str:
    """This Python, or that of the shell."""
    roots = [os.environ.get(variable) for variable in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    candidates = [sys.executable, *(f"{root}/bin/python" for root in roots if root)]
    candidates += [path for path in map(shutil.which, ("python3", "python")) if path]
    for python in dict.fromkeys(candidates):
        if not os.access(python, os.X_OK):
            continue
        probe = subprocess.run([python, "-c", _PROBE], check=False, timeout=_PROBE_S)
        if probe.returncode == 0:
            return python
    raise BadInput(
        f"{name} can only be reduced with MindSpore, which is not installed",
        hint="activate an environment that has it, or keep such files whole: --static '*.mindrecord*'",
    )
