"""An environment that a shell script sets up in a shell of its own, which takes it along when it ends."""

import re
from collections.abc import Sequence

from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.shelltext import ShellLine, shell_lines

CAUSES = frozenset(
    (
        "module-missing",
        "command-missing",
        "key-missing",
        "version-mismatch",
        "no-cuda",
        "library-missing",
    )
)
_RUNS = re.compile(
    r"^\s*(?:exec\s+)?(?:(?:/\S+/)?(?:ba|z|da)?sh\s+(?:-\w+\s+)*|(?=\./|\"?\$))[\"']?(?P<script>[^\s\"';&|]+\.(?:sh|bash|env))[\"']?\s*(?:\|\|.*|&&.*|;.*)?(?:#.*)?$"
)
_ACTIVATES = re.compile(
    r"^\s*(?:(?:source|\.)\s+\S*/activate\b|(?:source|\.)\s+\S*conda\.sh|(?:conda|mamba|micromamba)\s+activate\b|module\s+load\b)"
)
_EXPORTS = re.compile(r"^\s*export\s+(?P<name>\w+)=")
_PYTHON = re.compile(
    r"(?:^|\s|/)(?:python[\d.]*|torchrun|accelerate|deepspeed)\s+(?!-c\b|-V|--version)\S"
)
_VARIABLE = re.compile(r"KeyError: '(?P<name>[A-Z][A-Z0-9_]+)'")


def look(fault: Fault, script: Script) -> Finding | None:
    """`bash env.sh` in place of `source env.sh`."""
    variable = _VARIABLE.search(fault.error)
    if fault.cause == "key-missing" and variable is None:
        return None
    lines = list(shell_lines(script))
    found = [
        (line, inner)
        for line in lines
        if (ran := _RUNS.match(line.text)) is not None
        for inner in _set_up(lines, ran["script"], None if variable is None else variable["name"])
        if _trains_after(lines, line)
    ]
    if len(found) != 1:
        return None
    line, inner = found[0]
    where, there = script.place(line.file, line.number), script.place(inner.file, inner.number)
    name = inner.file.rpartition("/")[2]
    values = {"line": line.text.strip(), "where": str(where), "code": inner.text.strip()}
    values |= {"there": str(there), "script": name}
    return Finding("environment-left", values, (where, there), "configuration")


def _set_up(lines: Sequence[ShellLine], ran: str, variable: str | None) -> list[ShellLine]:
    """The first line of that script that changes the environment, if it runs no training and nothing else sources it."""
    name = ran.rpartition("/")[2]
    own = [one for one in lines if one.file.rpartition("/")[2] == name]
    sources = re.compile(rf"(?:^|[\s;&])(?:source|\.)\s+\S*{re.escape(name)}")
    if len({one.file for one in own}) != 1 or any(sources.search(one.text) for one in lines):
        return []
    if any(_PYTHON.search(one.text) for one in own):
        return []
    if variable is None:
        return [one for one in own if _ACTIVATES.match(one.text)][:1]
    exports = [
        one for one in own if (set_to := _EXPORTS.match(one.text)) and set_to["name"] == variable
    ]
    return exports[:1]


def _trains_after(lines: Sequence[ShellLine], line: ShellLine) -> bool:
    """Whether the same script starts Python later, and does not activate anything by itself."""
    same = [one for one in lines if one.file == line.file]
    return any(one.number > line.number and _PYTHON.search(one.text) for one in same) and not any(
        _ACTIVATES.match(one.text) for one in same
    )
