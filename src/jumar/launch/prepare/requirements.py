"""The Python environment a job asks for: what its requirements file adds to the interpreter.

Environments are shared by all jobs with the same interpreter and the same text. Packages that
the interpreter has already count; nothing is ever installed into the interpreter itself."""

import fcntl
import json
import os
import re
from typing import Dict, List, NamedTuple, Optional

from jumar.launch.jobdir.job import Command, Job
from jumar.launch.jobdir.news import Values
from jumar.launch.jobdir.safefile import encode, write_whole
from jumar.launch.prepare.steps import Step, Steps
from jumar.launch.processes import spawn
from jumar.launch.processes.control import Control
from jumar.launch.verdict import SetupFailed

PIP_LIMIT_S = 3600.0
_MARK = "ready.json"
_MINDSPORE = re.compile(r"mindspore(?:_ascend|_gpu|_cpu|_dev)?-([^-]+)\.dist-info", re.I)
_ASK = (
    "import importlib.util,json,sys; print(json.dumps([sys.version, sys.prefix,"
    " [p for p in sys.path if p.endswith(('site-packages', 'dist-packages'))],"
    " importlib.util.find_spec('pip') is not None]))"
)


class _Parent(NamedTuple):
    """The interpreter an environment is made from."""

    python: str
    version: str
    prefix: str
    packages: List[str]
    has_pip: bool


class _Wanted(NamedTuple):
    """An environment to be made: where, from which interpreter, and with what."""

    place: str
    parent: _Parent
    requirements: str
    folder: str
    environment: Dict[str, str]


def provide(
    requirements: str, job: Job, folder: str, steps: Steps, environment: Dict[str, str]
) -> Dict[str, str]:
    """The variables that put the wanted packages first on the PATH; raises SetupFailed."""
    # Late: OpenSSL is the largest part of what an attempt would load.
    import hashlib

    parent = _parent(job.command, environment, folder)
    with open(requirements, "rb") as file:
        text = file.read()
    key = "\0".join((parent.python, parent.version, parent.prefix)).encode() + b"\0" + text
    place = os.path.join(job.env_cache, hashlib.sha256(key).hexdigest()[:32])
    if not os.path.exists(os.path.join(place, _MARK)):
        _make(_Wanted(place, parent, requirements, folder, environment), steps)
    if job.device_kind == "npu":
        keep_mindspore(parent.packages, place)
    folders = [os.path.join(place, "bin"), environment.get("PATH", os.defpath)]
    return {"VIRTUAL_ENV": place, "PATH": os.pathsep.join(folders)}


def keep_mindspore(packages: List[str], place: str) -> None:
    """Refuse another MindSpore than the interpreter's, by whatever requirement it came: it needs another CANN."""
    installed, wanted = _mindspore_in(packages), _mindspore_in(_site_folders(place))
    if installed is None or wanted is None or installed == wanted:
        return
    reason = f"the requirements replace MindSpore {installed} by {wanted}, which needs another CANN"
    values: Values = {"installed": installed, "wanted": wanted}
    raise SetupFailed("requirements-mindspore", reason, values=values)


def _mindspore_in(folders: List[str]) -> Optional[str]:
    names = (name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder))
    found = [match[1] for match in map(_MINDSPORE.fullmatch, names) if match is not None]
    return found[0] if found else None


def _parent(command: Command, environment: Dict[str, str], folder: str) -> _Parent:
    names = ["python", "python3"]
    if not isinstance(command, str) and os.path.basename(command[0]).startswith("python"):
        names.insert(0, command[0])
    python = next((p for p in (spawn.find(n, environment, folder) for n in names) if p), None)
    if python is None:
        raise SetupFailed("no-python", "there is no Python to install the requirements for")
    # Late: most jobs install nothing.
    import subprocess

    try:
        answer = subprocess.run(
            [python, "-c", _ASK],
            env=environment,
            cwd="/",
            timeout=60,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        version, prefix, packages, has_pip = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        values: Values = {"command": python, "error": str(error)}
        reason = f"{python} does not work: {error}"
        raise SetupFailed("python-broken", reason, values=values) from error
    return _Parent(python, version, prefix, packages, has_pip)


def _make(wanted: _Wanted, steps: Steps) -> None:
    place, parent = wanted.place, wanted.parent
    os.makedirs(os.path.dirname(place), exist_ok=True)
    lock = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait_for_lock(lock, steps.control)
        if os.path.exists(os.path.join(place, _MARK)):
            return
        import shutil

        # Scripts of an environment carry its path, so it is made in its place; the mark, written
        # last, is what makes it one.
        shutil.rmtree(place, ignore_errors=True)
        _fill(wanted, steps)
        made = encode({"python": parent.python, "version": parent.version})
        write_whole(os.path.join(place, _MARK), made, mode=0o666)
    finally:
        os.close(lock)


def _fill(wanted: _Wanted, steps: Steps) -> None:
    place, parent, requirements, folder, environment = wanted
    # Environments that uv makes have none.
    options = ["--without-pip"] if parent.has_pip else []
    venv = [parent.python, "-m", "venv", *options, place]
    steps.run("requirements", Step("python -m venv", venv, environment, "/", 300))
    python = os.path.join(place, "bin", "python")
    lines = [f"import site; site.addsitedir({path!r})\n" for path in parent.packages]
    for packages in _site_folders(place):
        # A line with `import` runs, so that path files of the parent count as well.
        with open(os.path.join(packages, "parent.pth"), "w", encoding="utf-8") as file:
            file.writelines(lines)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    variables = {**environment, "PIP_NO_PYTHON_VERSION_WARNING": "1", "VIRTUAL_ENV": place}
    variables.pop("PIP_USER", None)
    variables.pop("PIP_TARGET", None)
    variables.pop("PIP_PREFIX", None)
    install = [*pip, "-r", requirements]
    steps.run("requirements", Step("pip install", install, variables, folder, PIP_LIMIT_S))


def _site_folders(place: str) -> List[str]:
    found: List[str] = []
    for version in os.listdir(os.path.join(place, "lib")):
        packages = os.path.join(place, "lib", version, "site-packages")
        if os.path.isdir(packages):
            found.append(packages)
    return found


def _wait_for_lock(lock: int, control: Control) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            control.pause(0.2)
            control.check()
