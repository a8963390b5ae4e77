"""Where each rank stood in the sequence of collective operations, as far as the logs say.

Ranks count the operations of each group alike as long as they run the same code. A watchdog tells in which one its rank waited and
since when; beside it stands how many that rank had started and how many had ended."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jumar.why.knowledge import PEER_LATE, Level
from jumar.why.reading import Line
from jumar.why.signs import Sign, below

_WORK = re.compile(
    r"Work[NH]CCL\((?:SeqNum=(?P<seq>\d{1,12}), )?OpType=(?P<op>\w{1,40})(?:, NumelIn=(?P<numel>\d{1,18}), NumelOut=(?P<out>\d{1,18}))?"
    r"(?:, Timeout\(ms\)=(?P<limit>\d{1,12}))?\) ran for"
)
_STATUS = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,12}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,12})"
)
# The group whose operation failed, by the name that is the same on all its ranks.
_GROUP = re.compile(
    r"\[PG (?:ID )?\d{1,6}(?: PG GUID (?P<guid>[^\s(\]]{1,40}))?(?: ?\((?P<name>[^)\]]{0,60})\))? Rank \d{1,7}\].{0,60}"
    r"(?:detected by watchdog at work|Timeout at NCCL work)"
)
# A rank that only heard of another one's wait.
_HEARD = re.compile(
    r"Received a dump signal|dump signal from another rank|Failed to check the .should dump. flag"
)
# `#2 log_metrics from /work/src/metrics.py:88`, the innermost first.
_CALLED = re.compile(
    r"#\d{1,3} (?P<inside>\S{1,80}) from (?P<file>/[^:\n]{1,300}):(?P<at>\d{1,6})$"
)
_LIMIT = re.compile(
    r"[Tt]imed out waiting (\d{1,12}) ?ms|wait timeout after (\d{1,12}) ?ms|monitoredBarrier in (\d{1,12}) ?ms"
)
_TIMED = re.compile(
    r"(?i)\btime[ds][ -]?out\b|\btimeout|\bEI000[26]\b|failed to pass monitoredBarrier"
)
_MOST_READ = 64


@dataclass(slots=True)
class Standing:
    """How far a rank had come."""

    sign: Sign
    is_waiting: bool = False
    """It says itself that it waits, not only that others do."""
    is_timed: bool = False
    """It gave up for the time that it had waited, not because a connection had ended."""
    seq: int | None = None
    op: str = ""
    numel: str = ""
    out: str = ""
    group: str = ""
    enqueued: int | None = None
    completed: int | None = None
    limit_ms: int = 0
    calls: tuple[tuple[str, str], ...] = ()
    """The functions that called the operation, each with its place, the innermost first."""

    @property
    def place(self) -> str:
        """Where in the script it was when it gave up, if an exception tells."""
        return self.sign.event.values.get("place", "") if self.line else ""

    @property
    def line(self) -> str:
        """The script's own line there."""
        return self.sign.event.values.get("own", "")

    @property
    def since(self) -> float | None:
        """When it began to wait."""
        return self.sign.event.at


def standings(signs: Sequence[Sign]) -> dict[int, Standing]:
    """Of each rank that says anything of a lost peer, what it says."""
    found: dict[int, Standing] = {}
    for sign in signs:
        rank = sign.rank
        if rank is None or sign.event.level is not Level.LOST_PEER:
            continue
        one = found.setdefault(rank, Standing(sign))
        _take(one, sign, sign.event.line.text)
    for rank, one in list(found.items())[:_MOST_READ]:
        _read_below(one, rank)
    return found


def _take(one: Standing, sign: Sign, text: str) -> None:
    """What a line that tells of a lost peer says."""
    if _HEARD.search(text) is None:
        one.is_waiting = True
    # What HCCL waited for stands in its report, below the line.
    is_late = sign.event.cause.name == PEER_LATE
    one.is_timed = one.is_timed or is_late or _TIMED.search(text) is not None
    work = _WORK.search(text)
    if work is not None and not one.op:
        one.sign, one.op = sign, work["op"]
        one.seq = None if work["seq"] is None else int(work["seq"])
        one.numel, one.out = work["numel"] or "", work["out"] or ""
        one.limit_ms = int(work["limit"] or 0)
    limit = _LIMIT.search(text)
    if limit is not None and not one.limit_ms:
        one.limit_ms = int(next(number for number in limit.groups() if number))


def _read_below(one: Standing, rank: int) -> None:
    """What that rank's next lines say: of which group the operation is, how far it had come, who had called it."""
    lines = below(one.sign)
    own = [line for line in lines if _is_of(line, rank, one.sign)]
    for line in own:
        group = _GROUP.search(line.text)
        if group is not None and not one.group:
            one.group = f"{group['guid'] or ''} {group['name'] or ''}".strip()
        status = _STATUS.search(line.text)
        if status is not None and one.enqueued is None:
            one.enqueued = int(status["enqueued"])
            one.completed = int(status["completed"])
    one.calls = _calls(lines)


def _is_of(line: Line, rank: int, sign: Sign) -> bool:
    return (sign.source.rank if line.rank is None else line.rank) == rank


def _calls(lines: Sequence[Line]) -> tuple[tuple[str, str], ...]:
    """The stack of the failed collective, where it was recorded."""
    start = next(
        (
            at
            for at, line in enumerate(lines)
            if "Stack trace of the failed collective:" in line.text
        ),
        len(lines),
    )
    found: list[tuple[str, str]] = []
    for line in lines[start + 1 :]:
        call = _CALLED.match(line.text.strip())
        if call is None:
            break
        found.append((call["inside"], f"{call['file']}:{call['at']}"))
    return tuple(found)


def groups(standing: Mapping[int, Standing]) -> dict[str, dict[int, Standing]]:
    """Those who wait in an operation with a number, by group: numbers of two groups have nothing to do with each other."""
    found: dict[str, dict[int, Standing]] = {}
    for rank, one in sorted(standing.items()):
        if one.seq is not None:
            found.setdefault(one.group, {})[rank] = one
    return found
