"""The Python exceptions of a log: what each says, where it was raised, and how it goes with the one before."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from jumar.why.absent import none_at
from jumar.why.marks import Quoted, first_quoted, quoted
from jumar.why.reading import Line
from jumar.why.traced import MOST_TRACED, stopped_at

_MOST_MARKED = 12
_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.+))?')
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.){0,8}(?:Exception|[A-Z_]\w*(?:Error|Exception|Interrupt|Exit|Exhausted|Failed|Fault|Abort|Expired|Timeout|NotFound|Unavailable)"
    # `cv2.error`, `struct.error`, `socket.timeout`: a module tells them from words.
    r"|(?<=\.)(?:error|timeout|Empty|Full)))"
    r"(?::\s*(?P<message>\S.*)|:?\s*$)"
)
# Below a stack: a name as classes have it, `psutil.NoSuchProcess`; no word of another line, `INFO:`.
_ANY_EXCEPTION = re.compile(
    r"(?P<name>(?:\w+\.){0,8}[A-Z_]\w*[a-z]\w{2,60})(?:: ?(?P<message>.*)|\s*$)"
)
# The first line of a message that says nothing: what was raised is quoted below it.
_HOLLOW = re.compile(
    r"(?:in (?:user|converted) code|\d+ root error\(s\) found\.?|Traceback \(most recent call last\)"
    r"|Graph execution error|raised|failed with):?\s*$"
)
# Paddle rules off a stack of its own and only then says what it was: `------`, `Error Message Summary:`, `------`.
_RULER = re.compile(r"[-=*#]{8,69}")
_QUOTED = re.compile(
    r"\s*(?:\(\d+\) (?:[A-Z][\w ]{2,40}: +)?(?P<part>\S.*)|(?P<said>(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception): ?\S.*))"
)
# These are raised where code is wrong; others tell of the world as well.
_OWN_FAULTS = frozenset(
    (
        *("ValueError", "TypeError", "KeyError", "AttributeError", "AssertionError", "IndexError"),
        *("NameError", "UnboundLocalError", "ZeroDivisionError", "NotImplementedError"),
        *("StopIteration", "LookupError", "OverflowError", "FloatingPointError", "ImportError"),
    )
)
_DURING = "During handling of the above exception"
_CAUSED = "The above exception was the direct cause"
# What Python says of an exception of its own cleaning up; the one that ended the program is another.
_ASIDE = (
    *("Error in sys.excepthook", "Exception ignored in", "Error in atexit"),
    # A line that could not be written into a log.
    "--- Logging error ---",
)
# A message ends where a launcher, a logger or another exception speaks.
_ANOTHER_MATTER = re.compile(
    r"\[?[WIEF]\d{3,4} |terminate called|(?:Original )?Traceback|The above exc|During h|srun:|slurmstepd"
    r"|(?:ERROR|WARNING|INFO|CRITICAL):|\[?20\d\d-\d\d-\d\d[ T]|wandb: "
    # MindSpore's C++ code, the kernel, another thread or process, a bar, and a compiler.
    r"|\[(?:ERROR|WARNING|INFO|CRITICAL)\] [A-Z]\w{1,30}\(|\[ {0,8}\d{1,9}\.\d{1,9}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d"
    r"|Exception in thread |Process \w{1,40}-\d+:|Fatal Python error: | *\d{1,3}%\||In file included from "
    # The platform, MPI, and what the shell's script went on with.
    r"|\[ERROR\] (?:TBE |Execute user Python code failed)|\s*(?:Warning|Normal) +[A-Z]\w+ +|Back-off |pyxis: |pdsh@|\[Model[Aa]rts |time=\"20|#\d{1,3} (?:ERROR|\d)"
    r"|-{70,}\s*$|={50,}\s*$|\[[\w.-]+:\d{2,7}\] (?:PMIX|\[\[|mca_|\*\*\*)|Primary job |mpi(?:run|exec)\b"
    r"|(?:Segmentation fault|Aborted|Bus error|Killed)(?: \(core dumped\))?\s*$"
    r"|\S+(?:\.sh|slurm_script): (?:line )?\d+: |(?:cp|mv|rm|ls|cat|tar|mkdir|tee|rsync|fatal): |make(?:\[\d+\])?: \*\*\*|[EW]: "
)
# Below this an exception quotes the one that it was raised for: `BackendCompilerFailed: backend='inductor' raised:`.
_QUOTES = " raised:"
_MESSAGE_LINES, _MOST_ABOVE = 12, 400
_SHORTEST_STACK = 3
_HOLLOW_LINES = 160
# Code that was made at run time: by dataclasses, by packages that patch others.
_MADE = "<string>"
_LIBRARY = (
    *("-packages/", "/lib/python", "-packages\\", "\\Lib\\", "\\lib\\", "<frozen", "<string>"),
    # Compiled code is a package's.
    *(".pyx", ".pxi", ".pxd"),
)
# A traceback that is drawn as a box: its frames are `path:line in name`, all else in it is quoted source.
_BOXED = ("\u2502", "\u256d", "\u2570", "\u2503", "\u254f")
# A name that is too long for its line stands below it.
_BOXED_FRAME = re.compile(
    r"[\u2502\u2503] (?P<path>\S.*\.py):(?P<line>\d+) in\b(?: (?P<name>[^\s\u2502\u2503]+))?"
)
# A traceback of a notebook has the exception's name above it; its frames are `File path:line, in name(…)` or `path in name(…)`.
_NOTEBOOK = re.compile(r"(?P<name>[A-Za-z_][\w.]*)\s{2,}Traceback \(most recent call last\)")
_NOTEBOOK_FRAME = re.compile(
    r"(?:File )?\[?(?P<path>[\w~/.][^\]:]*\.pyc?|[A-Za-z]:\\[^\]:]*\.pyc?)\]?(?:\([^)]*\))?(?::(?P<line>\d+))?,? in (?P<name>\w+)"
)
# Functions that only clean up: what they raise while an exception passes is not why.
_CLEANING = frozenset(("__exit__", "__del__", "__aexit__", "close", "shutdown", "_cleanup"))
_WRAPS_STACK = re.compile(r"[A-Za-z_][\w.]*: Traceback \(most recent call last\)")
# A frame of compiled code has no line of source.
_COMPILED = re.compile(r"\s*File \"[^\"]+\.p(?:yx|xi)\"")
_MARKER = re.compile(r"[\s^~]*|\[Previous line repeated \d+ more times?\]")
# The line at which a frame of a notebook or a box stands, among others that it quotes.
_AT = re.compile(
    r"(?:-{1,6}> ?\[?\d+\]? |[\u2502\u2503] [\u2771>] *\d+ [\u2502\u2503 ]*)(?P<source>[^\u2502\u2503\n]+)"
)


class Frame(NamedTuple):
    """One call of a stack: where it stood, in which function, and the line of source that the stack quotes."""

    path: str
    line: int
    function: str
    source: str
    part: str = ""
    """What of it Python's marks point at; nothing where there are none, or they are below all of it."""


@dataclass(slots=True)
class Raised:
    """A Python exception in a log: its message, where it came from, and how it goes with the one before."""

    index: int
    lines: list[Line]
    name: str
    place: str | None
    frames: str
    is_own: bool
    """The script's own fault, whatever it is."""
    is_library: bool = False
    """The code that raised it is that of a package."""
    asserted: str | None = None
    """The condition that did not hold, where nothing else is said."""
    is_mute: bool = False
    """It has no message."""
    is_effect: bool = False
    replaces: bool = False
    is_aside: bool = False
    is_cleaning: bool = False
    source: str = ""
    """The line of source that raised it, as the stack quotes it."""
    own_source: str = ""
    """The last line of the script's own code that the stack quotes."""
    part: str = ""
    """Of that which raised it, what Python's marks say has failed; nothing where it has none."""
    sides: tuple[str, str, str] | None = None
    """Of that part the left side, the operator, and the right side."""
    none: str = ""
    """The expression that is None, where the stack tells it."""
    quoted: str = ""
    """All lines of source that the stack quotes."""
    handled: str = ""
    """What the exception said that was being handled, or that it was raised for."""
    stack: tuple[Frame, ...] = ()
    """The calls of the script's own code, the outermost first."""

    @property
    def said(self) -> str:
        """Its first line, or what that quotes, with the condition that did not hold if it says nothing."""
        first = self.lines[0].text.strip()
        if _HOLLOW.search(first) or _is_ruled(self.lines):
            return self._quoted_words() or (_before_node(self.lines) or [first])[-1]
        if first.endswith(":") and self.asserted is None:
            # The message begins with a line end.
            first = _with_next(first, self.lines[1:])
        return first if self.asserted is None else f"{first.rstrip(':')}: {self.asserted}"

    def _quoted_words(self) -> str | None:
        """The last exception that its message quotes."""
        found: str | None = None
        for at, line in enumerate(self.lines[1:], 2):
            one = _QUOTED.match(line.text)
            if one is not None:
                said = (one["part"] or one["said"]).rstrip()
                found = _with_next(said, self.lines[at:]) if said.endswith(":") else said
        return found


def _with_next(text: str, lines: Sequence[Line]) -> str:
    """A line that ends with a colon, with the next one."""
    below = (line.text.strip() for line in lines)
    return f"{text} {next((one for one in below if one), '')}".rstrip()


def _is_ruled(lines: Sequence[Line]) -> bool:
    """Whether nothing but a name stands above a ruled off block, which holds the message."""
    below = next((text for line in lines[1:] if (text := line.text.strip())), "")
    return lines[0].text.rstrip().endswith(":") and _RULER.fullmatch(below) is not None


def _before_node(lines: Sequence[Line]) -> list[str]:
    """What TensorFlow says of a node of its graph: the line above the one that names it."""
    texts = [line.text.strip() for line in lines]
    nodes = (at for at in range(2, len(texts)) if texts[at].startswith(("[[{{node", "[[node")))
    return [texts[at - 1] for at in nodes if texts[at - 1]]


def exceptions(lines: Sequence[Line]) -> tuple[list[Raised], set[int]]:
    """The exceptions of what one writer wrote, and which lines only quote source."""
    raised: list[Raised] = []
    quoted: set[int] = set()
    index = 0
    while index < len(lines):
        start = index
        if lines[index].text.lstrip().startswith(_BOXED):
            index = _end_of_box(lines, index)
            quoted |= set(range(start, index))
        # CANN writes `TraceBack` over lines of its own.
        is_stack = index < len(lines) and _TRACEBACK in lines[index].text
        if is_stack:
            index = _end_of_stack(lines, index)
            quoted |= set(range(start, index))
        if is_stack and index < len(lines) and _WRAPS_STACK.match(lines[index].text.strip()):
            # A worker's exception that its parent raised again with the worker's own stack as the message.
            continue
        one = _exception(lines, start, index, is_stack) if index < len(lines) else None
        if one is not None:
            raised.append(one)
            index += len(one.lines)
        elif is_stack and index == len(lines):
            # A stack that was cut off: what stands before it is all that is said of it.
            quoted.discard(start)
        elif not is_stack and index < len(lines):
            # A box may be the last of what was written.
            quoted |= _frame_without_stack(lines, index)
            index += 1
    return raised, quoted


def cut_stack(lines: Sequence[Line], raised: Sequence[Raised]) -> int | None:
    """Where a stack begins, or its last frame, that the end of the log cuts off before its exception."""
    after = raised[-1].index + 1 if raised else 0
    starts = [at for at in range(after, len(lines)) if _TRACEBACK in lines[at].text]
    if starts:
        is_cut = _end_of_stack(lines, starts[-1]) == len(lines)
        return starts[-1] if is_cut and len(lines) - starts[-1] >= _SHORTEST_STACK else None
    last = range(max(after, len(lines) - _SHORTEST_STACK), len(lines))
    frames = [at for at in last if (found := _FRAME.match(lines[at].text)) and found["name"]]
    return frames[-1] if frames and lines[-1].text[:1].isspace() else None


def _end_of_stack(lines: Sequence[Line], start: int) -> int:
    """The line of the exception below a stack: the first that is not indented."""
    notebook = _NOTEBOOK.match(lines[start].text)
    if notebook is not None:
        return _end_of_notebook(lines, start, notebook["name"])
    # An exception stands further left than the frames above it. Frames that have lost their indent are followed by
    # source lines that have lost theirs.
    frames_at, is_below_frame = None, False
    for index in range(start + 1, len(lines)):
        text = lines[index].text
        at = len(text) - len(text.lstrip())
        if text[at:].startswith('File "'):
            frames_at = at if frames_at is None else frames_at
            is_below_frame = True
            continue
        is_source = frames_at == 0 and is_below_frame and not _EXCEPTION.match(text)
        is_below_frame = False
        if not is_source and at < max(frames_at or 0, 1):
            return index
    return len(lines)


def _end_of_notebook(lines: Sequence[Line], start: int, name: str) -> int:
    """The line that says again which exception it is, with its message; the next line if none does."""
    for index in range(start + 1, min(start + _MOST_ABOVE, len(lines))):
        text = lines[index].text
        if text.startswith(name) and text[len(name) : len(name) + 1] in ("", ":"):
            return index
        if _TRACEBACK in text:
            break
    return start + 1


def _frame_without_stack(lines: Sequence[Line], index: int) -> set[int]:
    """A frame whose stack has lost its first line, and the source line that it quotes."""
    frame = _FRAME.match(lines[index].text)
    if frame is None or frame["name"] is None:
        return set()
    below = "".join(line.text for line in lines[index + 1 : index + 2]).lstrip()
    is_source = not (
        _EXCEPTION.match(below)
        or _FRAME.match(below)
        or _TRACEBACK in below
        or _COMPILED.match(lines[index].text)
    )
    return {index, index + 1} if is_source else {index}


def _end_of_box(lines: Sequence[Line], start: int) -> int:
    rest = range(start, len(lines))
    is_out = (index for index in rest if not lines[index].text.lstrip().startswith(_BOXED))
    return next(is_out, len(lines))


def _exception(lines: Sequence[Line], start: int, index: int, is_stack: bool) -> Raised | None:
    text = lines[index].text.strip()
    is_below = is_stack or (index > 0 and _COMPILED.match(lines[index - 1].text) is not None)
    found = _EXCEPTION.match(text) or (_ANY_EXCEPTION.match(text) if is_below else None)
    if found is None:
        return None
    above = lines[start if start < index else _first_frame(lines, index) : index]
    frames = [
        frame
        for line in above
        if (
            frame := _FRAME.match(line.text)
            or _BOXED_FRAME.match(line.text.lstrip())
            or _NOTEBOOK_FRAME.match(line.text)
        )
    ]
    # What is evaluated from text has no file; who has it evaluated has. The last tells that the code was made.
    frames = [frame for frame in frames[:-1] if frame["path"] != _MADE] + frames[-1:]
    own = [frame for frame in frames if _is_own(frame)]
    # A syntax error has the place of the error as its last frame.
    shown = (own or [one for one in frames if one["path"] != _MADE] or frames)[-1:]
    before = " ".join(line.text for line in lines[max(start - 3, 0) : start]) if is_stack else ""
    is_script = bool(own) and own[-1] is frames[-1]
    marked = quoted([line.text for line in above]) or Quoted()
    message = _message(lines, index)
    traced = stopped_at([line.text for line in lines[index : index + MOST_TRACED]], is_library_path)
    return Raised(
        index,
        message,
        found["name"],
        traced[0] if traced else f"{shown[0]['path']}:{shown[0]['line'] or '?'}" if shown else None,
        "\n".join(frame[0] for frame in frames).replace("\\", "/"),
        is_own=found["name"] in _OWN_FAULTS or is_script,
        is_library=bool(frames) and not is_script,
        asserted=None if found["message"] else _asserted(above),
        is_mute=not found["message"],
        is_effect=_CAUSED in before,
        replaces=_DURING in before,
        is_aside=any(word in before for word in _ASIDE),
        is_cleaning=bool(frames) and frames[-1]["name"] in _CLEANING,
        source=_source(above),
        own_source=traced[1] if traced else _own_source(above),
        part=marked.part,
        sides=marked.sides,
        none=_none(above, text),
        quoted="\n".join(line.text.strip()[:160] for line in above if not _FRAME.match(line.text)),
        stack=tuple(_own_calls(above)),
    )


def _own_calls(above: Sequence[Line]) -> Iterator[Frame]:
    for at, (line, below) in enumerate(pairwise(above), 1):
        frame = _FRAME.match(line.text)
        if frame is not None and _is_own(frame) and not _FRAME.match(below.text):
            function = (frame["name"] or "").strip()
            marked = first_quoted([one.text for one in above[at : at + _MOST_MARKED]])
            part = "" if marked is None else marked.part
            yield Frame(frame["path"], int(frame["line"]), function, below.text.strip(), part)


def _message(lines: Sequence[Line], index: int) -> list[Line]:
    message = [lines[index]]
    is_ruled = _is_ruled(lines[index : index + _MESSAGE_LINES])
    is_hollow = is_ruled or _HOLLOW.search(lines[index].text) is not None
    for line in lines[index + 1 : index + (_HOLLOW_LINES if is_hollow else _MESSAGE_LINES)]:
        above = message[-1].text.strip()
        is_quoted = above.endswith(_QUOTES) or (is_ruled and _RULER.fullmatch(above) is not None)
        is_another = _EXCEPTION.match(line.text) and not is_quoted
        if is_another or _ANOTHER_MATTER.match(line.text):
            break
        message.append(line)
    return message


def _first_frame(lines: Sequence[Line], index: int) -> int:
    """Where the frames above an exception begin whose stack has lost its first line."""
    for above in range(index - 1, max(index - _MOST_ABOVE, -1), -1):
        text = lines[above].text
        if not (text[:1].isspace() or _FRAME.match(text)):
            return above + 1
    return max(index - _MOST_ABOVE + 1, 0)


def _asserted(above: Sequence[Line]) -> str | None:
    """The last source line that a stack quotes, if it is an assertion."""
    source = _source(above)
    if source.startswith("assert("):
        return f"assert {source.removeprefix('assert')}"
    return source if source.startswith("assert ") else None


def _is_own(frame: re.Match[str]) -> bool:
    return not is_library_path(frame["path"])


def is_library_path(path: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return any(part in path for part in _LIBRARY)


def _own_source(above: Sequence[Line]) -> str:
    """What the last frame of the script's own code quotes."""
    for index in range(len(above) - 2, -1, -1):
        frame = _FRAME.match(above[index].text)
        if frame is not None and _is_own(frame):
            marked = first_quoted([line.text for line in above[index + 1 :]])
            if marked is not None:
                return marked.text
            below = above[index + 1].text.strip()
            return "" if _FRAME.match(below) or _MARKER.fullmatch(below) else below[:160]
    return ""


def _none(above: Sequence[Line], message: str) -> str:
    """What is None in the last line of source, told by the marks below it if there are any."""
    if not above:
        return ""
    is_marked = len(above) > 1 and _MARKER.fullmatch(above[-1].text.strip()) is not None
    source, below = (above[-2].text, above[-1].text) if is_marked else (above[-1].text, "")
    return "" if _FRAME.match(source) else none_at(source, below, message)


def _source(above: Sequence[Line]) -> str:
    """The last statement that a stack quotes."""
    marked = quoted([line.text for line in above])
    if marked is not None:
        return marked.text
    texts = [line.text.strip() for line in reversed(above)]
    pointed = next((found["source"] for text in texts if (found := _AT.match(text))), None)
    if pointed is not None:
        return pointed.strip()[:160]
    return next((text[:160] for text in texts if not _MARKER.fullmatch(text)), "")
