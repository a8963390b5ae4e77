"""Notebooks: the code cells are ported together, as one program; the rest of the file stays.

Magics (`%`, `!`) are hidden from the parser. The file is written back only if writing the unchanged
notebook gives the same bytes, so outputs and metadata are safe."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, cast

from jumar.port.files.lines import LineEdits, command, numbered
from jumar.port.files.shell import surroundings
from jumar.port.options import Options
from jumar.port.project import Project
from jumar.port.python import PortedText, port_text
from jumar.port.records import Change, Effort, Finding, Kind, Severity, Words

CODE = "JP504"
_SEAM = "# jumar-cell-seam\n"


@dataclass(frozen=True, slots=True)
class _Style:
    indent: int | None
    ascii_only: bool
    tail: str


def port(text: str, options: Options, path: str, project: Project) -> tuple[str, PortedText]:
    """Port a notebook; returns its new text and what was done."""
    try:
        book = cast("dict[str, Any]", json.loads(text))
        cells = [c for c in book["cells"] if c["cell_type"] == "code"]
        sources = ["".join(c["source"]) for c in cells]
    except (ValueError, KeyError, TypeError):
        return text, PortedText(text, findings=(_unreadable(text),))
    commands = [_port_commands(source, options) for source in sources]
    hidden = [_hide_magics(source) for source in commands]
    joined = _SEAM.join(f"{source}\n" for source in hidden)
    ported = port_text(joined, options, path=path, project=project)
    ported = replace(
        ported,
        changes=(*ported.changes, *_command_changes(sources, commands)),
        findings=(*ported.findings, *_command_findings(joined)),
    )
    if not ported.changes:
        return text, ported
    style = _style(text, book)
    parts = ported.text.split(_SEAM)
    if style is None or len(parts) != len(cells):
        return text, PortedText(text, findings=(*ported.findings, _unwritable(text)))
    for cell, part, source in zip(cells, parts, sources, strict=True):
        shown = _show_magics(part.removesuffix("\n"))
        if shown != source:
            is_list = isinstance(cell["source"], list)
            cell["source"] = shown.splitlines(keepends=True) if is_list else shown
    return _dump(book, style), ported


_MAGIC = "#jumar-magic "
_COMMAND = re.compile(r"\s*(?:[\w, ]+=\s*)?!(?!=)")


def _port_commands(source: str, options: Options) -> str:
    """Lines that start with `!`, or assign the result of one, are shell commands."""
    return "".join(
        command(line, options) if _COMMAND.match(line) else line
        for line in source.splitlines(keepends=True)
    )


def _command_changes(sources: list[str], commands: list[str]) -> list[Change]:
    return [
        Change(CODE, number, number, before.strip(), after.strip(), "MODIFY")
        for source, ported in zip(sources, commands, strict=True)
        for number, (before, after) in enumerate(
            zip(source.splitlines(), ported.splitlines(), strict=True), start=1
        )
        if before != after
    ]


def _command_findings(joined: str) -> list[Finding]:
    edits = LineEdits()
    shown = ((n, line.partition(_MAGIC)[2]) for n, line in numbered(joined) if _MAGIC in line)
    surroundings(shown, CODE, edits)
    return edits.findings


def _hide_magics(source: str) -> str:
    if source.lstrip().startswith("%%"):
        return "".join(f"{_MAGIC}{line}" for line in source.splitlines(keepends=True))
    hidden: list[str] = []
    goes_on = False
    for line in source.splitlines(keepends=True):
        bare = line.lstrip()
        if goes_on:
            hidden.append(f"{_MAGIC}{line}")
        elif bare.startswith(("%", "!", "?")) or _COMMAND.match(line):
            hidden.append(f"{line[: len(line) - len(bare)]}pass {_MAGIC}{bare}")
        else:
            hidden.append(line)
            continue
        goes_on = line.rstrip().endswith("\\")
    return "".join(hidden)


def _show_magics(ported: str) -> str:
    return ported.replace(f"pass {_MAGIC}", "").replace(_MAGIC, "")


def _style(text: str, book: dict[str, Any]) -> _Style | None:
    """How the file was formatted, if that can be reproduced exactly."""
    tail = text[len(text.rstrip()) :]
    for indent in (1, 2, 4, None):
        for ascii_only in (False, True):
            style = _Style(indent, ascii_only, tail)
            if _dump(book, style) == text:
                return style
    return None


def _dump(book: dict[str, Any], style: _Style) -> str:
    return json.dumps(book, indent=style.indent, ensure_ascii=style.ascii_only) + style.tail


def _unreadable(text: str) -> Finding:
    return _finding(
        Words("The notebook is not JSON with cells.", "Notebook 无法按 JSON 读取。"),
        Words(
            "it was copied unchanged; save it again in Jupyter",
            "已原样复制；请在 Jupyter 中重新保存",
        ),
    )


def _unwritable(text: str) -> Finding:
    return _finding(
        Words(
            "The notebook's formatting cannot be reproduced exactly.",
            "该 Notebook 的格式无法原样写回。",
        ),
        Words("save it once in Jupyter, then port again", "请先在 Jupyter 中保存一次再迁移"),
    )


def _finding(why: Words, advice: Words) -> Finding:
    return Finding(
        CODE, Severity.LIMIT, Effort.MINUTES, Kind.FILE, 1, 1, 1, "notebook", "", why, advice
    )
