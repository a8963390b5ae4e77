"""The shell scripts of a training, line by line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.why.script.reading import Script

SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job")
_DEFAULT = re.compile(r"\$\{(?P<name>\w+)(?::?-(?P<default>[^}]*))?\}|\$(?P<plain>\w+)")


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A line that is no comment."""

    file: str
    number: int
    text: str


def shell_lines(script: Script) -> Iterator[ShellLine]:
    """All lines of all shell scripts, without comments and empty ones."""
    for name in script.names:
        if name.endswith(SHELL):
            for number, text in enumerate((script.text(name) or "").splitlines(), 1):
                if text.strip() and not text.lstrip().startswith("#"):
                    yield ShellLine(name, number, text)


def shell_value(script: Script, text: str) -> str | None:
    """What a word of the shell is, where its variables have a default or one value in these scripts."""
    is_known = True

    def put(found: re.Match[str]) -> str:
        nonlocal is_known
        name = found["name"] or found["plain"]
        given = set(_given(script, name))
        value = given.pop() if len(given) == 1 else found["default"]
        is_known = is_known and bool(value) and "$" not in (value or "")
        return value or ""

    told = _DEFAULT.sub(put, text.strip("\"'"))
    return told if is_known and "`" not in told and "$" not in told else None


def _given(script: Script, name: str) -> Iterator[str]:
    sets = re.compile(rf"^\s*(?:export\s+)?{re.escape(name)}=[\"']?(?P<value>[^\s\"';]+)")
    for line in shell_lines(script):
        found = sets.match(line.text)
        if found is not None:
            yield found["value"]
