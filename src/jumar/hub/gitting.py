"""Running git on the server's side: its own configuration, nobody's hooks, limits on everything."""

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from jumar.errors import HomeUnusable, JumarError, Unavailable

_LIMIT_S = 60.0
_MEMORY_BYTES = 3 << 30
_CPU_S = 1800
LONGEST_S = 6 * 3600
"""No push or clone takes longer: collecting relies on it."""

# By the command line and not by a file: it reaches what git itself starts, hooks included.
_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.bigFileThreshold": "16m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "512m",
    "core.deltaBaseCacheLimit": "64m",
    "core.fsync": "all",
    "gc.auto": "0",
    "http.receivepack": "true",
    "pack.threads": "1",
    "pack.windowMemory": "64m",
    "protocol.version": "2",
    "receive.autogc": "false",
    "receive.fsckObjects": "true",
    "transfer.fsckObjects": "true",
    "transfer.hideRefs": "refs/jumar",
    "uploadpack.allowFilter": "true",
}


class GitFailed(JumarError):
    """Git refused; what it said is in the log of the server, since it names the server's paths."""

    def __init__(self, said: str) -> None:
        super().__init__("git refused this", hint="the server's log says more: server.log")
        self.said = said


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All that git gets to see of the environment."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        **(extra or {}),
    }


def words(*more: str, config: Mapping[str, str] | None = None) -> list[str]:
    """The command line of git, with the configuration of all and what is given here."""
    values = {**_CONFIG, **(config or {})}
    options = [part for name, value in values.items() for part in ("-c", f"{name}={value}")]
    return ["git", *options, *more]


def bound(pid: int) -> None:
    """Limit a git that was just started, and what it will start."""
    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.prlimit(pid, resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    except ProcessLookupError:
        # It has ended already.
        return


def git(
    folder: Path,
    *more: str,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    limit_s: float = _LIMIT_S,
    descriptors: Sequence[int] = (),
) -> bytes:
    """What git prints in `folder`; GitFailed when it fails."""
    command = words("-C", os.fspath(folder), *more, config=config)
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            env=environment(env),
            timeout=limit_s,
            check=False,
            pass_fds=descriptors,
        )
    except FileNotFoundError as error:
        raise no_git() from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"git took longer than {limit_s:.0f} s", hint="try again later"
        ) from error
    if done.returncode != 0:
        raise GitFailed((done.stdout + done.stderr)[-4000:].decode("utf-8", "replace"))
    return done.stdout


def no_git() -> HomeUnusable:
    """What to raise where the server has no git."""
    return HomeUnusable("git is not installed on the server", hint="install git there")
