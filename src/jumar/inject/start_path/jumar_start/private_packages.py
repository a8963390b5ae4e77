"""What a job installs is its own: `pip install` goes to a layer over the Python that runs it.

A layer is a virtual environment in the job directory that sees the packages of the Python below it, one
per Python that the job uses. pip itself then does the right thing: a newer version in the layer hides the
older one below, and nothing below is ever removed. The layer is made when something is first installed;
until then a Python that starts only finds its folder, empty. Programs of the Python below (`torchrun`,
`accelerate`) see the layer as well, which a virtual environment alone would not give.

Only `site` runs before this, so nothing heavy is imported unless something is installed."""

import os
import re
import sys
from types import ModuleType
from typing import Any, List, NamedTuple, Optional, Tuple

_LOCKED = "JUMAR_PIP_LOCKED"
_PIP_MAIN = "pip._internal.cli.main"
_LOCK_LIMIT_S = 3600.0
_PIP = re.compile(r"pip[0-9.]*")
_CONDA = ("conda", "mamba", "micromamba")
_CHANGES = frozenset(("install", "uninstall", "develop", "update", "upgrade", "remove"))
_SITE = ("site-packages", "dist-packages")
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


def install(root: str) -> None:
    """Let this process see the layer over its Python; if it installs packages, have that done there."""
    layer = _Layer(root)
    if layer.is_needless():
        return
    started = parse(_command_line())
    if started.is_conda and started.changes_packages:
        _say("conda changes the environment itself, for everybody who uses it; pip would not")
    wants_layer = (started.is_pip or started.is_setup) and (
        started.changes_packages or (started.is_pip and layer.is_ready)
    )
    if _LOCKED not in os.environ:
        if wants_layer:
            _leave(layer.run(started))
        if not started.is_pip:
            _stand_in_for_pip(layer)
    layer.show()


def _stand_in_for_pip(layer: "_Layer") -> None:
    """Scripts import pip and call its `main`; all ways to it end in this module."""
    stand_in: Any = ModuleType(_PIP_MAIN)

    def main(args: Optional[List[str]] = None) -> int:
        words = sys.argv[1:] if args is None else list(args)
        code = layer.run(Started([], "pip", True, words))
        import importlib

        importlib.invalidate_caches()
        return code

    stand_in.main = main
    sys.modules[_PIP_MAIN] = stand_in


class _Layer:
    """The private environment over the Python that runs this."""

    def __init__(self, root: str) -> None:
        self.root = root
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        self.is_current = os.path.dirname(sys.prefix) == root
        if self.is_current:
            self.path = sys.prefix
        else:
            import zlib

            below = zlib.crc32(os.fsencode(sys.prefix))
            self.path = os.path.join(root, f"{version}-{below:08x}")
        self.site = os.path.join(self.path, "lib", "python" + version, "site-packages")
        self._below = os.path.join(self.site, "below.pth")

    @property
    def is_ready(self) -> bool:
        # Written last.
        return os.path.exists(self._below)

    def is_needless(self) -> bool:
        """Whether this is an environment that the job has made for itself: newer than the first of its
        layers, whose folder was made when its first Python started."""
        if self.is_current or sys.prefix == sys.base_prefix:
            return False
        try:
            made = os.stat(os.path.join(sys.prefix, "pyvenv.cfg")).st_mtime
            layers = [os.path.join(self.root, name, "lib") for name in os.listdir(self.root)]
            return any(os.stat(lib).st_mtime < made for lib in layers if os.path.isdir(lib))
        except OSError:
            return False

    def show(self) -> None:
        """Put it before the packages below, behind the standard library."""
        if self.is_current:
            return
        import site

        try:
            # It must be there: Python looks once whether an entry of its path is a folder.
            os.makedirs(self.site, exist_ok=True)
        except OSError:
            # A full disk, or a job directory that is gone: then there is nothing to see either.
            return
        before = list(sys.path)
        site.addsitedir(self.site)
        added = [entry for entry in sys.path if entry not in before]
        at = next((n for n, entry in enumerate(before) if entry.endswith(_SITE)), len(before))
        sys.path[:] = [*before[:at], *added, *before[at:]]

    def run(self, started: Started) -> int:
        """Run the same in the layer; its exit code, negative for a signal."""
        import subprocess

        try:
            os.makedirs(self.path, exist_ok=True)
            lock = self._lock()
        except OSError as error:
            _say(f"cannot make the private environment {self.path}: {error}")
            return 1
        try:
            if not self.is_current:
                self._make()
            python = os.path.join(self.path, "bin", "python")
            what = ["-m", "pip"] if started.is_pip else [started.name]
            arguments = [
                word for word in started.arguments if word != "--user" or not started.is_pip
            ]
            # Everything is the user's own here; asked for, pip would refuse.
            variables = {**os.environ, "PIP_USER": "0", _LOCKED: "1"}
            ended = subprocess.call([python, *started.options, *what, *arguments], env=variables)
            self._link_programs()
            return ended
        except (OSError, ImportError) as error:
            _say(f"cannot make the private environment {self.path}: {error}")
            return 1
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """Ranks install at the same time; pip does not expect that."""
        import fcntl
        import time

        lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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

    def _make(self) -> None:
        if self.is_ready:
            return
        import venv

        _say(f"packages go to a private environment of this job, over {sys.prefix}")
        venv.EnvBuilder(symlinks=True).create(self.path)
        below = [entry for entry in sys.path if entry.endswith(_SITE) and entry != self.site]
        # `import` makes it run, so that path files below count as well. Not in the Python below
        # itself, which has them already.
        guard = f"import site, sys; sys.prefix == {sys.prefix!r} or site.addsitedir"
        with open(self._below + ".new", "w", encoding="utf-8") as file:
            file.writelines(f"{guard}({entry!r})\n" for entry in below)
        os.rename(self._below + ".new", self._below)

    def _link_programs(self) -> None:
        """What packages bring to run, in the one folder that is on the job's PATH."""
        programs = os.path.join(self.root, "bin")
        own = os.path.join(self.path, "bin")
        os.makedirs(programs, exist_ok=True)
        wanted = {
            name for name in os.listdir(own) if not re.match(r"python|activate|Activate", name)
        }
        for name in os.listdir(programs):
            link = os.path.join(programs, name)
            if os.path.dirname(os.readlink(link)) == own and name not in wanted:
                os.unlink(link)
        for name in wanted:
            link = os.path.join(programs, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(own, name), link)


def _command_line() -> List[str]:
    # sys.argv is not whole yet, and sys.orig_argv is missing before 3.10.
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")[1:-1]
    except OSError:
        return []
    return [os.fsdecode(word) for word in words]


def _say(words: str) -> None:
    sys.stderr.write(f"jumar: {words}\n")
    sys.stderr.flush()


def _leave(code: int) -> None:
    """As the program that ran instead; `sys.exit` would be an error of `site` here."""
    if code < 0:
        import signal

        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
