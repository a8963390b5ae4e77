"""The programs that show a job from the inside: what is run for `jupyter` and `tensorboard`.

Each listens on a Unix socket in a folder of the job's user alone, with no password of its own: who may
connect is the server's matter, and no other account of the machine can."""

import os
import shutil
import subprocess
import sys
from typing import Dict, List, Optional

from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes.spawn import Program

SOCKET = "s"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOARD = os.path.join(_PACKAGE, "inject", "side_path", "jumar_board.py")
_LOOK_LIMIT_S = 60.0
_HAS_MODULE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
_USUAL_BOARDS = ("runs", "lightning_logs", "tensorboard", "logs")
# Set in a notebook from which somebody has submitted the job; they would let a server take its settings.
_JUPYTER_VARIABLES = ("JUPYTER_TOKEN", "JUPYTER_PORT", "JUPYTERHUB_API_TOKEN", "JPY_PARENT_PID")


class NotInstalled(Exception):
    """The job's environment has no such program."""


def program_of(name: str, directory: JobDir, rank: Program, private: str) -> Optional[Program]:
    """What to start for an endpoint, like the first rank; None where only ports are asked for.

    `private`: the folder for its socket. Looks into environments, so it takes a moment."""
    if name == "jupyter":
        return _jupyter(rank, private, directory.endpoint_log(name))
    if name == "tensorboard":
        return _tensorboard(directory, rank, private)
    return None


def _jupyter(rank: Program, private: str, log: str) -> Program:
    python = _python_with("jupyterlab", rank, [])
    if python is None:
        raise NotInstalled(
            "JupyterLab is not installed in the job's environment; add jupyterlab to its requirements"
        )
    options = {
        "ServerApp.sock": os.path.join(private, SOCKET),
        "ServerApp.sock_mode": "0600",
        "ServerApp.root_dir": rank.directory,
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
    environment = {k: v for k, v in rank.environment.items() if k not in _JUPYTER_VARIABLES}
    environment["JUPYTER_RUNTIME_DIR"] = private
    words = [f"--{name}={value}" for name, value in options.items()]
    return Program(
        [python, "-m", "jupyterlab", *words], environment, rank.directory, log, view=rank.view
    )


def _tensorboard(directory: JobDir, rank: Program, private: str) -> Program:
    # Curves look the same in any environment, so the platform's own is as good.
    python = _python_with("tensorboard", rank, [sys.executable])
    if python is None:
        raise NotInstalled(
            "TensorBoard is not installed in the job's environment; add tensorboard to its requirements"
        )
    spec = ",".join(f"{name}:{path}" for name, path in sorted(_boards(directory, rank).items()))
    words = [python, _BOARD, os.path.join(private, SOCKET), spec]
    environment = {**rank.environment, "TMPDIR": private}
    log = directory.endpoint_log("tensorboard")
    return Program(words, environment, rank.directory, log, view=rank.view)


def _boards(directory: JobDir, rank: Program) -> Dict[str, str]:
    """Where the job's curves may be, each under the name they are shown by."""
    found = {"tensorboard": directory.path("tensorboard")}
    outputs = directory.path("out")
    # A job that declares none has no such folder.
    for name in os.listdir(outputs) if os.path.isdir(outputs) else ():
        found[name] = os.path.realpath(os.path.join(outputs, name))
    if os.path.realpath(rank.directory).startswith(os.path.realpath(directory.root) + os.sep):
        found["code"] = rank.directory
    else:
        # A folder of the user's own may be a whole home: only the usual places in it.
        for name in _USUAL_BOARDS:
            found.setdefault(name, os.path.join(rank.directory, name))
    # Written as NAME:PATH,NAME:PATH.
    return {name: path for name, path in found.items() if not set(":,") & set(name + path)}


def _python_with(module: str, rank: Program, others: List[str]) -> Optional[str]:
    """The job's Python, else one of the others, that has a module."""
    path = rank.environment.get("PATH", os.defpath)
    own = [shutil.which(name, path=path) for name in ("python", "python3")]
    for python in [*own, *others]:
        if python is not None and _has(python, module, rank):
            return python
    return None


def _has(python: str, module: str, rank: Program) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", _HAS_MODULE, module],
            env=rank.environment,
            cwd=rank.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LOOK_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
