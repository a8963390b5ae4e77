"""Makefiles: the commands of recipes, which are shell commands.

Variables get their counterparts; options that name CUDA and containers with cards are reported.
`$(NAME)` is make's variable, not a command; lines that call make's functions stay."""

from jumar.port.files.lines import (
    LineEdits,
    command,
    numbered,
    rewrite,
    split_lines,
    still_cuda,
    without_effect,
)
from jumar.port.files.shell import CODE, surroundings
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity

_RECIPE = lazy_pattern(r"^\t[@+-]*")
_VARIABLE = lazy_pattern(r"\$\((?P<name>\w+)\)")
_FUNCTION = lazy_pattern(r"\$[({]\w+\s")
_PROSE = lazy_pattern(r"^\t[@+-]*\s*(?:#|echo\b|printf\b)")


def port(text: str, options: Options) -> tuple[str, LineEdits]:
    """Port the recipes of a Makefile."""
    edits = LineEdits()
    recipes = [
        (n, line) for n, line in numbered(text) if _RECIPE.match(line) and not _PROSE.match(line)
    ]
    ported = rewrite(text, recipes, lambda _, line: _command(line, options), CODE, edits)
    remaining = split_lines(ported)
    for number, line in recipes:
        without_effect(line, number + 1, CODE, edits)
        still_cuda(remaining[number], number + 1, CODE, edits, Severity.WORK)
    surroundings(((n, _RECIPE.sub("", line)) for n, line in recipes), CODE, edits)
    return ported, edits


def _command(line: str, options: Options) -> str:
    """One line of a recipe; the shell's spelling of make's variables is only used meanwhile."""
    names = {name for name in _VARIABLE.findall(line) if f"${{{name}}}" not in line}
    if _FUNCTION.search(line):
        return line
    spelled = _VARIABLE.sub(r"${\g<name>}", line) if names else line
    ported = command(spelled, options)
    if ported == spelled:
        return line
    for name in names:
        ported = ported.replace(f"${{{name}}}", f"$({name})")
    return ported
