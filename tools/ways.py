"""Count what a reader of the code has to open: the ways of a job, a launched rank, a ported file, a pushed file and a simulated operator.

Runs one job (`jumar run --follow`, on a server that has already run one), one `jumar launch` of two ranks,
one `jumar port` of a folder with a single script, one `jumar data push` of a small file to an S3 server and, where
torch is installed, operators of simulated NPUs, with a profiler in every process, and lists the files whose functions
ran, in the order of their first calls. Lines are those of whole files and, beside them, of the functions that
ran. Imports do not count, nor what the server does in rounds, job or no job (`rounds.py`).
A hop is a step from a file into another one, counted once.

    python tools/ways.py                  # this tree
    python tools/ways.py --src OTHER/src  # another commit's, in the same way
    python tools/ways.py --way "a job"    # one of them
    python tools/ways.py --files          # with the files, and who called into each first
"""

import argparse
import ast
import collections
import contextlib
import hashlib
import http.server
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator

_TRAIN = """
import time
for step in range(3):
    print("step", step, "loss", 1 / (step + 1), flush=True)
    time.sleep(0.3)
"""

# Each runs some times before it counts: what it imports and learns then is no part of its way.
_OPERATORS = """
import os, torch, torch_npu

one, weight = torch.ones(4, 4, device="npu"), torch.ones(4, device="npu")

def plain():
    return one + one

def of_the_plugin():
    return torch_npu.npu_rms_norm(one, weight)[0]

operator = globals()[os.environ["WAYS_OPERATOR"]]
for _ in range(9):
    operator()
with open(os.environ["WAYS_OUT"] + "/flag", "r+b") as flag:
    flag.write(b"\\1")
    flag.flush()
    operator()
    flag.seek(0)
    flag.write(b"\\0")
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
        words = str(os.getpid()), threading.current_thread().name, came, code.co_filename[len(root):], getattr(code, "co_qualname", code.co_name), str(code.co_firstlineno)
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
        self.write("operators.py", _OPERATORS)
        self._sim_path = src / "jumar" / "inject" / "sim_path"
        self._environment = {
            **os.environ,
            "HOME": str(folder / "user"),
            "LC_ALL": "C.UTF-8",  # its answers are looked for in English
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

    def keep(self, name: str, text: str) -> None:
        """A file of the home."""
        home = pathlib.Path(self._environment["JUMAR_HOME"])
        home.mkdir(mode=0o700)
        (home / name).write_text(text)
        (home / name).chmod(0o600)

    def operator(self, name: str) -> None:
        """Turns the flag on and off itself."""
        path = f"{self._environment['PYTHONPATH']}:{self._sim_path}"
        simulated = {"PYTHONPATH": path, "JUMAR_SIM_DEVICES": "1", "WAYS_OPERATOR": name}
        subprocess.run(
            [sys.executable, "operators.py"],
            env={**self._environment, **simulated},
            cwd=self._work,
            check=True,
            stderr=subprocess.PIPE,  # the report of the simulation
        )

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
        time.sleep(5)  # what the server does after its start, and after a job's end
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


def a_pushed_file(place: Place) -> None:
    with s3_server() as credential:
        place.keep("store.json", json.dumps({"obs": credential}))
        with place.watched():
            assert "copied 1 " in place.jumar("data", "push", "train.py", "obs://lab/code/train.py")


class _Empty(http.server.BaseHTTPRequestHandler):
    """A bucket `lab` with nothing in it, which takes whatever it is given."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(404)

    def do_GET(self) -> None:
        self._answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, etag=hashlib.md5(data).hexdigest())

    def _answer(self, status: int, body: bytes = b"", etag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def s3_server() -> Generator[dict[str, str]]:
    """The keys for such a server, while it runs."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield {"endpoint": endpoint, "access_key": "AK", "secret_key": "SK"}
        server.shutdown()


def a_simulated_operator(place: Place) -> None:
    place.operator("plain")


def a_plugin_operator(place: Place) -> None:
    place.operator("of_the_plugin")


def lines_of(path: pathlib.Path, begins: set[int]) -> int:
    """How many lines the functions have that begin there; a template is one as a whole."""
    if path.suffix != ".py":
        return len(path.read_text().splitlines())
    ran: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(node.lineno, *(one.lineno for one in node.decorator_list), node.lineno)
            if first in begins:
                ran.update(range(first, (node.end_lineno or first) + 1))
    return len(ran)


def tell(name: str, calls: list[list[str]], root: pathlib.Path, *, files: bool) -> None:
    """Print the figures of a way and, if asked for, its files in order."""
    first: dict[str, list[str]] = {}
    functions: dict[str, set[str]] = collections.defaultdict(set)
    begins: dict[str, set[int]] = collections.defaultdict(set)
    hops: set[tuple[str, str]] = set()
    for call in calls:
        _, _, came, path, function, line = call
        first.setdefault(path, call)
        functions[path].add(function)
        begins[path].add(int(line))
        if came not in ("-", path):
            hops.add((came, path))
    lines = {path: len((root / path).read_text().splitlines()) for path in first}
    count = sum(len(names) for names in functions.values())
    ran_lines = sum(lines_of(root / path, begins[path]) for path in first)
    sys.stdout.write(
        f"{name}: {len(first)} files, {sum(lines.values())} lines, {len(hops)} hops,"
        f" {count} functions, {ran_lines} lines of these\n"
    )
    rooms = collections.Counter(path.split("/")[0] for path in first)
    sys.stdout.write("  " + ", ".join(f"{room} {n}" for room, n in rooms.most_common()) + "\n")
    for path, (pid, thread, came, _, _, _) in first.items() if files else ():
        ran = " ".join(sorted(functions[path]))
        sys.stdout.write(f"  {path:40} {lines[path]:4} lines  {pid} {thread}, from {came}: {ran}\n")


def main() -> None:
    """Run the ways and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    here = pathlib.Path(__file__).resolve().parents[1] / "src"
    parser.add_argument(
        "--src", type=pathlib.Path, default=here, help="folder with the package jumar"
    )
    parser.add_argument("--files", action="store_true", help="list the files")
    every = [a_job, a_launched_rank, a_ported_file, a_pushed_file]
    if importlib.util.find_spec("torch"):
        every += [a_simulated_operator, a_plugin_operator]
    ways = {way.__name__.replace("_", " "): way for way in every}
    parser.add_argument("--way", action="append", choices=ways, help="only this one")
    given = parser.parse_args()
    src: pathlib.Path = given.src.resolve()
    for name in given.way or ways:
        with tempfile.TemporaryDirectory(prefix="ways-") as folder:
            place = Place(pathlib.Path(folder), src)
            ways[name](place)
            tell(name, place.calls(), src / "jumar", files=given.files)


if __name__ == "__main__":
    main()
