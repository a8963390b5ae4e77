"""Notebooks: the code cells are ported together, as one program; the rest of the file stays.

Magics (`%`, `!`) and cells that do not parse are hidden from the parser. Only the sources of cells
that change are written; every other byte of the file stays."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from jumar.port.environment import COUNTERPARTS
from jumar.port.files.lines import LineEdits, asked, command, numbered, still_cuda
from jumar.port.files.shell import surroundings
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.project import Project
from jumar.port.python import PortedText, port_text
from jumar.port.records import Change, Effort, Finding, Kind, Severity, Words
from jumar.port.source import parse

CODE = "JP504"
_SEAM = "# jumar-cell-seam\n"
_MAGIC = "#jumar-magic "
_COMMAND = lazy_pattern(r"\s*(?:[\w, ]+=\s*)?!(?!=)")
_RUN = lazy_pattern(r"\s*%run\s")
_SHELL_CELL = lazy_pattern(r"\s*%%(?:bash|sh|shell|system|script\s+(?:ba|z)?sh)\b")
_CODE_CELL = lazy_pattern(r"\s*%%(?:time|timeit|capture|prun|memit|mprun|snakeviz)\b")
_VARIABLE = lazy_pattern(
    rf"(?P<head>\s*%(?:set_)?env\s+)(?P<name>{'|'.join(COUNTERPARTS)})(?P<value>[ =].*?)(?P<end>\s*)$"
)
_CUDA = lazy_pattern(r"cuda|nvidia", re.IGNORECASE)
_LOOKS_LIKE_CODE = lazy_pattern(
    r"\.cuda\b|[\"']cuda|\b(?:import|def|with|torch)\b|\w\s*=\s*[\w\"'(\[]|\w\(|[A-Z_]+=\S",
)
_SOURCE = lazy_pattern(r"(?<!\\)\"source\"\s*:\s*")
_LIST = lazy_pattern(r"\[(?P<lead>\s*)\".*\"(?P<tail>\s*)\]", re.DOTALL)


class _Cell(NamedTuple):
    """One code cell: where its source stands in the file, and what became of its lines."""

    number: int
    """Its place among all cells of the notebook, from 1."""
    start: int
    end: int
    is_list: bool
    source: str
    lines: tuple[tuple[str, str], ...]
    """Each line, and the same with its commands ported."""
    hidden: str
    """The ported lines as the parser sees them."""
    is_code: bool


def port(text: str, options: Options, path: str, project: Project) -> tuple[str, PortedText]:
    """Port a notebook; returns its new text and what was done."""
    try:
        book = cast("dict[str, Any]", json.loads(text))
        sources = [
            (number, c["source"])
            for number, c in enumerate(book["cells"], start=1)
            if c["cell_type"] == "code"
        ]
        cells = list(_cells(text, sources, options))
    except (ValueError, KeyError, TypeError):
        return text, PortedText(text, findings=(_unreadable(),))
    joined = _SEAM.join(f"{cell.hidden}\n" for cell in cells)
    ported = port_text(joined, options, path=path, project=project)
    where = _places(text, cells)
    parts = ported.text.split(_SEAM)
    if len(parts) != len(cells):
        parts = [cell.hidden for cell in cells]
    found = (*ported.findings, *_hidden_findings(joined), *_unported(cells))
    ported = ported._replace(
        changes=(
            *(_placed_change(change, where) for change in ported.changes),
            *_command_changes(text, cells),
        ),
        findings=tuple(_placed(one, where) for one in found),
    )
    if not ported.changes and not ported.findings and any(_CUDA.search(c.source) for c in cells):
        ported = ported._replace(findings=(_nothing_to_do(),))
    done = 0
    written: list[str] = []
    for cell, part in zip(cells, parts, strict=True):
        shown = _show(part.removesuffix("\n"))
        if shown != cell.source:
            written += (text[done : cell.start], _written(text, cell, shown))
            done = cell.end
    return "".join((*written, text[done:])), ported


class _Place(NamedTuple):
    """A line of a cell: its number in the file, and how people find it in the notebook."""

    in_file: int
    cell: int
    in_cell: int


def _places(text: str, cells: list[_Cell]) -> list[_Place]:
    """The place of each line of the joined program."""
    places: list[_Place] = []
    for cell, own in zip(cells, (_lines_in_file(text, c) for c in cells), strict=True):
        here = [
            _Place(in_file, cell.number, in_cell)
            for in_cell, (in_file, (_, after)) in enumerate(
                zip(own, cell.lines, strict=True), start=1
            )
            for _ in range(max(1, len(_lines(after))))
        ]
        last = here[-1] if here else _Place(own[0] if own else 1, cell.number, 1)
        # The joined program ends each cell with a line of its own, and a seam.
        wanted = cell.hidden.count("\n") + 2
        places += (here + [last] * wanted)[:wanted]
    return places


def _lines_in_file(text: str, cell: _Cell) -> list[int]:
    """The file's own line numbers of a cell's lines."""
    first = text.count("\n", 0, cell.start) + 1
    if not cell.is_list:
        return [first] * len(cell.lines)
    numbers: list[int] = []
    decoder, at, number, counted = json.JSONDecoder(), cell.start + 1, first, cell.start
    for element in json.loads(text[cell.start : cell.end]):
        at = text.index('"', at)
        number += text.count("\n", counted, at)
        counted = at
        _, at = decoder.raw_decode(text, at)
        numbers += [number] * len(_lines(element))
    # A list may break a line in two.
    return (numbers + [number] * len(cell.lines))[: len(cell.lines)]


def _placed(one: Finding, where: list[_Place]) -> Finding:
    if not where:
        return one
    first, last = (where[min(n, len(where)) - 1] for n in (one.line, one.end_line))
    return one._replace(
        line=first.in_file,
        end_line=last.in_file,
        # Columns of the cell's text are not those of its JSON.
        column=1,
        source=f"cell {first.cell}, line {first.in_cell}: {one.source}"[:200],
    )


def _placed_change(change: Change, where: list[_Place]) -> Change:
    if not where:
        return change
    first, last = (where[min(n, len(where)) - 1] for n in (change.line, change.end_line))
    return change._replace(line=first.in_file, end_line=last.in_file)


def _cells(text: str, sources: list[tuple[int, Any]], options: Options) -> Iterator[_Cell]:
    decoder = json.JSONDecoder()
    at = 0
    for number, source in sources:
        while True:
            match = _SOURCE.search(text, at)
            if match is None:
                raise ValueError("a cell without a source")
            value, at = decoder.raw_decode(text, match.end())
            if value == source:
                break
            # The source of a text cell, or an output that has such a key, too.
            at = match.end()
        whole = "".join(source)
        lines = tuple((line, _ported(line, whole, options)) for line in _lines(whole))
        hidden = _hide("".join(after for _, after in lines))
        is_code = _parses(hidden)
        yield _Cell(
            number,
            match.end(),
            at,
            isinstance(source, list),
            whole,
            lines,
            hidden if is_code else _comment(hidden),
            is_code,
        )


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _ported(line: str, cell: str, options: Options) -> str:
    """A line, ported if it is a shell command or sets a variable."""
    variable = _VARIABLE.match(line)
    if variable is not None:
        target = COUNTERPARTS[variable["name"]]
        other = f"{variable['head']}{target}{variable['value']}"
        if target in cell:
            return line
        return (
            f"{other}{variable['end']}"
            if options.npu_only
            else f"{line.rstrip()}\n{other}{variable['end']}"
        )
    if not (_COMMAND.match(line) or _RUN.match(line) or _SHELL_CELL.match(cell)):
        return line
    if not options.npu_only and options.has_accelerator and not _RUN.match(line):
        line = asked(line)
    return command(line, options)


def _parses(source: str) -> bool:
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _hide(source: str) -> str:
    if source.lstrip().startswith("%%") and not _CODE_CELL.match(source):
        return _comment(source)
    hidden: list[str] = []
    goes_on = False
    for line in _lines(source):
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


def _comment(source: str) -> str:
    return "".join(f"{_MAGIC}{line}" for line in _lines(_show(source)))


def _show(ported: str) -> str:
    return ported.replace(f"pass {_MAGIC}", "").replace(_MAGIC, "")


def _command_changes(text: str, cells: list[_Cell]) -> list[Change]:
    return [
        Change(CODE, number, number, before.strip(), after.strip(), "MODIFY")
        for cell in cells
        for number, (before, after) in zip(_lines_in_file(text, cell), cell.lines, strict=True)
        if before != after
    ]


def _hidden_findings(joined: str) -> list[Finding]:
    edits = LineEdits()
    shown = [(n, line.partition(_MAGIC)[2]) for n, line in numbered(joined) if _MAGIC in line]
    surroundings(shown, CODE, edits)
    for number, line in shown:
        still_cuda(line, number + 1, CODE, edits, Severity.WORK)
    return edits.findings


def _unported(cells: list[_Cell]) -> Iterator[Finding]:
    """Code with CUDA in it that only other programs can read, or that does not parse."""
    line = 1
    for cell in cells:
        is_other = cell.source.lstrip().startswith("%%") and not _CODE_CELL.match(cell.source)
        is_shell = _SHELL_CELL.match(cell.source) is not None
        if _CUDA.search(cell.source) and (not cell.is_code or (is_other and not is_shell)):
            first = cell.source.strip().partition("\n")[0]
            is_output = not is_other and not _LOOKS_LIKE_CODE.search(cell.source)
            found = _output() if is_output else _not_code()
            yield found._replace(line=line, end_line=line, source=first[:200])
        line += cell.hidden.count("\n") + 2


def _written(text: str, cell: _Cell, source: str) -> str:
    """A cell's new source, in the file's own layout."""
    raw = text[cell.start : cell.end]
    ascii_only = raw.isascii() and ("\\u" in raw or text.isascii())
    if not cell.is_list:
        return json.dumps(source, ensure_ascii=ascii_only)
    layout = _LIST.fullmatch(raw)
    lead, tail = (layout["lead"], layout["tail"]) if layout is not None else ("", "")
    between = lead or (" " if '", "' in raw else "")
    lines = (json.dumps(line, ensure_ascii=ascii_only) for line in _lines(source))
    return f"[{lead}{f',{between}'.join(lines)}{tail}]"


def _unreadable() -> Finding:
    return _finding(
        Severity.LIMIT,
        Words("The notebook is not JSON with cells.", "Notebook 无法按 JSON 读取。"),
        Words(
            "it was copied unchanged; save it again in Jupyter",
            "已原样复制；请在 Jupyter 中重新保存",
        ),
    )


def _not_code() -> Finding:
    return _finding(
        Severity.WORK,
        Words(
            "This cell mentions CUDA and could not be ported: it is not Python that can be parsed.",
            "该单元提到 CUDA，但不是可解析的 Python，未迁移。",
        ),
        Words("port this cell by hand", "请手工迁移该单元"),
    )


def _output() -> Finding:
    return _finding(
        Severity.INFO,
        Words(
            "This code cell mentions CUDA and is not Python: it seems to be pasted output.",
            "该代码单元提到 CUDA，但不是 Python，似乎是粘贴的输出。",
        ),
        Words("nothing to do, unless it is code", "若不是代码则无需处理"),
        Effort.NONE,
    )


def _nothing_to_do() -> Finding:
    return _finding(
        Severity.INFO,
        Words(
            "The notebook mentions CUDA; no line of its code has to change.",
            "该 Notebook 提到 CUDA，但代码无需修改。",
        ),
        Words("nothing to do", "无需处理"),
        Effort.NONE,
    )


def _finding(
    severity: Severity, why: Words, advice: Words, effort: Effort = Effort.MINUTES
) -> Finding:
    return Finding(CODE, severity, effort, Kind.FILE, 1, 1, 1, "notebook", "", why, advice)
