"""What a run of all ranks on all nodes comes to: one verdict, the same on every node.

A job's result.json and the last lines and exit code of `jumar launch` are two printings of it."""

import os
import signal
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.jobdir.files import Ending
from jumar.launch.processes.left_behind import Left
from jumar.launch.processes.spawn import CannotStart
from jumar.launch.processes.supervise import RUN_AGAIN, SCHEDULER, Exit, Outcome
from jumar.launch.verdict.outcome import LogTail, SetupFailed, describe, signal_name, who

NODE_LOST = 120
NOT_TOGETHER = 121
LAUNCHER_KILLED = 125
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
# What a rank writes when another one is gone: true, but not the cause.
_SIGNS = ("EI0006", "Connection closed by peer", "Connection reset by peer", "Broken pipe")
_FULL = "No space left on device"
_EXPLAINED = {
    "disk-full": ": no space left on the disk",
    "missing-command": ": a program that it calls was not found or cannot be run",
}
_STOPS = {
    "stopped": ("stopped", "stopped", "stopped on request"),
    "signal": ("stopped", "stopped", "stopped by a signal to its supervisor"),
    "timed-out": ("timed-out", "time-limit", "ran into its time limit"),
    "preempted": ("preempted", "preempted", "ended to make room for another job"),
}


class Report(NamedTuple):
    """Something that failed by itself: a rank, or what comes before the ranks."""

    node: int
    rank: Optional[int]
    words: str
    cause: str
    code: int
    """Of the launcher, as a shell tells it."""
    tail: str = ""
    log: str = ""
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    is_setup: bool = False
    """Nothing was started yet, so starting again does not help."""

    @property
    def is_consequence(self) -> bool:
        """Whether it only says that a peer did not answer."""
        return any(sign in self.tail for sign in _SIGNS)


class Summary(NamedTuple):
    """How the ranks of one node ended."""

    node: int
    codes: Sequence[Tuple[Optional[int], int]]
    """Rank and code, in the order of time."""
    stop: Optional[str] = None
    """Why they were ended, when the reason came from outside."""
    left: Optional[Report] = None
    """What failed after the command that had started it was done."""

    def as_json(self) -> Dict[str, Any]:
        """For node 0."""
        return {**self._asdict(), "left": None if self.left is None else self.left._asdict()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Summary":
        """As another node has sent it."""
        left = value["left"]
        summary = cls(**value)
        return summary if left is None else summary._replace(left=Report(**left))


class Verdict(NamedTuple):
    """The same on every node."""

    state: str
    cause: str
    reason: str
    code: int
    """The exit code of `jumar launch`."""
    again: bool = False
    """All ranks are to be started again."""
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    node: Optional[int] = None
    rank: Optional[int] = None
    tail: str = ""
    log: str = ""

    def ending(self) -> Ending:
        """For result.json."""
        return Ending(
            self.state,
            self.cause,
            self.reason,
            self.exit_code,
            self.signal,
            self.node,
            self.rank,
            self.tail,
        )


def judge(
    reports: Sequence[Report],
    summaries: Sequence[Summary],
    lost: Mapping[int, str],
    *,
    restarts_left: int,
    nodes: int,
) -> Verdict:
    """`reports` in the order of time, `summaries` in that of the nodes; `lost` names nodes that
    are gone."""
    if lost:
        were = "was" if len(lost) == 1 else "were"
        reason = f"{' and '.join(lost.values())} {were} lost"
        return Verdict("lost", "node-lost", reason, NODE_LOST, node=min(lost))
    stop = next((summary.stop for summary in summaries if summary.stop is not None), None)
    if reports:
        first = next((report for report in reports if not report.is_consequence), reports[0])
        again = restarts_left > 0 and stop is None and not first.is_setup
        return _failed(first, nodes)._replace(again=again)
    ends = [(summary.node, *end) for summary in summaries for end in summary.codes]
    bad = next((code for _, _, code in ends if code not in (0, RUN_AGAIN)), None)
    saved = next((end for end in ends if end[2] == RUN_AGAIN), None)
    if stop is not None:
        known = _STOPS.get(stop, ("stopped", "stopped", f"ended: {stop}"))
        return Verdict(*known, code=bad or (0 if saved is None else RUN_AGAIN))
    left = next((summary.left for summary in summaries if summary.left is not None), None)
    if left is not None:
        return _failed(left, nodes)
    if saved is not None:
        node, rank, code = saved
        reason = f"rank {rank} asked to be run again (code {code}); nothing does yet"
        return Verdict("failed", "exit-code", reason, code, exit_code=code, node=node, rank=rank)
    return Verdict("succeeded", "done", "done", 0, exit_code=0)


def _failed(report: Report, nodes: int) -> Verdict:
    where = f" (node {report.node})" if nodes > 1 else ""
    return Verdict(
        "failed",
        report.cause,
        report.words + where,
        report.code,
        exit_code=report.exit_code,
        signal=report.signal,
        node=report.node,
        rank=report.rank,
        tail=report.tail,
        log=report.log,
    )


def apart(words: str) -> Verdict:
    """The nodes did not meet."""
    reason = f"the nodes did not come together: {words}"
    return Verdict("failed", "nodes-apart", reason, NOT_TOGETHER)


def launcher_killed(whom: str, node: int, nodes: int, address: str) -> Verdict:
    """Of the node where a process of the launcher was killed; the others see it go."""
    reason = f"its {whom} process was killed"
    if nodes == 1:
        return Verdict("lost", "supervisor-killed", reason, LAUNCHER_KILLED)
    reason = f"node {node} ({address}) was lost: {reason}"
    return Verdict("lost", "node-lost", reason, LAUNCHER_KILLED, node=node)


def report_of(
    node: int, exit_: Exit, log: LogTail, *, name: Optional[str], disk_full: bool
) -> Report:
    """A failure as it is told to the other nodes; `name` stands for the rank's number."""
    tail = log.read()
    cause = _cause(exit_, tail, disk_full)
    return Report(
        node,
        None if exit_.rank == SCHEDULER else exit_.rank,
        f"{name or who(exit_.rank)} {describe(exit_)}{_EXPLAINED.get(cause, '')}",
        cause,
        exit_status(exit_),
        tail,
        log.path,
        exit_.code,
        None if exit_.signal is None else signal_name(exit_.signal),
    )


def report_of_left(node: int, left: Left, exit_: Exit, log: LogTail, disk_full: bool) -> Report:
    """The same of a process that a command had left running."""
    where = ""
    if left.output is not None and os.path.realpath(left.output) != os.path.realpath(log.path):
        log = LogTail(left.output, from_start=True)
        where = f"; its output is in {left.output}"
    name = f"{left}, left running by the command,"
    report = report_of(node, exit_, log, name=name, disk_full=disk_full)
    return report._replace(words=report.words + where)


def report_not_started(node: int, rank: int, error: CannotStart, log: str) -> Report:
    """A program that could not be started is a failure too, with a shell's codes."""
    code = _NOT_FOUND if "not found" in str(error) else _NOT_EXECUTABLE
    number = None if rank == SCHEDULER else rank
    return Report(node, number, str(error), error.cause, code, log=log)


def report_of_setup(node: int, failure: SetupFailed) -> Report:
    """What failed before any rank was started."""
    words, cause = str(failure), failure.cause
    return Report(node, None, words, cause, NOT_TOGETHER, failure.tail, is_setup=True)


def summarize(node: int, outcome: Outcome, left: Optional[Report]) -> Summary:
    """What node 0 needs to know of a node."""
    # A scheduler that is ended after the workers says nothing about them.
    told = [exit_ for exit_ in outcome.exits if exit_.rank != SCHEDULER or not exit_.asked]
    codes: List[Tuple[Optional[int], int]] = [(exit_.rank, exit_status(exit_)) for exit_ in told]
    stop = outcome.stop
    if stop is None or not stop.is_from_outside:
        return Summary(node, codes, None, left)
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
        sign = next((sign for sign in _SIGNS if sign in tails.get(exit_.rank, "")), None)
        if exit_.asked and sign is None and exit_.signal in (signal.SIGTERM, signal.SIGKILL):
            ended.append(exit_.rank)
        else:
            words.append(f"{who(exit_.rank)} {describe(exit_)}" + (f" ({sign})" if sign else ""))
    if ended:
        numbers = ", ".join(str(rank) for rank in sorted(ended))
        words.insert(0, f"rank{'s' if len(ended) > 1 else ''} {numbers} ended from here")
    return words


def _cause(exit_: Exit, tail: str, disk_full: bool) -> str:
    if exit_.out_of_memory:
        return "out-of-memory"
    if _FULL in tail or (disk_full and exit_.signal is None):
        return "disk-full"
    if exit_.signal is not None:
        return "signal"
    # A shell says with 127 and 126 that it could not start what it was told to.
    return "missing-command" if exit_.code in (126, 127) else "exit-code"
