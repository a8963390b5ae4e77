"""What a command leaves running when it ends: a loop of `nohup train.py &`, or a forgotten daemon.

Tells who is there, whether any of them is at work, and whose bad end counts. Ending them is the
business of `supervise`."""

import os
import re
import signal
import stat as modes
import time
from collections import Counter
from typing import Callable, Collection, Dict, Iterable, List, NamedTuple, Optional, Tuple

from jumar.launch.processes import process
from jumar.launch.processes.process import Stat
from jumar.launch.processes.tree import SHELLS

IDLE_LIMIT_S = 60.0
"""Processes that use neither card nor CPU for so long do not keep their job."""

_LOOKS = 30
"""So often within that time. Looks are counted, not seconds: a machine that slept, or a supervisor
that was stopped, has not seen anybody idle."""
_SETTLING_S = 0.2
"""What ends with the command, such as a `tee` behind it, needs a moment for it."""
_CARD = re.compile(r"(?:v?davinci|nvidia)\d+")
_MOST_LETTERS = 60


class Left(NamedTuple):
    """One process, as people know it."""

    pid: int
    name: str
    output: Optional[str]
    """The file that it writes to."""
    in_background: bool
    """Put there on purpose, as by nohup or a shell's `&`. Helpers that a program has forgotten are
    not; how they end once their program is gone tells nothing."""

    def __str__(self) -> str:
        """`python train.py (pid 4711)`."""
        return f"{self.name} (pid {self.pid})"


class LeftBehind:
    """The processes below the calling one, once the command has ended."""

    def __init__(self, idle_limit_s: float = IDLE_LIMIT_S) -> None:
        self.idle_limit_s = idle_limit_s
        self._look_at = time.monotonic()
        self._looks = 0
        self._quiet_looks = 0
        self._ticks = _Counts(cpu_ticks)
        self._turns = _Counts(_turns)
        self._children: Optional[Dict[int, Left]] = None
        self._members: List[Stat] = []

    @property
    def due_in_s(self) -> float:
        """How long until the next look at what they do."""
        return max(0.0, self._look_at - time.monotonic())

    @property
    def is_settled(self) -> bool:
        """Whether they are more than what ends along with the command."""
        return self._looks > 1

    @property
    def is_idle(self) -> bool:
        """Whether all have been seen idle for long enough."""
        return self._quiet_looks >= _LOOKS

    def look(self, others: Collection[int]) -> bool:
        """Whether anybody is there, but for `others` and what they have started; raises OSError
        when that cannot be known now."""
        self._members = _below(others)
        if self.due_in_s == 0.0:
            # First of all, so that an error does not lead to a look without a pause.
            self._look_at = time.monotonic() + self._next_pause_s()
            self._describe()
            self._measure()
            self._looks += 1
        return bool(self._members)

    def names(self) -> str:
        """`8 × python train.py, ssh-agent`."""
        return _listed(_name_of(member) for member in self._members)

    def count(self) -> int:
        """How many there are."""
        return len(self._members)

    def ended(self, pid: int) -> Optional[Left]:
        """The child that was reaped, if its end says something about the job: it was running when
        the command had ended, and in the background."""
        left = (self._children or {}).pop(pid, None)
        return left if left is not None and left.in_background else None

    @staticmethod
    def children(others: Collection[int]) -> List[int]:
        """Those of them that the calling process itself reaps, as it is now."""
        try:
            return _own(_below(others))
        except OSError:
            return []

    def _next_pause_s(self) -> float:
        pause_s = self.idle_limit_s / _LOOKS
        return min(_SETTLING_S, pause_s) if self._looks == 0 else pause_s

    def _describe(self) -> None:
        """Again at each look: one that was just forked has not become what it will be."""
        if self._children is None:
            self._children = {pid: _left(pid) for pid in _own(self._members)}
            return
        for pid, before in self._children.items():
            now = _left(pid)
            if now.name:
                in_background = before.in_background or now.in_background
                self._children[pid] = now._replace(in_background=in_background)

    def _measure(self) -> None:
        # Waiting for a core or for a disk is work too.
        is_at_work = (
            any(member.state in "RD" for member in self._members)
            or self._ticks.have_changed(self._members)
            or any(_holds_card(member.pid) for member in self._members)
            # Last, as it takes a file for each thread, and most do not come so far.
            or self._turns.have_changed(self._members)
        )
        self._quiet_looks = 0 if is_at_work else self._quiet_looks + 1


class _Counts:
    """A number that the kernel counts up for each process."""

    def __init__(self, read: Callable[[int], int]) -> None:
        self._read = read
        self._before: Dict[Tuple[int, int], int] = {}

    def have_changed(self, members: List[Stat]) -> bool:
        """For any of them since the last call; somebody new is a change."""
        now = {(member.pid, member.start_ticks): self._read(member.pid) for member in members}
        changed = any(self._before.get(key) != count for key, count in now.items())
        self._before = now
        return changed


def _own(members: List[Stat]) -> List[int]:
    me = os.getpid()
    return [member.pid for member in members if member.parent == me]


def _below(others: Collection[int]) -> List[Stat]:
    left_out = set(others)
    found: List[Stat] = []
    # Parents come before their children.
    for stat in process.descendants(os.getpid()):
        if stat.pid in left_out or stat.parent in left_out:
            left_out.add(stat.pid)
        elif not stat.is_dead:
            found.append(stat)
    return found


def cpu_ticks(pid: int) -> int:
    """CPU time, also of children that it has reaped."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def _turns(pid: int) -> int:
    """How often its threads have had their turn on a core: a tick is long for a process that mostly
    sleeps, such as a loop that writes a line a second."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    lines = (
        line for task in tasks for line in _read(f"/proc/{pid}/task/{task}/status").splitlines()
    )
    return sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)


def _holds_card(pid: int) -> bool:
    """By the last part of its name: in a mount namespace the rest may look different."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            path = os.path.join(folder, number)
            name = os.path.basename(_link(path) or "")
            if _CARD.fullmatch(name) and modes.S_ISCHR(os.stat(path).st_mode):
                return True
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # Gone, or one that shows itself to nobody, as ssh-agent does and no training.
        return False
    return False


def _left(pid: int) -> Left:
    output = _link(f"/proc/{pid}/fd/1")
    is_file = output is not None and os.path.isabs(output) and not output.startswith("/dev/")
    stat = process.read_stat(pid)
    name = "" if stat is None or stat.is_dead else _name_of(stat)
    return Left(pid, name, output if is_file else None, _is_in_background(pid))


def _is_in_background(pid: int) -> bool:
    """nohup makes a program deaf to HUP, and a shell's `&` makes it deaf to INT. A shell may be one
    that was forked for a `&` and has not come as far."""
    status = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines())
    ignored = int(status.get("SigIgn", "0"), 16)
    is_deaf = any(ignored >> (number - 1) & 1 for number in (signal.SIGHUP, signal.SIGINT))
    return is_deaf or status.get("Name", "").strip() in SHELLS


def _name_of(stat: Stat) -> str:
    """The program, and the script of an interpreter. Other arguments may be secrets."""
    words = [word for word in _read(f"/proc/{stat.pid}/cmdline").split("\0") if word]
    if not words:
        return _printable(stat.name)
    program = os.path.basename(words[0])
    if program in SHELLS or program.startswith("python"):
        for word in words[1:]:
            if word == "-c":
                break
            if not word.startswith("-"):
                return _printable(f"{program} {os.path.basename(word)}")
    return _printable(program)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_MOST_LETTERS]


def _listed(names: Iterable[str]) -> str:
    counted = Counter(names).most_common()
    words = [name if count == 1 else f"{count} × {name}" for name, count in counted[:8]]
    return ", ".join(words + (["…"] if len(counted) > 8 else []))


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def _link(path: str) -> Optional[str]:
    try:
        return os.readlink(path)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
