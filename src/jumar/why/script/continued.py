"""Command lines that go over several lines of a shell script, and where one is cut in two."""

import re
from collections.abc import Iterator

from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.shelltext import SHELL

CAUSES = frozenset(("syntax", "arguments", "command-missing"))
_SAID = re.compile(
    r"the following arguments are required|command not found|not found$|unrecognized arguments|[Mm]issing (?:option|argument)|No such option|Usage:"
)
_AT = re.compile(
    r"(?P<file>[\w./~+-]+): (?:line )?(?P<line>\d+): (?P<word>-\S*): (?:command )?not found"
)
_BLANK = re.compile(r"\S\s*\\[ \t]+$|^\s*\\[ \t]+$")
_COMMENT = re.compile(r"(?:^|\s)\\\s+#")
_FEW = 3


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that does not go on."""
    if not _SAID.search(fault.error):
        return None
    at = _AT.search(fault.error) or _AT.search(fault.log)
    if at is not None:
        return _above(script, at)
    found = [one for one in _broken(script) if one[2] == "shell-blank"]
    return _told(script, *found[0]) if len(found) == 1 else None


def _above(script: Script, at: re.Match[str]) -> Finding | None:
    """The line above the option that was taken for a command."""
    base = at["file"].rpartition("/")[2]
    files = [one for one in script.names if one.endswith(SHELL) and one.rpartition("/")[2] == base]
    if len(files) != 1:
        return None
    lines = (script.text(files[0]) or "").splitlines()
    number = int(at["line"])
    if number > len(lines) or at["word"].partition("=")[0] not in lines[number - 1]:
        return None
    broken = {(file, where): how for file, where, how in _broken(script)}
    for where in range(number - 1, max(number - 1 - _FEW, 0), -1):
        how = broken.get((files[0], where))
        if how is not None:
            return _told(script, files[0], where, how)
    above = lines[number - 2].rstrip() if number > 1 else ""
    is_plain = bool(above) and not above.endswith("\\") and not above.lstrip().startswith("#")
    return _told(script, files[0], number - 1, "shell-no-backslash") if is_plain else None


def _told(script: Script, file: str, number: int, how: str) -> Finding:
    place = script.place(file, number)
    values = {"where": str(place), "line": place.text[:160]}
    return Finding(how, values, (place,), "arguments")


def _broken(script: Script) -> Iterator[tuple[str, int, str]]:
    """Lines whose backslash is not their last character, and empty ones and comments below a backslash."""
    for name in script.names:
        if not name.endswith(SHELL):
            continue
        lines = (script.text(name) or "").splitlines()
        for number, line in enumerate(lines, 1):
            is_below = number > 1 and lines[number - 2].endswith("\\")
            if line.lstrip().startswith("#") or not line.strip():
                if is_below and number < len(lines) and lines[number].lstrip().startswith("-"):
                    yield name, number, "shell-between"
            elif _BLANK.search(line):
                yield name, number, "shell-blank"
            elif _COMMENT.search(line):
                yield name, number, "shell-comment"
