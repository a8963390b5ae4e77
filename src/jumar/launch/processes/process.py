"""Processes as Linux shows them: who they are, whether they live, what they started.

A process is named by pid, start time and boot, because a pid alone is used again. Nothing here
decides what to end; `tree` does."""

import ctypes
import os
import time
from functools import lru_cache
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Union

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_EXEC_LIMIT_S = 0.5
_TGKILL = {"x86_64": 234, "aarch64": 131}
"""The C library has a function for it only since 2019."""
_libc = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """One process, for ever."""

    pid: int
    start_ticks: int
    boot_id: str

    def as_json(self) -> Dict[str, Any]:
        """For a claim."""
        return self._asdict()


class Stat(NamedTuple):
    """What /proc/PID/stat tells of one process."""

    pid: int
    name: str
    state: str
    parent: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """A zombie runs no more; it only waits to be reaped."""
        return self.state in "ZXx"


@lru_cache(maxsize=None)
def boot_id() -> str:
    """Changes with every start of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()


def read_stat(pid: int) -> Optional[Stat]:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold any character, also parentheses.
    begin, end = text.find(b"("), text.rfind(b")")
    fields = text[end + 2 :].split()
    name = text[begin + 1 : end].decode("utf-8", "replace")
    return Stat(pid, name, fields[0].decode("ascii"), int(fields[1]), int(fields[19]))


def identify(pid: int) -> Optional[Identity]:
    """Who has this pid now."""
    stat = read_stat(pid)
    return None if stat is None else Identity(pid, stat.start_ticks, boot_id())


def myself() -> Identity:
    """The calling process."""
    identity = identify(os.getpid())
    if identity is None:
        raise RuntimeError("/proc does not show this process; is it mounted?")
    return identity


def is_alive(identity: Identity) -> bool:
    """Whether just this process still runs."""
    stat = read_stat(identity.pid)
    return stat is not None and is_same(stat, identity)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    stat = read_stat(pid)
    return stat is not None and not stat.is_dead


def is_same(stat: Stat, identity: Identity) -> bool:
    """Whether what was seen is this process, alive."""
    return (
        not stat.is_dead
        and stat.start_ticks == identity.start_ticks
        and boot_id() == identity.boot_id
    )


def all_stats() -> Iterator[Stat]:
    """Every process of the machine that this one can see."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = read_stat(int(entry))
            if stat is not None:
                yield stat


def descendants(root: int) -> List[Stat]:
    """Children of `root`, their children and so on; `root` itself is left out."""
    children: Dict[int, List[Stat]] = {}
    for stat in all_stats():
        children.setdefault(stat.parent, []).append(stat)
    found: List[Stat] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(stat.pid for stat in below)
    return found


def environment_of(pid: int) -> List[bytes]:
    """`NAME=value` of each variable that a process was started with; nothing when it is gone or
    somebody else's."""
    return _words_of(pid, "environ")


def command_of(pid: int) -> List[bytes]:
    """The argument vector of a process; nothing when it is gone."""
    return _words_of(pid, "cmdline")


def _words_of(pid: int, name: str) -> List[bytes]:
    give_up, is_ready = time.monotonic() + _EXEC_LIMIT_S, False
    while True:
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                text = file.read()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []
        if text:
            return text.split(b"\0")
        if is_ready or time.monotonic() > give_up:
            return []
        is_ready = not _is_in_exec(pid)
        if not is_ready:
            time.sleep(0.0005)


def _is_in_exec(pid: int) -> bool:
    """Whether it is just replaced by another program: the kernel shows no words of either then."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # Nor has the kernel's own thread, or a process that has ended, but these have no memory at all.
    memory, environment_end = fields[20], fields[48:49]
    return memory != b"0" and environment_end == [b"0"]


def with_environment(wanted: Dict[str, str]) -> List[Stat]:
    """Running processes whose environment had all these variables when they were started."""
    entries = {f"{name}={value}".encode() for name, value in wanted.items()}
    return [
        stat
        for stat in all_stats()
        if not stat.is_dead and entries.issubset(environment_of(stat.pid))
    ]


def send(pid: int, number: int) -> bool:
    """Send a signal; False when the process is gone or belongs to somebody else."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_to_main_thread(pid: int, number: int) -> bool:
    """The same, for a handler that must not run while the main thread goes on: of a process that stands
    still the kernel lets any thread take a signal."""
    call = _TGKILL.get(os.uname().machine)
    if call is None:
        return send(pid, number)
    return _libc.syscall(call, pid, pid, int(number)) == 0


def become_subreaper() -> None:
    """From now on orphans below this process become its children, however they detached."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """What lists of processes call this one; children have it too, until they execute a program."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def set_title(title: str) -> None:
    """What lists of processes show in the place of this one's command line, as far as that is long."""
    with open("/proc/self/stat", "rb") as file:
        place = [int(field) for field in file.read().rpartition(b")")[2].split()[45:47]]
    if len(place) == 2 and all(place):
        # Where the kernel has put the words, and reads them again for whoever asks.
        begin, size = place[0], place[1] - place[0]
        ctypes.memmove(begin, title.encode().ljust(size, b"\0"), size - 1)


def end_with_parent(number: int) -> None:
    """Ask the kernel to send this process a signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: Union[int, ctypes.c_char_p]) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")
