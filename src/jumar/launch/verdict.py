"""What a run of all ranks on all nodes comes to: one verdict, the same on every node (`judge` makes it of
what each node tells); exits and logs in words that a person can use.

A job's result.json and the last lines and exit code of `jumar launch` are two printings of it."""

import os
import signal
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from jumar.launch.faults import (
    LogTail,
    accused_in,
    is_disk_full,
    is_fault,
    lost_peer_sign,
    misses_cuda,
)
from jumar.launch.jobdir.news import NO_VALUES, Ending, Values
from jumar.launch.processes.left_behind import Left, LeftBehind
from jumar.launch.processes.spawn import CannotStart
from jumar.launch.processes.supervise import SCHEDULER, Exit, Outcome

SCRIPT = "script"
_PLATFORM = {
    "supervisor-killed": "host",
    "keeper-killed": "host",
    "launcher-killed": "host",
    "machine-restarted": "host",
    "never-started": "host",
    "start-fails": "host",
    "evicted": "host",
    "node-lost": "network",
    "nodes-apart": "network",
}
_CARD_SIGNS = (
    "uncorrectable ECC error",
    "GPU has fallen off the bus",
    "Device lost heartbeat",
    "Heartbeat lost",
    "all CUDA-capable devices are busy or unavailable",
)
"""What a training writes in its last lines when a card is broken."""
FAULTS = frozenset({*_PLATFORM.values(), "card"})
"""Not of the script's making: another try elsewhere may go well."""


class SetupFailed(Exception):
    """The attempt could not come as far as starting its ranks."""

    def __init__(
        self, cause: str, reason: str, tail: str = "", values: Optional[Values] = None
    ) -> None:
        """`values`: what the reason is said with in other languages."""
        super().__init__(reason)
        self.cause = cause
        self.tail = tail
        self.values = values or {}


def describe(exit_: Exit) -> str:
    """`exited with code 3`, `was killed by SIGSEGV`."""
    if exit_.out_of_memory:
        return "was killed because memory ran out"
    if exit_.signal is not None:
        return f"was killed by {signal_name(exit_.signal)}"
    return f"exited with code {exit_.code}"


def describe_left(left: LeftBehind) -> str:
    """Why a job goes on whose command has ended."""
    several = left.count() > 1
    who_runs = f"{left.count()} processes that it started still run"
    started = who_runs if several else "a process that it started still runs"
    return f"the command has ended; {started}: {left.names()}"


def describe_idle(left: LeftBehind) -> str:
    """Why they are waited for no longer."""
    return (
        "what the command left running is ended, as it holds no card and has used no CPU"
        f" for {left.idle_limit_s:g} s: {left.names()}"
    )


def who(rank: int) -> str:
    """A rank as people call it."""
    return "the scheduler" if rank == SCHEDULER else f"rank {rank}"


def signal_name(number: int) -> str:
    """`SIGTERM`, or the number of a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


NODE_LOST = 120
NOT_TOGETHER = 121
NO_ANSWER = 122
LAUNCHER_KILLED = 125
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_OF_A_PEER = (None, "SIGABRT", "SIGPIPE")
"""How a rank ends that has lost a peer; the watchdogs of NCCL and HCCL abort."""
_EXPLAINED = {
    "disk-full": ": no space left on the disk",
    "no-cuda": ": the script needs CUDA, which this job does not have; run it on NPUs with --auto-port,"
    " or port it with: jumar port",
    "missing-command": ": a program that it calls was not found or cannot be run",
}


class Verdict(NamedTuple):
    """What a run comes to, the same on every node; or what it would come to for one failure alone."""

    state: str
    cause: str
    reason: str
    code: int
    """The exit code of `jumar launch`."""
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    node: Optional[int] = None
    rank: Optional[int] = None
    tail: str = ""
    log: str = ""
    is_setup: bool = False
    """Nothing was started yet, so starting again does not help."""
    again: bool = False
    """All ranks are to be started again."""
    values: Values = NO_VALUES
    """What the cause is said with; `reason` is the same in English."""
    at: float = 0.0
    """When the fault began, on the monotonic clock of the node that judges."""

    @property
    def is_consequence(self) -> bool:
        """Whether a rank only says that a peer did not answer, or is unlike it."""
        if not self.tail or self.signal not in _OF_A_PEER:
            return False
        return lost_peer_sign(self.tail) is not None or accused_in(self.tail) is not None

    @property
    def is_fault(self) -> bool:
        """Whether its log tells of a fault of its own."""
        return is_fault(self.tail)

    def ending(self) -> Ending:
        """For result.json."""
        shown = {name: value for name, value in self._asdict().items() if name in Ending._fields}
        return Ending(**shown)


class Summary(NamedTuple):
    """How the ranks of one node ended."""

    node: int
    codes: Sequence[Tuple[Optional[int], int]]
    """Rank and code, in the order of time."""
    stop: Optional[str] = None
    """Why they were ended, when the reason came from outside."""
    left: Optional[Verdict] = None
    """What failed after the command that had started it was done."""
    hung: Sequence[Tuple[int, str]] = ()
    """When no rank did anything: each with the place where it was."""
    limit_s: float = 0.0
    others: Sequence[Verdict] = ()
    """After a failure: ranks that were done or asked to end, and had complained of no peer."""

    def as_json(self) -> Dict[str, Any]:
        """For node 0."""
        return {
            **self._asdict(),
            "left": None if self.left is None else self.left._asdict(),
            "others": [other._asdict() for other in self.others],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], behind_s: float) -> "Summary":
        """As another node has sent it, whose clock is so far behind."""
        left, others = value["left"], [Verdict(**other) for other in value["others"]]
        return cls(**value)._replace(
            left=None if left is None else Verdict(**left),
            others=[other._replace(at=other.at + behind_s) for other in others],
        )


def node_lost(names: str, node: int, code: int) -> Verdict:
    """All others go on without it, or end."""
    reason = f"lost contact with node {names}"
    return Verdict("lost", "node-lost", reason, code, node=node, values={"nodes": names})


def apart(words: str) -> Verdict:
    """The nodes did not meet."""
    reason = f"the nodes could not form a group: {words}"
    return Verdict("failed", "nodes-apart", reason, NOT_TOGETHER, values={"error": words})


def launcher_killed(whom: str, node: int, nodes: int, address: str) -> Verdict:
    """Of the node where a process of the launcher was killed; the others see it go."""
    if nodes == 1:
        reason = f"its {whom} process was killed"
        return Verdict("lost", f"{whom}-killed", reason, LAUNCHER_KILLED)
    return node_lost(f"{node} ({address})", node, LAUNCHER_KILLED)


def failure_of(
    node: int,
    exit_: Exit,
    log: LogTail,
    *,
    name: Optional[str],
    disk_full: bool,
    has_cuda: bool = False,
) -> Verdict:
    """A rank that failed by itself; `name` stands for its number. `has_cuda`: whether it should have
    found CUDA."""
    log.look()
    tail = log.read()
    tells = is_fault(tail) or accused_in(tail) is not None
    cause = _cause(exit_, tail, disk_full)
    if cause == "exit-code" and not has_cuda and misses_cuda(tail):
        cause = "no-cuda"
    signalled = None if exit_.signal is None else signal_name(exit_.signal)
    values: Dict[str, Union[str, int]] = {} if name else {"rank": exit_.rank}
    if signalled is not None:
        values["signal"] = signalled
    elif exit_.code is not None:
        values["code"] = exit_.code
    return Verdict(
        "failed",
        cause,
        f"{name or who(exit_.rank)} {describe(exit_)}{_EXPLAINED.get(cause, '')}",
        exit_status(exit_),
        exit_.code,
        signalled,
        node,
        _number(exit_.rank),
        tail,
        log.path,
        values=values,
        at=exit_.at if log.fault_at is None or not tells else log.fault_at,
    )


def other_of(node: int, exit_: Exit, log: LogTail) -> Optional[Verdict]:
    """A rank that was done before others failed, or that had to be asked to end after they had: if it
    complains of no peer, it may be the one that they miss."""
    found = failure_of(node, exit_, log, name=None, disk_full=False)
    if found.is_consequence:
        return None
    if found.is_fault:
        return found
    missed = found._replace(cause="no-answer", code=NO_ANSWER, signal=None)
    if exit_.asked:
        words, values = "did not answer the others", {"rank": exit_.rank}
        missed = missed._replace(exit_code=None)
    else:
        words = f"exited with code {exit_.code} while the others still needed it"
        values = {"rank": exit_.rank, "code": exit_.code or 0}
    return missed._replace(reason=f"{who(exit_.rank)} {words}", values=values)


def failure_of_left(node: int, left: Left, exit_: Exit, log: LogTail, disk_full: bool) -> Verdict:
    """The same of a process that a command had left running."""
    where, values = "", {"process": str(left)}
    if left.output is not None and os.path.realpath(left.output) != os.path.realpath(log.path):
        log = LogTail(left.output, from_start=True)
        where = f"; its output is in {left.output}"
        values["output"] = left.output
    name = f"{left}, left running by the command,"
    failure = failure_of(node, exit_, log, name=name, disk_full=disk_full)
    return failure._replace(reason=failure.reason + where, values={**failure.values, **values})


def not_started(node: int, rank: int, error: CannotStart, log: str) -> Verdict:
    """A program that could not be started is a failure too, with a shell's codes."""
    code = _NOT_FOUND if "not found" in str(error) else _NOT_EXECUTABLE
    made = Verdict("failed", error.cause, str(error), code, node=node, rank=_number(rank), log=log)
    return made._replace(values=error.values)


def setup_failed(node: int, error: SetupFailed) -> Verdict:
    """What failed before any rank was started."""
    made = Verdict("failed", error.cause, str(error), NOT_TOGETHER, node=node, tail=error.tail)
    return made._replace(is_setup=True, values=error.values)


def summarize(
    node: int, outcome: Outcome, left: Optional[Verdict] = None, others: Sequence[Verdict] = ()
) -> Summary:
    """What node 0 needs to know of a node."""
    # A scheduler that is ended after the workers says nothing about them.
    told = [exit_ for exit_ in outcome.exits if exit_.rank != SCHEDULER or not exit_.asked]
    codes: List[Tuple[Optional[int], int]] = [(exit_.rank, exit_status(exit_)) for exit_ in told]
    stop = outcome.stop
    if stop is None or not stop.is_from_outside:
        return Summary(node, codes, None, left, others=others)
    return Summary(node, codes or [(None, 128 + stop.signal)], stop.why, left)


def exit_status(exit_: Exit) -> int:
    """As a shell tells it."""
    return 128 + exit_.signal if exit_.signal is not None else int(exit_.code or 0)


def consequences(outcome: Outcome, cause: Optional[int], tails: Dict[int, str]) -> List[str]:
    """What happened to this node's ranks apart from the causing one, in words."""
    ended: List[int] = []
    words: List[str] = []
    for exit_ in outcome.exits:
        if not exit_.failed or exit_.rank in (SCHEDULER, cause):
            continue
        sign = lost_peer_sign(tails.get(exit_.rank, ""))
        if exit_.asked and sign is None and exit_.signal in (signal.SIGTERM, signal.SIGKILL):
            ended.append(exit_.rank)
        else:
            words.append(f"{who(exit_.rank)} {describe(exit_)}" + (f" ({sign})" if sign else ""))
    if ended:
        numbers = ", ".join(str(rank) for rank in sorted(ended))
        words.insert(0, f"rank{'s' if len(ended) > 1 else ''} {numbers} ended by the launcher")
    return words


def _number(rank: int) -> Optional[int]:
    return None if rank == SCHEDULER else rank


def _cause(exit_: Exit, tail: str, disk_full: bool) -> str:
    if exit_.out_of_memory:
        return "out-of-memory"
    if is_disk_full(tail) or (disk_full and exit_.signal is None):
        return "disk-full"
    if exit_.signal is not None:
        return "signal"
    # A shell says with 127 and 126 that it could not start what it was told to.
    return "missing-command" if exit_.code in (126, 127) else "exit-code"


def whose(ended: str, cause: Optional[str], tail: Optional[str]) -> Optional[str]:
    """`script`, `card`, `network`, `host` or `memory`; None where nothing went wrong."""
    if ended not in ("failed", "lost"):
        return None
    if cause in _PLATFORM:
        return _PLATFORM[cause]
    if cause == "out-of-memory":
        return "memory"
    return "card" if any(sign in (tail or "") for sign in _CARD_SIGNS) else SCRIPT
