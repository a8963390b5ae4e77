"""Shell scripts with `set -e`, which end without a word."""

import re
from collections.abc import Sequence

from jumar.why.script.reading import Fault, Finding, Script

CAUSES = frozenset(("nothing",))
_ENDS_EARLY = re.compile(r"^\s*set\s+-[a-z]*e|^#!.*\s-[a-z]*e", re.M)
_ECHO = re.compile(r"\s*echo\s+(?:-\w+\s+)?[\"']?(?P<said>[^\"'$`]{4,}?)[\"'$`]?(?:$|[$`{(].*)")
_FAILS_QUIETLY = re.compile(
    r"\b(?:grep|egrep|pgrep|diff|cmp|which|read|expr|let|test|kill|pidof|ls)\b|\(\(|^\s*\[|\|\s*head"
)
_IS_SAFE = re.compile(
    r"\|\|\s*(?:true|:|echo|exit)|^\s*(?:if|while|until|elif|for|case|echo|#|set|export \w+=[^$(]*$)"
)


def look(fault: Fault, script: Script) -> Finding | None:
    """The command after the last line that was printed, if it is one that fails without a word."""
    last = fault.error.strip()
    found = [
        one
        for name in script.names
        if name.endswith((".sh", ".slurm")) and last
        for one in _after(name, (script.text(name) or "").splitlines(), last)
    ]
    if len(found) != 1:
        return None
    name, number = found[0]
    place = script.place(name, number)
    values = {"where": str(place), "line": place.text[:160], "last": last}
    return Finding("shell-ended", values, (place,), "python-error")


def _after(name: str, lines: Sequence[str], last: str) -> list[tuple[str, int]]:
    """The line behind that `echo`."""
    if not _ENDS_EARLY.search("\n".join(lines)):
        return []
    found: list[tuple[str, int]] = []
    for number, line in enumerate(lines, 1):
        said = _ECHO.match(line)
        if said is None or not last.startswith(said["said"].strip()):
            continue
        for later, command in enumerate(lines[number:], number + 1):
            if not command.strip() or command.lstrip().startswith("#"):
                continue
            if _FAILS_QUIETLY.search(command) and not _IS_SAFE.search(command):
                found.append((name, later))
            break
    return found
