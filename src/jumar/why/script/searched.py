"""Which Python a shell script starts: its search path is changed after the environment was activated."""

import re
from collections.abc import Iterator

from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.shelltext import SHELL, ShellLine, shell_lines, shell_value

CAUSES = frozenset(
    ("module-missing", "command-missing", "library-mismatch", "import-name", "library-missing")
)
_MODULE = re.compile(
    r"No module named '(?P<name>\w+)|(?P<tool>torchrun|accelerate|deepspeed): command"
)
_ACTIVATES = re.compile(
    r"(?:^|[;&]\s*|\s)(?:source|\.)\s+\S*/activate\b|\b(?:conda|mamba|micromamba)\s+activate\s+\S|\b(?:pip3?|pip)\s+install\b"
)
_STARTS = re.compile(
    r"(?:^|[;&|]\s*|\s)(?P<program>python[\d.]*|torchrun|accelerate|deepspeed)\s+(?!-m\s+(?:pip|venv)\b|-c\b|-V\b|--version)\S"
)
_FRONT = re.compile(r"\bPATH=(?P<value>[\"']?[^\s;]*?):?(?:\$PATH|\$\{PATH\})")
_MODULES = re.compile(
    r"^\s*(?:module|ml)\s+(?:purge|reset|restore|(?:load|swap|add)\s+[^\n]*(?:python|conda|pytorch|tensorflow))",
    re.I,
)
_LEAVES = re.compile(
    r"^\s*(?:conda\s+)?deactivate\b|^\s*(?:source|\.)\s+(?:~|\$HOME|/etc)/\.?(?:bashrc|profile|bash_profile)"
)
_SOURCES = re.compile(r"(?:^|[;&]\s*)(?:source|\.)\s+[\"']?(?P<file>[^\s\"';]+)")
_WITH_PYTHON = re.compile(r"^/usr(?:/local)?/s?bin/?$|^/bin/?$|conda|python|venv|/envs?/")


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that puts another Python first, between the activation and the start."""
    missing = _MODULE.search(fault.error)
    if missing is None:
        return None
    name = missing["name"] or missing["tool"]
    if any(one.endswith((f"/{name}.py", f"/{name}/__init__.py")) for one in script.names):
        return None
    lines = list(shell_lines(script))
    for file in dict.fromkeys(line.file for line in lines):
        own = [line for line in lines if line.file == file]
        found = _changed(script, own)
        if found is not None:
            active, change, why, start = found
            places = tuple(script.place(one.file, one.number) for one in (active, change, start))
            values = {
                "module": name,
                "active": str(places[0]),
                "where": str(places[1]),
                "code": change.text.strip()[:120],
                "start": str(places[2]),
                "run": start.text.strip()[:120],
                "why": f"{why.text[:120]} ({why})",
            }
            return Finding("path-after", values, (*places, why), "module-missing")
    return None


def _changed(
    script: Script, lines: list[ShellLine]
) -> tuple[ShellLine, ShellLine, Place, ShellLine] | None:
    active = next((one for one in lines if _ACTIVATES.search(one.text)), None)
    if active is None:
        return None
    change: tuple[ShellLine, Place] | None = None
    for line in lines:
        if line.number <= active.number:
            continue
        if _ACTIVATES.search(line.text) and "install" not in line.text:
            # It was activated again.
            change = None
        why = next(_puts_another(script, line), None)
        if why is not None:
            change = (line, why)
        if change is not None and _STARTS.search(line.text):
            return active, change[0], change[1], line
    return None


def _puts_another(script: Script, line: ShellLine) -> Iterator[Place]:
    """The line that puts another Python first: this one, or one of the file that it reads."""
    if _is_change(script, line.text):
        yield script.place(line.file, line.number)
    read = _SOURCES.search(line.text)
    if read is None:
        return
    base = read["file"].rpartition("/")[2]
    files = [one for one in script.names if one.endswith(SHELL) and one.rpartition("/")[2] == base]
    for other in shell_lines(script) if len(files) == 1 else ():
        if other.file == files[0] and _is_change(script, other.text):
            yield script.place(other.file, other.number)


def _is_change(script: Script, text: str) -> bool:
    if _MODULES.search(text) or _LEAVES.search(text):
        return True
    found = _FRONT.search(text)
    given = "" if found is None else found["value"].strip("\"'")
    folders = [shell_value(script, one) or one for one in given.split(":") if one]
    is_env = any(re.search(r"venv|VIRTUAL_ENV|CONDA_PREFIX", one, re.I) for one in given.split(":"))
    return not is_env and any(_WITH_PYTHON.search(one) for one in folders)
