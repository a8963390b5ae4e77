"""Running an installer in the private layer of a job: only in processes that install something."""

import fcntl
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from typing import List, NamedTuple, Tuple

from jumar_start.private_packages import LOCKED, SITE, Layer

_LOCK_LIMIT_S = 3600.0
_PIP = re.compile(r"pip[0-9.]*")
_CONDA = ("conda", "mamba", "micromamba")
_CHANGES = frozenset(("install", "uninstall", "develop", "update", "upgrade", "remove"))
# Options of python itself: flags, a last `m` or `c` with what follows, and those with a value.
_OPTION = re.compile(r"-(?P<flags>[bBdEhiIOPqRsSuvVx?]*)(?P<runs>[mc]?)(?P<rest>.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class Started(NamedTuple):
    """What this Python was started with."""

    options: List[str]
    name: str
    """The module behind -m, or the script; empty for anything else."""
    is_module: bool
    arguments: List[str]

    @property
    def is_pip(self) -> bool:
        name = self.name if self.is_module else os.path.basename(self.name)
        return _PIP.fullmatch(name) is not None

    @property
    def is_setup(self) -> bool:
        return not self.is_module and os.path.basename(self.name) == "setup.py"

    @property
    def is_conda(self) -> bool:
        return not self.is_module and os.path.basename(self.name) in _CONDA

    @property
    def changes_packages(self) -> bool:
        return not _CHANGES.isdisjoint(self.arguments)


def parse(words: List[str]) -> Started:
    """The command line of a Python, its own name left out."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in _WITH_VALUE:
            at += 2
            continue
        found = None if word.startswith("--") or word == "-" else _OPTION.match(word)
        if found is None:
            if word.startswith("--"):
                at += 1
                continue
            return Started(words[:at], word, False, words[at + 1 :])
        if found["runs"] == "m":
            options = [*words[:at], *(["-" + found["flags"]] if found["flags"] else [])]
            rest = [found["rest"]] if found["rest"] else []
            named = [*rest, *words[at + 1 :]]
            return Started(options, *_first(named))
        if found["runs"] == "c":
            break
        at += 1
    return Started(words, "", False, [])


def _first(words: List[str]) -> Tuple[str, bool, List[str]]:
    return (words[0] if words else "", True, words[1:])


def take_over(layer: Layer, words: List[str]) -> None:
    """Run an installer in the layer and end with its exit code; return from anything else."""
    started = parse(words)
    if started.is_conda and started.changes_packages:
        _say("conda changes the environment itself, for everybody who uses it; pip would not")
    is_ready = os.path.exists(layer.below)
    layer.is_pip = started.is_pip
    if (started.is_pip and is_ready) or (
        (started.is_pip or started.is_setup) and started.changes_packages
    ):
        _leave(_run(layer, started))


def run_pip(layer: Layer, arguments: List[str]) -> int:
    """As `pip.main`."""
    code = _run(layer, Started([], "pip", True, arguments))
    importlib.invalidate_caches()
    return code


def _run(layer: Layer, started: Started) -> int:
    """Run the same in the layer; its exit code, negative for a signal."""
    try:
        os.makedirs(layer.path, exist_ok=True)
        lock = _lock(layer)
    except OSError as error:
        return _cannot(layer, error)
    try:
        if not layer.is_current:
            _make(layer)
        python = os.path.join(layer.path, "bin", "python")
        what = ["-m", "pip"] if started.is_pip else [started.name]
        # Everything is the user's own here; asked for, pip would refuse.
        arguments = [word for word in started.arguments if word != "--user" or not started.is_pip]
        variables = {**os.environ, "PIP_USER": "0", LOCKED: "1"}
        code = subprocess.call([python, *started.options, *what, *arguments], env=variables)
        _link_programs(layer)
        return code
    except (OSError, ImportError) as error:
        return _cannot(layer, error)
    finally:
        os.close(lock)


def _cannot(layer: Layer, error: Exception) -> int:
    _say(f"cannot make the private environment {layer.path}: {error}")
    return 1


def _lock(layer: Layer) -> int:
    """Ranks install at the same time; pip does not expect that."""
    lock = os.open(layer.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    give_up = time.monotonic() + _LOCK_LIMIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(lock)
                raise
            time.sleep(0.1)


def _make(layer: Layer) -> None:
    if os.path.exists(layer.below):
        return
    import venv

    _say(f"packages go to a private environment of this job, over {sys.prefix}")
    venv.EnvBuilder(symlinks=True).create(layer.path)
    below = [entry for entry in sys.path if entry.endswith(SITE) and entry != layer.site]
    # `import` makes it run, so that path files below count as well. Not in the Python below itself,
    # which has them already.
    guard = f"import site, sys; sys.prefix == {sys.prefix!r} or site.addsitedir"
    with open(layer.below + ".new", "w", encoding="utf-8") as file:
        file.writelines(f"{guard}({entry!r})\n" for entry in below)
    os.rename(layer.below + ".new", layer.below)


def _link_programs(layer: Layer) -> None:
    """What packages bring to run, in the one folder that is on the job's PATH."""
    programs = os.path.join(layer.root, "bin")
    own = os.path.join(layer.path, "bin")
    os.makedirs(programs, exist_ok=True)
    wanted = {name for name in os.listdir(own) if not re.match(r"python|activate|Activate", name)}
    for name in os.listdir(programs):
        link = os.path.join(programs, name)
        if os.path.dirname(os.readlink(link)) == own and name not in wanted:
            os.unlink(link)
    for name in wanted:
        link = os.path.join(programs, name)
        if not os.path.lexists(link):
            os.symlink(os.path.join(own, name), link)


def _say(words: str) -> None:
    sys.stderr.write(f"jumar: {words}\n")
    sys.stderr.flush()


def _leave(code: int) -> None:
    """As the program that ran instead; `sys.exit` would be an error of `site` here."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
