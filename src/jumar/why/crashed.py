"""Where a process stood when it crashed: the stacks that faulthandler prints of Python, and Ray, MPI and the kernel of machine code.

A crash itself says nothing of why. Whose code it was in does, nearly always: which package, while it was loaded or used, and in
which kind of process."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.why.advice import DISTRIBUTIONS
from jumar.why.event import Event
from jumar.why.particulars import read
from jumar.why.raised import is_library_path
from jumar.why.reading import Line
from jumar.why.signs import Sign, far_lines
from jumar.why.symbols import LONGEST_ERROR, cut

_CRASHED = frozenset(("crash", "aborted"))
_DIED = frozenset(("worker-died",))
"""Who says that a process is gone; the kernel may say that it crashed."""
# The form that these have is that of a signal, which says less than a stack.
_PLAIN_FORMS = frozenset(
    (None, "worker-crash", "illegal-instruction", "crash-heap", "windows-crash")
)
_CURRENT = re.compile(r"Current thread (?:0x)?[0-9a-f]+ [^\n]{0,80}\(most recent call first\):")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<at>\d+) in (?P<name>\S+)')
_COLLECTING = re.compile(r"\s+Garbage-collecting\s*$")
# Signals that tell more than that something crashed.
_SIGNALS = (
    ("illegal", re.compile(r"Illegal instruction|SIGILL")),
    ("bus", re.compile(r"Bus error|SIGBUS")),
    ("overflow", re.compile(r"stack overflow")),
)
_MODULES = "Extension modules: "
_LONGEST_MODULES = 4000
_MOST_FRAMES, _MOST_LOGS = 100, 4
_IN_STACK = "crash"
"""The cause of which the table's forms of stacks say more."""
# What Python runs while it loads compiled code.
_LOADS = re.compile(r"(?:create_module|exec_module|_call_with_frames_removed)$")
_BOOTSTRAP, _CTYPES = "<frozen importlib", "/ctypes/__init__.py"
_PACKAGE = re.compile(r"(?:site|dist)-packages/(?P<name>[\w-]+)")
_STANDARD = re.compile(r"/lib/python3[\d.]*/(?!(?:site|dist)-packages/)|^<frozen")
# `[n3:4411] [ 3] /opt/lib/libnccl.so.2(+0x5)[0x7f]`, `frame #3: f + 0x1 (0x7f in /opt/lib/libc10.so)`, `@ 0x7f f()`,
# `#3 0x7f in f () from /opt/lib/libx.so`, `in libcuda.so.1[7f+1000]`, `C  [libjvm.so+0x5]`.
_NATIVE = re.compile(
    r"(?:^\S{0,80} ?\[ ?\d+\] |^ {0,3}\d{1,3} +(?=/)|\bframe #\d+: |^\s*#\d+ |\bsegfault at [^\n]{0,120}? in |^C +\[|^ ?\d+ +0x)[^\n]{0,400}?"
    r"(?P<library>[\w+-]{2,60}\.(?:cpython[\w-]+\.)?so(?:\.[\d.]{1,12})?)(?=[\s()\[+,]|$)"
)
# `PC: @ 0x7f (unknown) ncclGroupEnd()`: functions whose library is known by how it names them.
_SYMBOL = re.compile(
    r"^(?:PC: )?\s*@ +0x[0-9a-f]+ [^\n]*?(?:\(unknown\)|\d+) +(?P<symbol>[A-Za-z_][\w:~]{2,80})"
)
_OWNERS = (
    (re.compile(r"p?nccl[A-Z_]|ncclNet"), "libnccl.so"),
    (re.compile(r"ibv_|mlx5_|rdma_"), "libibverbs.so"),
    (re.compile(r"uc[pst]_"), "libucp.so"),
    (re.compile(r"arrow::|parquet::"), "libarrow.so"),
    (re.compile(r"H5[A-Z]|hdf5_"), "libhdf5.so"),
    (re.compile(r"cu(?:Ctx|Mem|Launch|Init|Device|Stream|Event|Module)"), "libcuda.so"),
)
# What any stack goes through: Python itself, the system's own, and who prints the stack.
_COMMON = re.compile(
    r"lib(?:c|m|dl|pthread|rt|gcc_s|stdc\+\+|python3[\d.]*|jsig|open-pal|asan|unwind)\b|ld-linux|linux-vdso|_raylet|libucs\b|libc10\.so|libtorch_python"
)


@dataclass(frozen=True, slots=True)
class Stack:
    """What a dump shows, the innermost first."""

    frames: tuple[tuple[str, str, str], ...]
    """File, line and function of each."""
    is_collecting: bool
    """Python was freeing what nobody uses any more."""
    modules: str
    """The compiled modules that were loaded, as they are listed."""


def name_where_it_crashed(chosen: Sign, others: Sequence[Sign]) -> None:
    """Of a crash, whose code it was in, if a stack of it was written."""
    event = chosen.event
    if event.cause.name not in _CRASHED | _DIED or event.particular not in _PLAIN_FORMS:
        return
    signs = (chosen, *(one for one in others if one.event.cause.name in _CRASHED))
    told = [one for one in signs if one.event.cause.name in _CRASHED]
    for sign in told[:_MOST_LOGS]:
        if _name(event, far_lines(sign)):
            return


def _name(event: Event, lines: Sequence[Line]) -> bool:
    stack = _stack(lines)
    if stack is not None and stack.frames:
        signal = next((how for how, said in _SIGNALS if said.search(event.line.text)), "call")
        return _tell(event, _words_of(stack, signal), _values_of(stack))
    library = next(_libraries(lines), None)
    return library is not None and _tell(event, f"native {library}", {"library": library})


def _tell(event: Event, text: str, values: dict[str, str]) -> bool:
    form = read(_IN_STACK, text)
    if form is None:
        return False
    event.cause, event.particular, event.is_hint = form.cause, form.name, False
    event.values = {**event.values, **values, **form.values}
    package = event.values.get("package", "")
    event.values["install"] = DISTRIBUTIONS.get(package, package)
    return True


def _stack(lines: Sequence[Line]) -> Stack | None:
    """The last dump of the thread that crashed."""
    starts = [at for at, line in enumerate(lines) if _CURRENT.match(line.text)]
    if not starts:
        return None
    below = lines[starts[-1] + 1 :]
    frames: list[tuple[str, str, str]] = []
    is_collecting = bool(below) and _COLLECTING.match(below[0].text) is not None
    for line in below[is_collecting : _MOST_FRAMES + 1]:
        frame = _FRAME.match(line.text)
        if frame is None:
            break
        frames.append((frame["file"].replace("\\", "/"), frame["at"], frame["name"]))
    listed = (line.text for line in below if line.text.startswith(_MODULES))
    return Stack(tuple(frames), is_collecting, next(listed, "")[:_LONGEST_MODULES])


def _words_of(stack: Stack, signal: str) -> str:
    """The stack as the table's forms read it: how, then frame by frame, then what was loaded."""
    files = [file for file, _, _ in stack.frames]
    inner = next((at for at, file in enumerate(files) if not _is_standard(file)), len(files))
    how = "freed" if stack.is_collecting else _called_from(stack.frames[:inner]) or signal
    if how == "call" and _imports(stack.frames[inner:]):
        how = "import"
    told = [f"{file}, in {name}" for file, _, name in stack.frames[inner:]]
    return "\n".join((how, *(told or files[:1]), stack.modules))


def _imports(frames: Sequence[tuple[str, str, str]]) -> bool:
    """Whether a package was at its own first lines: what crashes there is what it loads."""
    return bool(frames) and frames[0][2] == "<module>" and is_library_path(frames[0][0])


def _called_from(standard: Sequence[tuple[str, str, str]]) -> str:
    """What of Python's own was called last, where that tells."""
    if any(_loads(frame) for frame in standard):
        return "import"
    calls = (name for file, _, name in standard if file.endswith(_CTYPES))
    return next(("import" if name == "__init__" else "ctypes" for name in calls), "")


def _values_of(stack: Stack) -> dict[str, str]:
    """The innermost frame that is not Python's own, whose package that is, and the script's own line."""
    frames = stack.frames
    inner = next((one for one in frames if not _is_standard(one[0])), frames[0])
    own = next((one for one in frames if not is_library_path(one[0])), None)
    found = _PACKAGE.search(inner[0])
    package = "Python" if found is None and is_library_path(inner[0]) else ""
    place = inner if own is None else own
    return {
        "package": found["name"] if found is not None else package or inner[0],
        "error": cut(f"{inner[2]} ({inner[0]}:{inner[1]})", LONGEST_ERROR),
        "place": f"{place[0]}:{place[1]}",
    }


def _loads(frame: tuple[str, str, str]) -> bool:
    file, _, name = frame
    return file.startswith(_BOOTSTRAP) and _LOADS.search(name) is not None


def _is_standard(file: str) -> bool:
    return _STANDARD.search(file) is not None


def _libraries(lines: Sequence[Line]) -> Iterator[str]:
    """The libraries of a stack of machine code, without those that every stack goes through."""
    for line in lines:
        symbol = _SYMBOL.match(line.text)
        if symbol is not None:
            yield from (name for one, name in _OWNERS if one.match(symbol["symbol"]))
        found = _NATIVE.search(line.text)
        if found is not None and not _COMMON.match(found["library"]):
            yield found["library"]
