"""The tables of `npu-smi info`: which text belongs to which column.

Columns are found by their names in the header, never by position. One cell may hold several
columns, and one chip may take several lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Names of more than one word; a single space inside them does not end the column.
_NAMES = (
    r"Process\s?id\s?in\s?container|Process\s?(?:id|name|memory)|NPU\s?Util(?:ization)?(?:\s?Rate)?"
    r"|NPU\s?ID|Chip\s?ID|Hugepages?-Usage|Memory-Usage|HBM-Usage"
    r"|AI\s?Core(?:\s?(?:Usage|Util)\w*)?|Bus-?\s?Id|Phy-?\s?ID|Health|Power|Temp(?:erature)?"
    r"|Utilization|Device|Memory|HBM|Chip|Name|NPU"
)
_COLUMN = re.compile(rf"(?<![\w-])(?:{_NAMES})(?:\s?\([^)\s]{{1,8}}\))?(?![\w-])", re.IGNORECASE)
_GAP = re.compile(r" {2,}")
_VALUE = re.compile(r"N/A|[^\s/]+\s*/\s*[^\s/]+|\S+", re.IGNORECASE)
_UNIT = re.compile(r"\(([^)]*)\)")
_USAGE = re.compile(r"(?:memory|hbm|hugepages?)(?:usage)?")
_TOP_EDGE = re.compile(r"\+[-=+]+")
_EDGE_REST = re.compile(r"[-=][-=+]*|\+")


@dataclass(frozen=True, slots=True)
class Column:
    """One name in a header, and where it starts in its cell."""

    key: str
    unit: str
    start: int

    @property
    def is_usage(self) -> bool:
        """Whether its values are written `used / total`."""
        return _USAGE.fullmatch(self.key) is not None


@dataclass(frozen=True, slots=True)
class HeaderLine:
    """One line of a header: the columns of each cell."""

    cells: tuple[tuple[Column, ...], ...]

    def read(self, cells: list[str]) -> dict[str, str] | None:
        """The values of one line by column key; None if the line has a different shape."""
        if len(cells) == len(self.cells):
            values: dict[str, str] = {}
            for columns, cell in zip(self.cells, cells, strict=True):
                values.update(_assign(columns, cell))
            return values
        columns = tuple(column for cell in self.cells for column in cell)
        found = list(_VALUE.finditer(" ".join(cells)))
        if len(found) != len(columns):
            return None
        return {column.key: match[0] for column, match in zip(columns, found, strict=True)}

    def units(self) -> dict[str, str]:
        """The unit of each column (in brackets), in lower case."""
        return {column.key: column.unit for cell in self.cells for column in cell}


def unfold(lines: list[str]) -> list[str]:
    """The lines of a table that a narrow terminal wrapped, joined again.

    The top border shows the terminal's width and how many parts each line was split into."""
    top = next((at for at, line in enumerate(lines) if _TOP_EDGE.fullmatch(line)), len(lines))
    width = len(lines[top]) if top < len(lines) else 0
    parts = 1
    while top + parts < len(lines) and _EDGE_REST.fullmatch(lines[top + parts]):
        parts += 1
    if parts == 1:
        return lines
    whole = lines[:top]
    at = top
    while at < len(lines):
        count = parts if lines[at].startswith(("|", "+")) else 1
        whole.append("".join(part.ljust(width) for part in lines[at : at + count]).rstrip())
        at += count
    return whole


def split_cells(line: str) -> list[str]:
    """The cells between the bars."""
    inner = line.strip()
    inner = inner.removeprefix("|").removesuffix("|")
    return inner.split("|")


def parse_header(line: str) -> HeaderLine:
    """The columns that a header line names."""
    return HeaderLine(tuple(tuple(_columns(cell)) for cell in split_cells(line)))


def column_key(name: str) -> str:
    """`HBM-Usage(MB)` and `HBM Usage` are both `hbmusage`."""
    return re.sub(r"[^a-z0-9]", "", _UNIT.sub("", name).lower())


def _columns(cell: str) -> Iterator[Column]:
    at = 0
    for piece in _GAP.split(cell):
        start = cell.index(piece, at)
        at = start + len(piece)
        if not piece.strip():
            continue
        known = list(_COLUMN.finditer(piece))
        if not known:
            yield _column(piece, start)
            continue
        edge = 0
        for match in known:
            if piece[edge : match.start()].strip():
                yield _column(piece[edge : match.start()], start + edge)
            yield _column(match[0], start + match.start())
            edge = match.end()
        if piece[edge:].strip():
            yield _column(piece[edge:], start + edge)


def _column(name: str, start: int) -> Column:
    unit = _UNIT.search(name)
    lead = len(name) - len(name.lstrip())
    return Column(column_key(name), unit[1].lower() if unit else "", start + lead)


def _assign(columns: tuple[Column, ...], cell: str) -> dict[str, str]:
    if not columns:
        return {}
    if len(columns) == 1:
        return {columns[0].key: cell.strip()}
    found = list(_VALUE.finditer(cell))
    if len(found) == len(columns):
        return {column.key: match[0] for column, match in zip(columns, found, strict=True)}
    if len(found) > len(columns):
        # A name with spaces in it: the last column takes the rest.
        values = {column.key: match[0] for column, match in zip(columns, found, strict=False)}
        values[columns[-1].key] = cell[found[len(columns) - 1].start() :].strip()
        return values
    usages = [match for match in found if "/" in match[0] and match[0].lower() != "n/a"]
    others = [match for match in found if match not in usages]
    return {
        **_nearest([column for column in columns if column.is_usage], usages),
        **_nearest([column for column in columns if not column.is_usage], others),
    }


def _nearest(columns: list[Column], found: list[re.Match[str]]) -> dict[str, str]:
    """By order if none is missing; otherwise each value goes to the nearest free column start."""
    if len(found) >= len(columns):
        return {column.key: match[0] for column, match in zip(columns, found, strict=False)}
    values: dict[str, str] = {}
    free = list(columns)
    for match in found:
        column = min(free, key=lambda free_one: abs(free_one.start - match.start()))
        values[column.key] = match[0]
        free.remove(column)
    return values
