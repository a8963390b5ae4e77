"""Count what a reader of the code has to open: the ways of a job, of a launched rank and of a port.

Runs one job (`jumar run --follow`, on a server that has already run one), one `jumar launch` of two
ranks and one `jumar port` of a folder with a single script, with a profiler in every process, and lists
the files whose functions ran, in the order of their first calls. Imports do not count, nor what the server does in rounds, job or no job (`rounds.py`).
A hop is a step from a file into another one, counted once.

    python tools/ways.py                  # this tree
    python tools/ways.py --src OTHER/src  # another commit's, in the same way
    python tools/ways.py --files          # with the files, and who called into each first
"""

import argparse
import collections
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator

_TRAIN = """
import time
for step in range(3):
    print("step", step, "loss", 1 / (step + 1), flush=True)
    time.sleep(0.3)
"""

# What most repositories have: a device, a model and batches that are moved to it, a seed.
_ON_CUDA = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.cuda.manual_seed_all(1)
model = torch.nn.Linear(4, 1).cuda()
for batch in torch.ones(3, 2, 4):
    print(model(batch.to(device)).sum().item())
"""

# In every process of a way, as its sitecustomize. The flag is shared memory, so that one write turns all on.
_PROBE = """
import mmap, os, sys, threading

def is_import(frame):
    return not frame.f_code.co_flags & 1 and frame.f_globals["__name__"] != "__main__"

def is_round(frame, root):
    while frame is not None and frame.f_code.co_filename != root + "rounds.py":
        frame = frame.f_back
    return frame is not None

def watch(root, out):
    with open(out + "/flag", "r+b") as file:
        flag = mmap.mmap(file.fileno(), 1)
    seen = set()

    def call(frame, event, _):
        code = frame.f_code
        if event != "call" or not flag[0] or not code.co_filename.startswith(root) or not code.co_flags & 1:
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(root):
            if caller.f_code.co_filename == "<frozen importlib._bootstrap>":
                return
            caller = caller.f_back
        came = caller.f_code.co_filename[len(root):] if caller is not None else "-"
        key = os.getpid(), code, came
        if key in seen or caller is not None and (is_import(caller) or is_round(caller, root)):
            return
        seen.add(key)
        words = str(os.getpid()), threading.current_thread().name, came, code.co_filename[len(root):], getattr(code, "co_qualname", code.co_name)
        into = os.open(out + "/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(into, ("\\t".join(words) + "\\n").encode())
        os.close(into)

    threading.setprofile(call)
    sys.setprofile(call)

if "WAYS_OUT" in os.environ:
    watch(os.environ["WAYS_ROOT"], os.environ["WAYS_OUT"])
"""


class Place:
    """A folder with a home, a script and the probe, for one way."""

    def __init__(self, folder: pathlib.Path, src: pathlib.Path) -> None:
        self._out = folder / "out"
        for name in ("out", "site", "work", "user"):
            (folder / name).mkdir()
        (self._out / "flag").write_bytes(b"\0")
        (folder / "site" / "sitecustomize.py").write_text(_PROBE)
        self._work = folder / "work"
        self.write("train.py", _TRAIN)
        self._environment = {
            **os.environ,
            "HOME": str(folder / "user"),
            "JUMAR_HOME": str(folder / "home"),
            "PYTHONPATH": f"{folder / 'site'}:{src}",
            "WAYS_OUT": str(self._out),
            "WAYS_ROOT": f"{src}/jumar/",
        }

    def _flag(self, *, on: bool) -> None:
        # In place: the processes have it mapped.
        with (self._out / "flag").open("r+b") as file:
            file.write(b"\1" if on else b"\0")

    def jumar(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from jumar.cli import main; main()", *words],
            env=self._environment,
            cwd=self._work,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout

    def write(self, name: str, text: str) -> None:
        path = self._work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    @contextlib.contextmanager
    def watched(self) -> Generator[None]:
        self._flag(on=True)
        try:
            yield
        finally:
            self._flag(on=False)

    def calls(self) -> list[list[str]]:
        return [line.split("\t") for line in (self._out / "calls").read_text().splitlines()]


def a_job(place: Place) -> None:
    run = ("run", "--follow", "--", "python", "train.py")
    place.jumar("up", "--detach")
    try:
        place.jumar(*run)
        time.sleep(1)  # what the server does after a job's end
        with place.watched():
            assert "step 2" in place.jumar(*run)
            time.sleep(1)
    finally:
        place.jumar("down")


def a_launched_rank(place: Place) -> None:
    with place.watched():
        assert "step 2" in place.jumar("launch", "--nproc-per-node", "2", "train.py")


def a_ported_file(place: Place) -> None:
    place.write("repository/train.py", _ON_CUDA)
    with place.watched():
        assert "edits in 1 file" in place.jumar("port", "repository", "-o", "ported")


def tell(name: str, calls: list[list[str]], root: pathlib.Path, *, files: bool) -> None:
    """Print the figures of a way and, if asked for, its files in order."""
    first: dict[str, list[str]] = {}
    functions: dict[str, set[str]] = collections.defaultdict(set)
    hops: set[tuple[str, str]] = set()
    for call in calls:
        _, _, came, path, function = call
        first.setdefault(path, call)
        functions[path].add(function)
        if came not in ("-", path):
            hops.add((came, path))
    lines = {path: len((root / path).read_text().splitlines()) for path in first}
    count = sum(len(names) for names in functions.values())
    sys.stdout.write(
        f"{name}: {len(first)} files, {sum(lines.values())} lines, {len(hops)} hops, {count} functions\n"
    )
    rooms = collections.Counter(path.split("/")[0] for path in first)
    sys.stdout.write("  " + ", ".join(f"{room} {n}" for room, n in rooms.most_common()) + "\n")
    for path, (pid, thread, came, _, _) in first.items() if files else ():
        ran = " ".join(sorted(functions[path]))
        sys.stdout.write(f"  {path:40} {lines[path]:4} lines  {pid} {thread}, from {came}: {ran}\n")


def main() -> None:
    """Run every way and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    here = pathlib.Path(__file__).resolve().parents[1] / "src"
    parser.add_argument(
        "--src", type=pathlib.Path, default=here, help="folder with the package jumar"
    )
    parser.add_argument("--files", action="store_true", help="list the files")
    given = parser.parse_args()
    src: pathlib.Path = given.src.resolve()
    for way in (a_job, a_launched_rank, a_ported_file):
        with tempfile.TemporaryDirectory(prefix="ways-") as folder:
            place = Place(pathlib.Path(folder), src)
            way(place)
            tell(way.__name__.replace("_", " "), place.calls(), src / "jumar", files=given.files)


if __name__ == "__main__":
    main()
