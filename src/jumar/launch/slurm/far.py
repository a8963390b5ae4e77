"""The far end of `slurm: {ssh: …}`: on a login node, over the stock ssh, one request per line of JSON.

It does what only that machine can: call Slurm's programs, keep the folders of jobs, read their logs. What
is asked and what is made of it is decided on the near side. All runs as the person who is logged in there."""

import base64
import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from jumar.launch.jobdir import news
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import ask_to_stop
from jumar.launch.jobdir.safefile import Unusable, write_json
from jumar.launch.slurm.alone import attempts_of, submit_again

MARK = "jumar-far"
_PROGRAMS = frozenset({"sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "sacctmgr"})
_ID = re.compile(r"[a-z][a-z0-9]{9}")
_RELATIVE = re.compile(r"[A-Za-z0-9_]+(\.?[A-Za-z0-9_-]+)*(/[A-Za-z0-9_]+(\.?[A-Za-z0-9_-]+)*)*")
_LOG = re.compile(r"node([0-9]{1,6})/rank([0-9]{1,7})\.log")
_MOST_FILE = 1 << 18
_MOST_READ = 1 << 20
_TOLD = (
    "request.json",
    "submitted.json",
    "stop.json",
    "slurm.json",
    "slurm.beat",
    "slurm.over.json",
    "result.json",
)
_TOLD_OF_NODE = ("claim.json", "ranks.json", "result.json")


class Refused(Exception):
    """A request that cannot be served; said to the near side in words."""


def main() -> int:
    """Answer until standard input ends."""
    far = Far(os.path.join(os.environ.get("JUMAR_HOME") or os.path.expanduser("~/.jumar"), "slurm"))
    os.makedirs(far.home, mode=0o700, exist_ok=True)
    program = os.path.abspath(sys.argv[0])
    told = {"home": far.home, "python": sys.executable, "program": program}
    _say({MARK: dict(told, user=getpass.getuser())})
    for line in sys.stdin.buffer:
        try:
            _say({"answer": far.answer(json.loads(line.decode()))})
        except (
            Refused,
            Unusable,
            OSError,
            subprocess.SubprocessError,
            ValueError,
            TypeError,
        ) as error:
            _say({"error": f"{type(error).__name__}: {error}"})
    return 0


def _say(value: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Far:
    """What one login can be asked."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._verbs: Dict[str, Callable[..., Any]] = {
            "call": self._call,
            "has": self._has,
            "put": self._put,
            "write": self._write,
            "look": self._look,
            "logs": self._logs,
            "read": self._read,
            "stop": self._stop,
            "again": self._again,
            "remove": self._remove,
        }

    def answer(self, request: Dict[str, Any]) -> Any:
        """Serve one request."""
        verb = self._verbs.get(str(request.pop("do", "")))
        if verb is None:
            raise Refused("this is not known here")
        return verb(**request)

    def _call(self, words: List[str], text: str, seconds: float) -> List[Any]:
        if not words or words[0] not in _PROGRAMS:
            raise Refused("not one of Slurm's programs")
        if shutil.which(words[0]) is None:
            return [127, "", f"{words[0]} is not installed on this machine"]
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            timeout=seconds,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
        return [done.returncode, done.stdout, done.stderr]

    def _has(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def _put(self, path: str, data: str, offset: int, key: str, last: bool) -> None:
        """A piece of a file; with the last one it is in its place. Twice is once."""
        target = self._path(path)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        aside = f"{target}.{int(key, 16):x}"
        handle = os.open(aside, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(handle, "r+b") as file:
            file.seek(offset)
            file.write(base64.b64decode(data))
        if last:
            os.replace(aside, target)

    def _write(self, job: str, files: Dict[str, Dict[str, Any]]) -> None:
        for name, value in files.items():
            path = self._path("jobs", _job_id(job), name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_json(path, value)
        os.makedirs(self._path("jobs", job, "logs"), exist_ok=True)

    def _look(self, skip: List[str]) -> Dict[str, Any]:
        """What the folders of all jobs but those say of how they stand, and the time here."""
        try:
            names = os.listdir(os.path.join(self.home, "jobs"))
        except FileNotFoundError:
            names = []
        wanted = [name for name in names if _ID.fullmatch(name) and name not in set(skip)]
        return {"now": time.time(), "jobs": {name: self._told(name) for name in wanted}}

    def _told(self, job: str) -> Dict[str, List[Any]]:
        root = self._path("jobs", job)
        found: Dict[str, List[Any]] = {}
        names = ["job.json", "stopped.json"]
        for number in attempts_of(root):
            folder = f"attempts/{number}"
            names += [f"{folder}/{name}" for name in _TOLD]
            names += [f"{folder}/node0/{name}" for name in _TOLD_OF_NODE]
        for name in names:
            try:
                with open(os.path.join(root, name), "rb") as file:
                    text = file.read(_MOST_FILE).decode("utf-8", "replace")
                    found[name] = [os.fstat(file.fileno()).st_mtime, text]
            except FileNotFoundError:
                continue
        return found

    def _logs(self, job: str) -> List[List[int]]:
        folder = self._path("jobs", _job_id(job), "logs")
        found: List[List[int]] = []
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                named = _LOG.fullmatch(os.path.relpath(path, folder))
                if named is not None:
                    found.append([int(named[1]), int(named[2]), os.stat(path).st_size])
        return sorted(found)

    def _read(
        self, job: str, node: int, rank: int, offset: int, count: int = _MOST_READ
    ) -> Optional[str]:
        """Some of a log, from there on; None: there is none."""
        path = JobDir(self._path("jobs", _job_id(job)), 0).log(int(node), int(rank))
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                return base64.b64encode(file.read(min(count, _MOST_READ))).decode()
        except FileNotFoundError:
            return None

    def _stop(self, job: str) -> None:
        root = self._path("jobs", _job_id(job))
        with open(os.path.join(root, "stopped.json"), "a", encoding="utf-8"):
            pass
        for number in attempts_of(root)[-1:]:
            ask_to_stop(JobDir(root, number), "stopped")

    def _again(self, job: str, ending: Dict[str, Any]) -> None:
        """Submit the next attempt of a job whose last one could not say that it was over."""
        root = self._path("jobs", _job_id(job))
        last = JobDir(root, attempts_of(root)[-1])
        if news.read_ending(last) is None:
            news.write_ending(last, news.Ending(**ending))
        submit_again(root)

    def _remove(self, job: str) -> None:
        """Of a job that Slurm has not taken."""
        shutil.rmtree(self._path("jobs", _job_id(job)), ignore_errors=True)

    def _path(self, *names: str) -> str:
        if not all(_RELATIVE.fullmatch(name) for name in names):
            raise Refused("not a path here")
        return os.path.join(self.home, *names)


def _job_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise Refused("not a job")
    return text
