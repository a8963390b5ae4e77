"""Start one program with its output in a file; say exactly why when it cannot be started.

The program gets a session of its own, /dev/null as input, default signal handling, and is killed
by the kernel if the process that started it is."""

import errno
import fcntl
import os
import signal
import termios
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from jumar.launch.processes import namespace, network, process
from jumar.launch.processes.namespace import View
from jumar.launch.processes.network import Network

_IGNORED_HERE = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP)
# All but those that libc keeps for itself. Python 3.8 and later call them valid_signals().
_SIGNALS = [number for number in range(1, signal.NSIG) if not 32 <= number < signal.SIGRTMIN]


class Program(NamedTuple):
    """What to start and how."""

    argv: Sequence[str]
    environment: Dict[str, str]
    directory: str
    log: str
    cpus: Optional[Sequence[int]] = None
    view: Optional[View] = None
    network: Optional[Network] = None
    """The one to be in, if not the machine's."""
    enter: Sequence[str] = ()
    """Where it runs in a container: the words before a command that runs in there too."""

    def for_beside(self) -> Dict[str, Any]:
        """What a command beside it needs (`node/beside.py`), as JSON values."""
        view = self.view
        return {
            "environment": self.environment,
            "folder": self.directory,
            "enter": self.enter,
            "view": None if view is None else view._asdict(),
            "network": None if self.network is None else self.network._asdict(),
        }


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class CannotStart(Exception):
    """The program could not be started; `cause` is a cause of result.json."""

    def __init__(self, message: str, cause: str, **values: Union[str, int]) -> None:
        """`values`: what the message is said with in other languages."""
        super().__init__(message)
        self.cause = cause
        self.values = values


def spawn(program: Program, given: Optional[int] = None) -> int:
    """Start it and return its pid; raises CannotStart. `given`: its input, if it is to have one."""
    try:
        log = open_log(program.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.set_blocking(log, True)
    except OSError as error:
        raise _cannot_start(program.argv[0], f"{program.log}: {error.strerror}", error) from error
    try:
        return spawn_with(program, Streams(given, log, log))
    finally:
        os.close(log)


class Streams(NamedTuple):
    """Descriptors for a program; it gets copies."""

    input: Optional[int]
    """None: /dev/null."""
    output: int
    errors: int
    is_terminal: bool = False
    """All three are one terminal, which is to be the program's own."""


def spawn_with(program: Program, streams: Streams) -> int:
    """Start it on these descriptors instead of its log; raises CannotStart."""
    report, report_end = os.pipe()
    parent = os.getpid()
    # No signal may reach a Python handler between fork and exec: it would be the parent's.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _become(program, parent, streams, report_end)
    except OSError as error:
        # As many processes as this user may have.
        os.close(report)
        words = f"no more processes: {error.strerror}"
        raise _cannot_start(program.argv[0], words, error) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(report_end)
    with os.fdopen(report, "rb") as file:
        failure = file.read()
    if failure:
        os.waitpid(pid, 0)
        stage, _, code = failure.decode("ascii").partition(" ")
        raise _explain(program, stage, int(code))
    return pid


def open_log(path: str, flags: int) -> int:
    """Its descriptor; raises OSError, also where a job has put a pipe or a link in the place of its
    log: whoever opens that would wait for a reader, or write elsewhere."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _become(program: Program, parent: int, streams: Streams, report: int) -> None:
    stage = "prepare"
    try:
        process.end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(125)
        os.setsid()
        # Handlers end with exec by themselves; what is ignored would stay so.
        for number in _IGNORED_HERE:
            signal.signal(number, signal.SIG_DFL)
        given = os.open(os.devnull, os.O_RDONLY) if streams.input is None else streams.input
        os.dup2(given, 0)
        os.dup2(streams.output, 1)
        os.dup2(streams.errors, 2)
        if streams.is_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if program.cpus:
            _bind(program.cpus)
        if program.network is not None:
            stage = "network"
            network.enter(program.network)
        if program.view is not None:
            stage = "view"
            namespace.enter(program.view)
        stage = "chdir"
        os.chdir(program.directory)
        stage = "exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvpe(program.argv[0], list(program.argv), program.environment)
    except (OSError, ValueError) as error:
        os.write(report, f"{stage} {getattr(error, 'errno', None) or errno.EINVAL}".encode("ascii"))
    finally:
        os._exit(126)


def _bind(cpus: Sequence[int]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        os.write(2, f"jumar: cannot bind to cores {list(cpus)}: {error.strerror}\n".encode())


def _explain(program: Program, stage: str, code: int) -> CannotStart:
    name, words = program.argv[0], os.strerror(code)
    error = OSError(code, words)
    if code in _NO_ROOM:
        return _cannot_start(name, words, error)
    if stage == "chdir":
        folder = program.directory
        message = f"cannot enter the folder {folder}: {words}"
        return CannotStart(message, "work-folder", folder=folder, error=words)
    if stage == "view":
        message = f"cannot make the fixed paths for {name}: {words}"
        return CannotStart(message, "fixed-paths", command=name, error=words)
    if stage != "exec":
        return _cannot_start(name, words, error)
    found = find(name, program.environment, program.directory)
    if code == errno.ENOENT and found is None:
        return CannotStart(f"command not found: {name}", "missing-command", command=name)
    file = found or name
    if code == errno.ENOENT:
        message = f"the interpreter named in the first line of {file} does not exist"
        return CannotStart(message, "missing-interpreter", file=file)
    if code == errno.EACCES:
        return CannotStart(f"{file} is not executable", "not-executable", file=file)
    if code == errno.ENOEXEC:
        return CannotStart(f"{file} is not a program (no #! line?)", "not-a-program", file=file)
    if code == errno.E2BIG:
        message = f"{name}: the arguments and variables are too long"
        return CannotStart(message, "arguments-too-long", command=name)
    return _cannot_start(file, words, error)


def _cannot_start(command: str, words: str, error: OSError) -> CannotStart:
    if error.errno in _NO_ROOM:
        return CannotStart("no space left on the disk", "disk-full")
    return CannotStart(
        f"cannot start {command}: {words}", "cannot-start", command=command, error=words
    )


def find(name: str, environment: Mapping[str, str], directory: str) -> Optional[str]:
    """The file that `name` means, executable or not; None when there is none."""
    if "/" in name:
        path = os.path.join(directory, name)
        return path if os.path.isfile(path) else None
    folders: List[str] = environment.get("PATH", os.defpath).split(os.pathsep)
    candidates = [os.path.join(directory, folder, name) for folder in folders]
    files = [path for path in candidates if os.path.isfile(path)]
    for path in files:
        if os.access(path, os.X_OK):
            return path
    return files[0] if files else None
