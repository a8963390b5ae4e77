"""A command beside the ranks of a running attempt: their variables, folder, view and cgroup, and an end
with them.

    python -m jumar.launch.node.beside JOB_DIRECTORY ATTEMPT [CONTROL]

Descriptor 3 is a stream to whoever asks (`processes/frames.py`); when it closes, all that was started
here ends. Two processes watch each other as those of an attempt do, so nothing is left when either
is killed; what is left when both are, ends with the attempt."""

import errno
import os
import pwd
import signal
import socket
import stat
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, cast

from jumar.launch.jobdir import claims, safefile
from jumar.launch.jobdir.claims import Claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.node.beside_session import Asker, Session, is_kept, say_last
from jumar.launch.processes import frames, pair, process
from jumar.launch.processes.container import entered
from jumar.launch.processes.frames import BadFrame, json_frame
from jumar.launch.processes.namespace import Mount, View
from jumar.launch.processes.network import Network
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.tree import Tree, cgroup_name, claimed_cgroup

CHANNEL = 3
_REQUEST_LIMIT_S = 15.0
_PIPE_LIMIT_S = 20.0
_LONGEST_IDLE_S = 400 * 86400.0
_BLOCK = 32768


class _Refused(Exception):
    """There is nothing to run, or nowhere."""


class _Asked(NamedTuple):
    argv: List[str]
    """Empty: the user's shell."""
    terminal: Optional[Dict[str, Any]]
    holds: bool
    """Whether the job waits for just this command, and ends with it."""
    endpoint: Optional[str]
    """In place of a command: what connections are asked for, over and over (`node/side.py`)."""
    idle_s: float = 0.0
    """How long such a host waits for another server when its own is gone."""


def main(words: List[str]) -> int:
    """Run one command to its end."""
    directory = JobDir(words[0], int(words[1]), control_root=words[2] if words[2:] else None)
    # Not as keepers are called, nor as ranks are marked.
    process.set_name("jumar-beside")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    channel = socket.socket(fileno=CHANNEL)
    supervisor = pair.fork_supervisor(lambda keeper: _serve(directory, channel, keeper))
    channel.close()
    supervisor.begin()
    code = pair.wait_for(supervisor)
    Tree(None).kill()
    return code if code >= 0 else 1


def _serve(directory: JobDir, channel: socket.socket, keeper: int) -> int:
    if not pair.may_begin(keeper):
        return 1
    try:
        reader = frames.Reader()
        asked = _request(channel, reader)
        claim = _claim_of(directory)
        program = _program(directory, asked)
        held = _hold(directory) if asked.holds else None
    except (_Refused, BadFrame, Unusable) as error:
        say_last(channel, json_frame(frames.REFUSED, {"message": str(error)}))
        return 1
    except FileNotFoundError:
        message = "the job's processes have not been started yet, or have ended"
        say_last(channel, json_frame(frames.REFUSED, {"message": message}))
        return 1
    group = claimed_cgroup(claim.cgroup, cgroup_name(directory.job_id, directory.number))
    if group is not None:
        group.take_in(os.getpid())
    asker = Asker(directory, claim, channel, reader, keeper)
    if asked.endpoint is not None:
        # Late: every attempt loads this file, and few ever have an endpoint.
        from jumar.launch.node.side import Side
        from jumar.launch.node.side_again import hand_over

        if asked.idle_s and hand_over(directory, asked.endpoint, channel):
            return 0
        return Side(asker).run(program, asked.endpoint, asked.idle_s)
    session = Session(asker)
    try:
        return session.run(program, asked.terminal)
    finally:
        if held is not None:
            os.close(held)


def _request(channel: socket.socket, reader: frames.Reader) -> _Asked:
    """What is to be run; waits for it, but not for ever."""
    give_up_at = time.monotonic() + _REQUEST_LIMIT_S
    while True:
        channel.settimeout(max(0.01, give_up_at - time.monotonic()))
        try:
            data = channel.recv(_BLOCK)
        except OSError as error:
            raise _Refused("nobody said what to run") from error
        if not data:
            raise _Refused("nobody said what to run")
        for kind, content in reader.feed(data):
            if kind != frames.REQUEST:
                raise BadFrame("the request does not come first")
            return _asked(frames.values_of(content))


def _asked(values: Dict[str, Any]) -> _Asked:
    command: object = values.get("command") or []
    terminal = values.get("terminal")
    words = cast("List[object]", command) if isinstance(command, list) else [None]
    argv = [word for word in words if isinstance(word, str)]
    if len(argv) != len(words):
        raise BadFrame("the command is not a list of words")
    if terminal is not None and not isinstance(terminal, dict):
        raise BadFrame("the terminal is not an object")
    endpoint = values.get("endpoint")
    if endpoint is not None and not isinstance(endpoint, str):
        raise BadFrame("the endpoint is not a word")
    idle_s = values.get("idle_s", 0.0)
    if not isinstance(idle_s, (int, float)) or not 0 <= idle_s <= _LONGEST_IDLE_S:
        raise BadFrame("the time to wait is not a number of seconds")
    return _Asked(argv, terminal, values.get("holds") is True, endpoint, float(idle_s))


def _claim_of(directory: JobDir) -> Claim:
    claim = claims.read_claim(directory)
    if claim is None or not is_kept(directory, claim):
        raise _Refused("the job has ended")
    return claim


def _program(directory: JobDir, asked: _Asked) -> Program:
    values = safefile.read_object(directory.beside)
    environment, view = values.get("environment"), values.get("view")
    if not isinstance(environment, dict):
        raise Unusable(f"{directory.beside} has no environment")
    known = cast("Dict[str, object]", environment)
    variables = {name: str(value) for name, value in known.items()}
    if asked.terminal is not None:
        variables["TERM"] = str(asked.terminal.get("term") or "xterm")[:64]
        for name in ("LINES", "COLUMNS"):
            variables.pop(name, None)
    enter = [str(word) for word in cast("List[object]", values.get("enter") or [])]
    if enter:
        argv = entered(enter, asked.argv, terminal=asked.terminal is not None)
    else:
        argv = asked.argv or [_shell(variables), *(["-i"] if asked.terminal else [])]
    return Program(
        argv,
        variables,
        safefile.text(values, "folder"),
        "",
        view=_view(view),
        network=_network(values.get("network")),
        enter=tuple(enter),
    )


def _network(values: Any) -> Optional[Network]:
    if values is None:
        return None
    try:
        return Network(**values)
    except TypeError as error:
        raise Unusable("the network is damaged") from error


def _view(values: Any) -> Optional[View]:
    if values is None:
        return None
    try:
        mounts = tuple(Mount(str(target), str(source)) for target, source in values["mounts"])
        return View(mounts, str(values["staging"]), str(values.get("tmp", "")))
    except (KeyError, TypeError, ValueError) as error:
        raise Unusable("the view is damaged") from error


def _shell(variables: Dict[str, str]) -> str:
    """The user's own, if it can be run."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        own = ""
    for shell in (variables.get("SHELL", ""), own, "/bin/bash"):
        if os.path.isabs(shell) and os.access(shell, os.X_OK):
            return shell
    return "/bin/sh"


def _pipe(directory: JobDir) -> str:
    contained = directory.contained_shell_pipe
    return contained if os.path.lexists(contained) else directory.shell_pipe


def _hold(directory: JobDir) -> int:
    """Open the pipe at whose other end the job waits for us to go."""
    give_up_at = time.monotonic() + _PIPE_LIMIT_S
    while True:
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(_pipe(directory), flags)
            if not stat.S_ISFIFO(os.fstat(handle).st_mode):
                os.close(handle)
                raise _Refused("this job does not wait for a shell")
            os.write(handle, b".")
            return handle
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENXIO, errno.EPIPE):
                raise _Refused(f"the job cannot be reached: {error.strerror}") from error
            if time.monotonic() > give_up_at:
                raise _Refused("this job does not wait for a shell") from error
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
