"""Which paths of a code folder stay behind: a subset of gitignore's rules, from one file.

`.jumarignore` lies at the top of the folder. Blank lines and lines that start with `#` say nothing;
`!` takes a path back in; a `/` at the end means folders only; a `/` elsewhere ties the pattern to
the top; `*`, `?`, `[abc]` stay inside one name, `**` crosses folders. The last matching line wins,
and nothing below a folder left out can be taken back in. Escapes with `\\` and ignore files in
subfolders are not read, and a set cannot hold a `/`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

IGNORE_FILE = ".jumarignore"
ALWAYS_LEFT_OUT = frozenset({".git", "__pycache__", ".venv"})


@dataclass(frozen=True, slots=True)
class _Rule:
    matches: re.Pattern[str]
    leaves_out: bool
    folders_only: bool


class IgnoreRules:
    """The rules of one folder."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = [rule for line in lines if (rule := _parse(line)) is not None]

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether `path`, relative to the folder and with `/` between names, stays behind."""
        if path.rpartition("/")[2] in ALWAYS_LEFT_OUT:
            return True
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.matches.fullmatch(path):
                return rule.leaves_out
        return False


def _parse(line: str) -> _Rule | None:
    pattern = line.rstrip()
    if not pattern or pattern.startswith("#"):
        return None
    leaves_out = not pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    prefix = "" if anchored else "(?:.*/)?"
    try:
        matches = re.compile(prefix + _regex(pattern), re.DOTALL)
    except (ValueError, re.error):
        # A set without an end: matches nothing, as in git.
        return None
    return _Rule(matches, leaves_out, folders_only)


def _regex(pattern: str) -> str:
    """The pattern as a regular expression for a whole relative path."""
    parts: list[str] = []
    names = pattern.split("/")
    for i, name in enumerate(names):
        last = i == len(names) - 1
        if name == "**":
            # a/** is all below a, a/**/b also a/b.
            parts.append(".+" if last else "(?:.*/)?")
        else:
            parts.append(_name_regex(name) + ("" if last else "/"))
    return "".join(parts)


def _name_regex(name: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            parts.append("[^/]*")
        elif character == "?":
            parts.append("[^/]")
        elif character == "[":
            negated = name[at : at + 1] in ("!", "^")
            first = at + negated
            # A bracket that comes first is a member of the set.
            end = name.index("]", first + 1)
            parts.append(f"(?!/)[{'^' if negated else ''}{_members(name[first:end])}]")
            at = end + 1
        else:
            parts.append(re.escape(character))
    return "".join(parts)


def _members(text: str) -> str:
    """The inside of a set; of a range backwards git takes the first character only."""
    found, at = "", 0
    while at < len(text):
        low = re.escape(text[at])
        if at + 2 < len(text) and text[at + 1] == "-":
            found += f"{low}-{re.escape(text[at + 2])}" if text[at] <= text[at + 2] else low
            at += 3
        else:
            found += low
            at += 1
    return found
