"""What CANN says of a fault. Its reports have a structure, whichever layer writes them, and end most messages of torch_npu and MindSpore:

`EI0002: [PID: 7] TIME title. Reason: …` or `[PID: 7] TIME Some_Name(EI0002): title`, then `Possible Cause: 1. …`, `Solution: 1. …`, and below
`TraceBack (most recent call last):` a line of each layer that handed the error on. A code of the form E?9999 has no title of its own
(`Inner Error!`): there the lines below it tell."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jumar.why.reading import Line

# How torch_npu numbers what it raises: `[ERROR] TIME (PID:7, Device:0, RankID:0) ERR02200 DIST call hccl api failed.`
_BEGINS = re.compile(
    r"(?<!\w)(?:\w{1,60}\()?E[A-Z1-9]\d{4}(?:\)?: |\[PID: )|(?<!\w)ERR\d{5} |^-+ Ascend Error Message"
    # A line of its log.
    r"|^\[ERROR\] [A-Z]{2,12}\(\d{1,10},",
    re.MULTILINE,
)
_LOGGED = re.compile(
    r"^\[ERROR\] [A-Z]{2,12}\(\d{1,10},[^)\n]{0,80}\): ?[\d.:-]{19,30} *\[[^\]]{1,200}\] ?(?:\[?(?:tid:)?\d{1,10}\]?,? ?)?|^\[[^\]\n]{0,40}\] \[atb\] "
)
_HEADING = re.compile(r"[- ]")
_NUMBERED = re.compile(r"(?<!\w)ERR\d{5} ")
_NO_ERROR = re.compile(r"^\[(?:INFO|EVENT|DEBUG|WARNING|TRACE)\] ")
_CODE = re.compile(r"(?<!\w)(?:\w{1,60}\()?E[A-Z1-9]\d{4}(?:\)?: |\[PID: )")
_HEAD = re.compile(
    r"(?<!\w)(?:\w{1,60}\()?(?P<code>E[A-Z1-9]\d{4})(?:\[PID: \d{1,10}\][^(\n]{0,90}\(\w{6}\)|\))?: *"
    r"(?:\[PID: \d{1,10}\] *)?(?:20\d\d-[\d.:-]{8,24} *)?"
)
_INNER = re.compile(r"E.9999")
_PARTS = re.compile(r"\b(?P<part>Possible Causes?|Solution|TraceBack \([^)]{0,40}\)): *")
# What may be, and what to do then: no fact about this run.
_MAY_BE = re.compile(
    r"(?:\bPossible Causes?: |\bSolution: |(?<=Reason: )(?=1\. ))(?:(?!TraceBack \().)*+"
)
_WHERE = re.compile(r" ?\[(?:FUNC|FILE):.*|\s*\(Please search .*")
_ENDS = re.compile(
    r"Traceback \(most recent|^- (?:Framework|C\+\+) |^\[?ERROR:? .{0,80}torchelastic|^(?:E|W)\d{4} "
)
# What each layer says of any error that it hands on.
_HANDED_ON = re.compile(
    r"execut(?:e|ion) failed, reason=|Kernel Run failed|launch failed for|call hccl op|^(?:Tiling|Check\w* ?[Pp]aram\w*)[ .]*[Ff]ail|GetDevMsg|GetDevErrMsg"
    r"|^Check Nnopbase|do tiling failed|^Failed to ParseDynamicKernels|^Inner [Ee]rror|^Rectify the fault|^call trace|^Call to \[|AclOpKernelInit|runtime result = |device response code|dump info:|can not be NULL|^The Inner error"
)
# A rule, and what broke it.
_TELLS = re.compile(
    r"(?i)\b(?:should|must|expected?|allow(?:ed|s)?|supports?|unsupported|not implemented|out of range|not equal|mismatch|can ?not be|not match|inconsistent|exceeds?|invalid"
    r"|(?:larger|less|greater|smaller|more) than|no such|not found|not exist|errorStr|different)\b"
)
# Which core of which card it was, before what it was.
_FROM_DEVICE = re.compile(
    r"^The error from device\([^)]{0,60}\), serial number is \d+, (?:there is )?|^[^\n]{0,400}?\bmsg_info:"
)
# What is advised whatever it was.
_NO_ADVICE = re.compile(
    r"(?i)^(?:N/?A|none)?\W*$|collect the plog|contact|submit an issue|input parameter range of the function|host log for details|gitee|technical support"
)
_FEWEST, _LONGEST, _LONGEST_ADVICE, _MOST_LINES = 12, 260, 400, 80
_SAYS_ALL, _SAYS_RULE, _SAYS_SOME, _SAYS_NOTHING = range(4)


@dataclass(frozen=True, slots=True)
class Report:
    """What CANN reports of one fault."""

    facts: str
    """All of it but what may be, and what to do then."""
    said: str
    """What tells most of it."""
    advised: str
    """What it says to do, where that is more than what is said of anything."""
    has_code: bool
    """It is one of CANN, not only a number of torch_npu's."""
    is_rule: bool
    """What is said names a rule that is not kept."""


def begins(text: str) -> bool:
    """Whether a text has a report."""
    return _BEGINS.search(text) is not None


def before_report(lines: Sequence[Line]) -> Iterator[str]:
    """The lines of a message that are not CANN's."""
    for line in lines:
        found = _BEGINS.search(line.text)
        yield line.text[: found.start()].removesuffix("[") if found else line.text
        if found is not None:
            return


def report_in(lines: Iterable[Line]) -> Report | None:
    """The report in these lines, which begin with those that it explains."""
    kept: list[str] = []
    # What a server sends as JSON has its lines in one.
    for text in (part.strip() for line in lines for part in line.text.split("\\n")):
        if (kept and _ENDS.search(text)) or len(kept) == _MOST_LINES:
            break
        if not _NO_ERROR.match(text):
            kept.append(text)
    first = next((at for at, text in enumerate(kept) if begins(text)), None)
    if first is None:
        return None
    facts = "\n".join(_MAY_BE.sub("", text) for text in kept)
    has_code = any(_CODE.search(text) or _LOGGED.match(text) for text in kept)
    level, said = _said(kept[first:])
    is_rule = level == _SAYS_RULE or _TELLS.search(said) is not None
    return Report(facts, said, _advised(kept[first:]), has_code, is_rule)


def logged(lines: Iterable[str]) -> str:
    """The lines of CANN's own log that tell of errors, where it goes to the screen."""
    return "\n".join(line for line in lines if _LOGGED.match(line))


def _said(lines: Sequence[str]) -> tuple[int, str]:
    """The line that tells most: a title that is not an inner error's, else one that states a rule, else the first."""
    found = [one for line in lines for one in _sentences(line)]
    level, said = min(found, key=lambda one: one[0], default=(_SAYS_NOTHING, ""))
    return level, said[:_LONGEST]


def _sentences(line: str) -> Iterator[tuple[int, str]]:
    line = _LOGGED.sub("", line)
    head = _HEAD.search(line)
    if _NUMBERED.search(line) or (
        line.startswith(("[", "(")) and head is None and not line.startswith("[Init]")
    ):
        return
    text = line if head is None else line[head.end() :]
    part = _PARTS.search(text)
    text = text if part is None else text[: part.start()]
    text = _FROM_DEVICE.sub("", _WHERE.sub("", text).strip(" ."))
    if len(text) < _FEWEST or _HEADING.match(text) or _HANDED_ON.search(text):
        return
    if head is not None and not _INNER.match(head["code"]):
        yield _SAYS_ALL, text
    else:
        yield _SAYS_RULE if _TELLS.search(text) else _SAYS_SOME, text


def _advised(lines: Sequence[str]) -> str:
    """What its part `Solution` says, without the numbers."""
    for line in lines:
        parts = list(_PARTS.finditer(line))
        for at, part in enumerate(parts):
            if part["part"] == "Solution":
                end = parts[at + 1].start() if at + 1 < len(parts) else len(line)
                said = _WHERE.sub("", line[part.end() : end]).strip()
                is_said = len(said) <= _LONGEST_ADVICE and not _NO_ADVICE.search(said)
                return said.rstrip(". ") if is_said else ""
    return ""
