"""What a run of all ranks on all nodes comes to: the cause, the consequences, the exit code."""

import signal
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from jumar.launch.processes.spawn import CannotStart
from jumar.launch.processes.supervise import RUN_AGAIN, SCHEDULER, Exit, Outcome
from jumar.launch.verdict.outcome import describe, who

NODE_LOST = 120
NOT_TOGETHER = 121
LAUNCHER_KILLED = 125
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
# What a rank writes when another one is gone: true, but not the cause.
_SIGNS = ("EI0006", "Connection closed by peer", "Connection reset by peer", "Broken pipe")


class Report(NamedTuple):
    """One rank that failed by itself."""

    node: int
    rank: int
    words: str
    code: int
    tail: str
    log: str

    @property
    def is_consequence(self) -> bool:
        """Whether it only says that a peer did not answer."""
        return any(sign in self.tail for sign in _SIGNS)


class Summary(NamedTuple):
    """How the ranks of one node ended."""

    codes: List[int]
    """In the order of time."""
    stopped: bool
    """By a signal from outside."""


class Verdict(NamedTuple):
    """The same on every node."""

    code: int
    again: bool = False
    words: str = ""
    cause: Optional[Report] = None

    def as_json(self) -> Dict[str, Any]:
        """For the other nodes."""
        made: Dict[str, Any] = self._asdict()
        made["cause"] = None if self.cause is None else self.cause._asdict()
        return made

    @classmethod
    def from_json(cls, value: Dict[str, Any]) -> "Verdict":
        """As node 0 has sent it."""
        cause = value["cause"]
        return cls(
            int(value["code"]),
            bool(value["again"]),
            str(value["words"]),
            None if cause is None else Report(**cause),
        )


def judge(
    reports: Sequence[Report], summaries: Sequence[Summary], lost: Sequence[str], restarts_left: int
) -> Verdict:
    """`reports` in the order of time; `lost` names nodes that are gone."""
    if lost:
        return Verdict(NODE_LOST, words=f"{' and '.join(lost)} was lost")
    stopped = any(summary.stopped for summary in summaries)
    if reports:
        cause = next((report for report in reports if not report.is_consequence), reports[0])
        again = restarts_left > 0 and not stopped
        return Verdict(cause.code, again, f"{who(cause.rank)} {cause.words}", cause)
    codes = [code for summary in summaries for code in summary.codes]
    bad = [code for code in codes if code not in (0, RUN_AGAIN)]
    if bad:
        return Verdict(bad[0], words=_when_asked(bad))
    return Verdict(RUN_AGAIN if RUN_AGAIN in codes else 0)


def _when_asked(bad: Sequence[int]) -> str:
    """How ranks that were asked to end did it, if not well."""
    if 128 + signal.SIGKILL in bad:
        return "the ranks did not end within the grace period, and were killed"
    return "the ranks were asked to end, and did not exit with 0 or 75"


def report_of(node: int, exit_: Exit, tail: str, log: str) -> Report:
    """A failure as it is told to the other nodes."""
    return Report(node, exit_.rank, describe(exit_), exit_status(exit_), tail, log)


def report_not_started(node: int, rank: int, error: CannotStart, log: str) -> Report:
    """A program that could not be started is a failure too, with a shell's codes."""
    code = _NOT_FOUND if "not found" in str(error) else _NOT_EXECUTABLE
    return Report(node, rank, f"could not be started: {error}", code, "", log)


def summarize(outcome: Outcome) -> Summary:
    """What node 0 needs to know of a node."""
    stopped = outcome.stop is not None and outcome.stop.why == "signal"
    # A scheduler that is ended after the workers says nothing about them.
    told = [exit_ for exit_ in outcome.exits if exit_.rank != SCHEDULER or not exit_.asked]
    return Summary([exit_status(exit_) for exit_ in told], stopped)


def exit_status(exit_: Exit) -> int:
    """As a shell tells it."""
    return 128 + exit_.signal if exit_.signal is not None else int(exit_.code or 0)


def consequences(outcome: Outcome, cause: Optional[Report], tails: Dict[int, str]) -> List[str]:
    """What happened to this node's other ranks, in words."""
    ended: List[int] = []
    words: List[str] = []
    for exit_ in outcome.exits:
        if not exit_.failed or exit_.rank in (SCHEDULER, None if cause is None else cause.rank):
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
