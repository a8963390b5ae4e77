"""Commands in README and other documents, in fenced blocks of shell commands.

Elsewhere, only a line that sets `CUDA_VISIBLE_DEVICES` is surely a command; commands in code spans are
only reported. Prose, Python examples and output stay. Options such as `--device cuda` also stay if the code is portable: a reader with a
GPU needs them; they are listed, with what to write for an NPU."""

from jumar.port.files.lines import LineEdits, command, numbered, rewrite, split_lines, still_cuda
from jumar.port.files.shell import surroundings
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity

CODE = "JP505"
_QUOTES = lazy_pattern(r"^\s*(?:>\s*)+")
_FENCE = lazy_pattern(r"^[\s>]*(?P<fence>```+|~~~+)\s*\{?\.?(?P<kind>[\w+-]*)")
_SHELLS = frozenset(
    {"", "bash", "sh", "shell", "console", "zsh", "shell-session", "bashrc", "commandline"}
)
_WINDOWS = frozenset({"powershell", "pwsh", "ps1", "bat", "batch", "cmd", "dos"})
"""Shells whose commands are reported but not changed: they set variables in another way."""
_SPAN = lazy_pattern(r"(?<!`)`(?P<command>[^`\n]+\s[^`\n]+)`(?!`)")
_COMMAND = lazy_pattern(
    r"^\s*(?:[$>%]\s+)?(?:[A-Z_]+=\S+\s+)*(?:python3?|torchrun|accelerate|deepspeed|bash|sh|nohup|export|"
    r"CUDA_VISIBLE_DEVICES=|-{1,2}\w|srun|horovodrun|mpirun)"
)
_QUOTED = lazy_pattern(
    r"^(?:\s{4,}|\s*>\s*)(?:\$\s+)?(?:export\s+)?CUDA_VISIBLE_DEVICES=[\d,\"']+(?:\s|$)"
)
"""A command outside fences: in an indented or quoted block, and unlike prose."""


def port(text: str, options: Options) -> tuple[str, LineEdits]:
    """Port the commands of a Markdown or reStructuredText document."""
    edits = LineEdits()
    inside: list[tuple[int, str]] = []
    shown: list[tuple[int, str]] = []
    prose: list[tuple[int, str]] = []
    spans: list[tuple[int, str]] = []
    fence, kind = "", ""
    for number, line in numbered(text):
        match = _FENCE.match(line)
        if match and not fence:
            fence, kind = match["fence"], match["kind"].lower()
        elif match and match["fence"].startswith(fence):
            fence = ""
        elif fence and kind in _SHELLS | _WINDOWS:
            shown.append((number, _QUOTES.sub("", line)))
            if kind in _SHELLS and _COMMAND.match(line):
                inside.append((number, line))
        elif not fence:
            prose.append((number, line))
            spans += ((number, m["command"]) for m in _SPAN.finditer(line))
            if _QUOTED.match(line):
                inside.append((number, line))
    surroundings(shown, CODE, edits, Severity.INFO)
    surroundings(spans, CODE, edits, Severity.INFO)
    ported = rewrite(text, inside, lambda _, line: command(line, options), CODE, edits)
    remaining = split_lines(ported)
    for number, _ in (*shown, *prose):
        still_cuda(remaining[number], number + 1, CODE, edits, Severity.INFO, named="--")
    return ported, edits
