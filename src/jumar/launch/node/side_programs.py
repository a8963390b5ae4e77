"""The programs that show a job from the inside: what is run for `jupyter` and `tensorboard`.

Each listens on a Unix socket in a folder of the job's user alone, with no password of its own: who may
connect is the server's matter, and no other account of the machine can. Where the job runs in a container
so do they, and the folder is one of the job's directory, which both sides see. The platform's TensorBoard, for an
image that has none, runs outside: it gets no variable of the job, and reads the job's own folders alone."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import Dict, Generator, List, NamedTuple, Optional, Sequence

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import read_job
from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.prepare.containing import given_folders
from jumar.launch.processes.container import entered, folder_in, held
from jumar.launch.processes.spawn import Program
from jumar.launch.ranks.environment import inherited

_PLACE = "p"
_SOCKET = "s"
"""Of a program, in that folder of the one that is given to it."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOARD = os.path.join(_PACKAGE, "inject", "side_path", "jumar_board.py")
_LOOK_LIMIT_S = 60.0
_HAS_MODULE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
_USUAL_BOARDS = ("runs", "lightning_logs", "tensorboard", "logs")
# Set in a notebook from which somebody has submitted the job; they would let a server take its settings.
_JUPYTER_VARIABLES = ("JUPYTER_TOKEN", "JUPYTER_PORT", "JUPYTERHUB_API_TOKEN", "JPY_PARENT_PID")


class NotInstalled(Exception):
    """The job's environment has no such program."""


def make_place(directory: JobDir, rank: Program, private: str) -> None:
    """Where a program is to listen, in the private folder of its host, if it is not there; OSError."""
    place = os.path.join(private, _PLACE)
    if os.path.lexists(place):
        return
    if rank.enter:
        # The rest of the job directory is read-only in there.
        os.symlink(tempfile.mkdtemp(prefix="side-", dir=directory.path("home")), place)
    else:
        os.mkdir(place, 0o700)


def remove_place(private: str) -> None:
    """With all that is in it."""
    # No further than the link of our own: the job may have put another in its place, which rmtree leaves alone.
    shutil.rmtree(_shared(private), ignore_errors=True)
    shutil.rmtree(private, ignore_errors=True)


def clear_place(private: str) -> None:
    """Of the socket of a program that has ended; OSError."""
    with _opened(private) as folder, contextlib.suppress(FileNotFoundError):
        os.unlink(_SOCKET, dir_fd=folder)


def connect(private: str, made: socket.socket) -> None:
    """To the program's own socket, and nowhere that a link of the job's leads; OSError."""
    with _opened(private) as folder:
        found = os.open(_SOCKET, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        made.connect(f"/proc/self/fd/{found}")
    finally:
        os.close(found)


@contextlib.contextmanager
def _opened(private: str) -> Generator[int, None, None]:
    folder = os.open(_shared(private), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _shared(private: str) -> str:
    """The folder of both sides, under its own name."""
    place = os.path.join(private, _PLACE)
    return os.readlink(place) if os.path.islink(place) else place


def program_of(name: str, directory: JobDir, rank: Program, private: str) -> Optional[Program]:
    """What to start for an endpoint, like the first rank; None where only ports are asked for.

    `private`: the folder for its socket. Looks into environments, so it takes a moment."""
    if name == "jupyter":
        return _jupyter(directory, rank, private)
    if name == "tensorboard":
        return _tensorboard(directory, rank, private)
    return None


class _Python(NamedTuple):
    """One that has what is wanted."""

    path: str
    is_inside: bool
    """Whether it is one of the container in which the job runs."""


def _jupyter(directory: JobDir, rank: Program, private: str) -> Program:
    python = _python_with("jupyterlab", rank, [])
    if python is None:
        where = "image" if rank.enter else "environment; add jupyterlab to its requirements"
        raise NotInstalled(f"JupyterLab is not installed in the job's {where}")
    folder = _folder_of(rank)
    options = {
        "ServerApp.sock": os.path.join(private, _PLACE, _SOCKET),
        "ServerApp.sock_mode": "0600",
        "ServerApp.root_dir": folder,
        "ServerApp.open_browser": "False",
        "ServerApp.allow_remote_access": "True",
        "ServerApp.allow_root": "True",
        "ServerApp.allow_password_change": "False",
        "PasswordIdentityProvider.hashed_password": "",
        "IdentityProvider.token": "",
        # Ports of a kernel tell everybody on the machine what it prints.
        "KernelManager.transport": "ipc",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": "None",
    }
    words = [python.path, "-m", "jupyterlab", *(f"--{k}={value}" for k, value in options.items())]
    log = directory.endpoint_log("jupyter")
    return _beside(rank, python, words, {"JUPYTER_RUNTIME_DIR": private}, private, log)


def _tensorboard(directory: JobDir, rank: Program, private: str) -> Program:
    # Curves look the same in any environment, so the platform's own is as good.
    python = _python_with("tensorboard", rank, [sys.executable])
    if python is None:
        raise NotInstalled(
            "TensorBoard is not installed in the job's environment; add tensorboard to its requirements"
        )
    spec = ",".join(f"{name}:{path}" for name, path in sorted(_boards(directory, rank).items()))
    words = [python.path, _BOARD, os.path.join(private, _PLACE, _SOCKET), spec]
    if rank.enter and not python.is_inside:
        words += _given(directory, rank)
    log = directory.endpoint_log("tensorboard")
    return _beside(rank, python, words, {"TMPDIR": private}, private, log)


def _beside(
    rank: Program,
    python: _Python,
    words: List[str],
    variables: Dict[str, str],
    private: str,
    log: str,
) -> Program:
    """The program, where its Python is, with some variables more and none of a notebook's.

    In a container the private folder is another one with the same name."""
    if not python.is_inside:
        kept = {k: v for k, v in _outside(rank).items() if k not in _JUPYTER_VARIABLES}
        return rank._replace(argv=words, environment={**kept, **variables}, log=log, enter=())
    short = os.path.join("/tmp", os.path.basename(private))
    less = [word for name in _JUPYTER_VARIABLES for word in ("-u", name)]
    more = [f"{name}={value}" for name, value in variables.items()]
    inside = [word.replace(private, short) for word in [*more, *words]]
    argv = held(rank.enter, ["env", *less, *inside], short, _shared(private), _PLACE)
    return rank._replace(argv=argv, log=log)


def _outside(rank: Program) -> Dict[str, str]:
    """The variables of a program that is not in a container: where the job is in one, they say where Python and
    the loader find code, and the job has written what is there."""
    return inherited() if rank.enter else dict(rank.environment)


def _given(directory: JobDir, rank: Program) -> List[str]:
    """The folders that TensorBoard may read outside of the job's container."""
    try:
        return given_folders(directory, read_job(directory), _folder_of(rank))
    except (OSError, Unusable) as error:
        # With none it would read anything.
        raise NotInstalled(f"TensorBoard cannot tell what is the job's: {error}") from error


def _folder_of(rank: Program) -> str:
    return folder_in(rank.enter) if rank.enter else rank.directory


def _boards(directory: JobDir, rank: Program) -> Dict[str, str]:
    """Where the job's curves may be, each under the name they are shown by."""
    found = {"tensorboard": directory.path("tensorboard")}
    outputs, folder = directory.path("out"), _folder_of(rank)
    # A job that declares none has no such folder.
    for name in os.listdir(outputs) if os.path.isdir(outputs) else ():
        found[name] = os.path.realpath(os.path.join(outputs, name))
    if os.path.realpath(folder).startswith(os.path.realpath(directory.root) + os.sep):
        found["code"] = folder
    else:
        # A folder of the user's own may be a whole home: only the usual places in it.
        for name in _USUAL_BOARDS:
            found.setdefault(name, os.path.join(folder, name))
    # Written as NAME:PATH,NAME:PATH.
    return {name: path for name, path in found.items() if not set(":,") & set(name + path)}


def _python_with(module: str, rank: Program, others: Sequence[str]) -> Optional[_Python]:
    """The job's Python, else one of the others, that has a module."""
    path = rank.environment.get("PATH", os.defpath)
    for name in ("python", "python3"):
        own = name if rank.enter else shutil.which(name, path=path)
        if own is not None and _has(own, module, rank, is_inside=bool(rank.enter)):
            return _Python(own, bool(rank.enter))
    for other in others:
        if _has(other, module, rank, is_inside=False):
            return _Python(other, False)
    return None


def _has(python: str, module: str, rank: Program, *, is_inside: bool) -> bool:
    words = [python, "-c", _HAS_MODULE, module]
    try:
        done = subprocess.run(
            entered(rank.enter, words, terminal=False) if is_inside else words,
            env=rank.environment if is_inside else _outside(rank),
            cwd=rank.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LOOK_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
