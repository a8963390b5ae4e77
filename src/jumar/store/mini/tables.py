"""Tables as text: CSV with or without a header, lists of paths. Kept rows keep their exact bytes."""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

LABEL_FIELDS = (
    *("label", "labels", "class", "classes", "category", "target", "class_name", "class_id"),
    *("category_id", "label_name", "breed", "species", "标签", "类别", "分类", "y"),
)
_LOOKED_AT_ROWS = 1000


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its text, the file it names, its labels."""

    raw: str
    told: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows about files."""

    encoding: str
    header: str
    rows: tuple[TableRow, ...]

    def written(self, rows: list[TableRow]) -> bytes:
        """The table with these rows."""
        return (self.header + "".join(row.raw for row in rows)).encode(self.encoding)


def read_table(data: bytes, suffix: str, knows: Callable[[str], float]) -> Table | None:
    """The rows; None if no column names known files."""
    found = decoded(data)
    if found is None or not found[0].strip():
        return None
    text, encoding = found
    try:
        lines = split_rows(text, suffix, knows)
    except csv.Error:
        return None
    filled = [fields for fields, _ in lines if fields]
    width = max(len(fields) for fields in filled)
    columns = [[row[at] if at < len(row) else "" for row in filled] for at in range(width)]
    told = file_column(columns, knows)
    if told is None:
        return None
    # Some tables have a line with a count, or comments, before or after the header.
    above = next(at for at, value in enumerate(columns[told]) if knows(value))
    names = [column[above - 1].strip().lower() for column in columns] if above else []
    label = label_column(names, [column[above:] for column in columns], told)
    rows: list[TableRow] = []
    header = "".join(raw for _, raw in lines[: _place_of(above, lines)])
    for fields, raw in lines[_place_of(above, lines) :]:
        if fields:
            mark = fields[label].strip() if label is not None and label < len(fields) else None
            path = fields[told] if told < len(fields) else ""
            rows.append(TableRow(raw, path, frozenset() if mark is None else frozenset({mark})))
    return Table(encoding, header, tuple(rows))


def _place_of(number: int, lines: list[tuple[list[str], str]]) -> int:
    """Where the row of this number is, counting empty lines."""
    filled = [at for at, (fields, _) in enumerate(lines) if fields]
    return filled[number]


def file_column(columns: list[list[str]], knows: Callable[[str], float]) -> int | None:
    """The column with the most file names; names with an extension win over those without."""
    best, best_score = None, 0.0
    for at, column in enumerate(columns):
        looked = column[:_LOOKED_AT_ROWS]
        # Without a header the first row counts too; a header must not disqualify a short table.
        score = sum(knows(value) for value in looked) / max(1, len(looked) - (len(looked) > 1))
        if score >= 0.5 and score > best_score:
            best, best_score = at, score
    return best


def label_column(names: list[str], columns: list[list[str]], told: int) -> int | None:
    """The class column: by its name, else the first with repeating values, preferring words."""
    for wanted in LABEL_FIELDS:
        if wanted in names and names.index(wanted) != told:
            return names.index(wanted)
    repeating = [
        at
        for at, column in enumerate(columns)
        if at != told and 1 < len(set(column)) <= len(column) / 2
    ]
    words = [at for at in repeating if not any(map(_is_number, columns[at]))]
    return next(iter(words or repeating), None)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d*\.?\d+(?:[eE][+-]?\d+)?\s*", text) is not None


def decoded(data: bytes) -> tuple[str, str] | None:
    """The text and its encoding."""
    for encoding in ("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8", "gb18030"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return None


def has_header(rows: list[tuple[list[str], str]]) -> bool:
    """Whether the first row names the columns: by a known name, or as words above numbers."""
    first, second = rows[0][0], rows[1][0] if len(rows) > 1 else []
    if any(map(_is_number, first)):
        return False
    return (
        any(cell.strip().lower() in LABEL_FIELDS for cell in first)
        or any(_is_number(cell) for cell in second)
        or all(re.fullmatch(r"[\w ]{1,30}", cell) for cell in first)
    )


def split_rows(
    text: str, suffix: str, knows: Callable[[str], float] | None = None
) -> list[tuple[list[str], str]]:
    """Fields and raw text of each row; a quoted field may span several lines."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    delimiter = _delimiter(lines, suffix)
    if delimiter is None:
        return [(_words(line, knows) if knows else [line], line) for line in lines]
    reader = csv.reader(lines, delimiter=delimiter)
    rows: list[tuple[list[str], str]] = []
    before = 0
    for fields in reader:
        raw = "".join(lines[before : reader.line_num])
        rows.append((fields, raw if raw.endswith("\n") else raw + "\n"))
        before = reader.line_num
    return rows


def _delimiter(lines: list[str], suffix: str) -> str | None:
    first = next((line for line in lines if line.strip()), "")
    for delimiter in ("\t", ",", ";"):
        if delimiter in first:
            return delimiter
    return "," if suffix in (".csv", ".tsv") else None


def _words(line: str, knows: Callable[[str], float]) -> list[str]:
    """A line of a list: a path that may have spaces, then labels."""
    words = line.split()
    text = line.strip()
    while text and not knows(text):
        text = text.rpartition(" ")[0].rstrip()
    return [text, *line.strip()[len(text) :].split()] if text else words
