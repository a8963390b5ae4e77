"""The port as one patch, to read, to send, or to apply with git; and the difference of two texts by lines.

Ports change lines in place and insert a few, so a short look-ahead is enough and takes a fraction
of the time of a general diff. Correct for any two texts, just less compact."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jumar.port.records import FileResult
from jumar.port.report.summary import Report


def render(report: Report) -> str:
    """A patch of every changed file, helper files included."""
    parts = [_one(report.root, result) for result in report.results if result.ported is not None]
    parts += [
        added(path, _text(data)) for path, data in report.added if not (report.root / path).exists()
    ]
    return "".join(parts)


def _one(root: Path, result: FileResult) -> str:
    assert result.ported is not None
    before = (root / result.path).read_bytes()
    return unified(result.path, _text(before), _text(result.ported))


def _text(data: bytes) -> str:
    # Surrogates preserve any bytes, so that the patch works for files in every encoding.
    return data.decode("utf-8", errors="surrogateescape")


_LOOK_AHEAD = 40
_CONTEXT = 3
_TO_QUOTE = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {"\t": r"\t", "\n": r"\n", "\r": r"\r", '"': r"\"", "\\": r"\\"}


class Block(NamedTuple):
    """Lines `a[a1:a2]` that became `b[b1:b2]`; both ranges count from 0."""

    a1: int
    a2: int
    b1: int
    b2: int


def blocks(a: list[str], b: list[str]) -> Iterator[Block]:
    """The places where two lists of lines differ, in order."""
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            i += 1
            j += 1
            continue
        di, dj = _next_match(a, b, i, j)
        yield from _tight(a, b, Block(i, i + di, j, j + dj))
        i += di
        j += dj


def _tight(a: list[str], b: list[str], block: Block) -> Iterator[Block]:
    """A block split at single unchanged lines between changes."""
    size = block.a2 - block.a1
    if size != block.b2 - block.b1:
        yield block
        return
    start = 0
    for offset in range(size + 1):
        stayed = offset == size or a[block.a1 + offset] == b[block.b1 + offset]
        if stayed and start < offset:
            yield Block(block.a1 + start, block.a1 + offset, block.b1 + start, block.b1 + offset)
        if stayed:
            start = offset + 1


def line_before(a: list[str], b: list[str], line: int) -> int:
    """The line of `a` that became line `line` of `b`, both counted from 1; a new line's neighbour."""
    shift = 0
    for block in blocks(a, b):
        if line - 1 < block.b1:
            break
        if line - 1 < block.b2:
            return max(1, min(block.a1 + line - block.b1, block.a2 or 1))
        shift = block.a2 - block.b2
    return line + shift


def _next_match(a: list[str], b: list[str], i: int, j: int) -> tuple[int, int]:
    """How many lines to skip on each side until both match again."""
    for total in range(1, 2 * _LOOK_AHEAD):
        for di in range(max(0, total - _LOOK_AHEAD), min(total, _LOOK_AHEAD) + 1):
            dj = total - di
            if _alike(a, b, i + di, j + dj):
                return di, dj
    return len(a) - i, len(b) - j


def _alike(a: list[str], b: list[str], i: int, j: int) -> bool:
    if i >= len(a) or j >= len(b):
        return i == len(a) and j == len(b)
    return a[i : i + 2] == b[j : j + 2]


def unified(path: str, before: str, after: str) -> str:
    """A patch of one file that git and patch can apply."""
    a, b = _lines(before), _lines(after)
    old, new = _name(f"a/{path}"), _name(f"b/{path}")
    out = [f"diff --git {old} {new}\n--- {old}{_end(path)}\n+++ {new}{_end(path)}\n"]
    for group in _grouped(list(blocks(a, b))):
        out += _hunk(a, b, group)
    return "".join(out)


def added(path: str, text: str) -> str:
    """A patch that makes a new file."""
    rows = _lines(text)
    old, new = _name(f"a/{path}"), _name(f"b/{path}")
    head = f"diff --git {old} {new}\nnew file mode 100644\n--- /dev/null\n+++ {new}{_end(path)}\n"
    return head + f"@@ -0,0 +{_range(0, len(rows))} @@\n" + "".join(_row("+", row) for row in rows)


def _name(path: str) -> str:
    """A path as git writes it: quoted if a tab or a quote would end it."""
    if not _TO_QUOTE.search(path):
        return path
    return '"' + _TO_QUOTE.sub(lambda match: _ESCAPES.get(match[0], _octal(match[0])), path) + '"'


def _octal(character: str) -> str:
    return f"\\{ord(character):03o}"


def _end(path: str) -> str:
    """Tells patch that a name with spaces extends to the end of the line."""
    return "\t" if " " in path and not _TO_QUOTE.search(path) else ""


def _lines(text: str) -> list[str]:
    """Lines as git counts them: a form feed does not end a line."""
    parts = text.split("\n")
    rows = [f"{part}\n" for part in parts[:-1]]
    return rows + ([parts[-1]] if parts[-1] else [])


def _grouped(found: list[Block]) -> Iterator[list[Block]]:
    group: list[Block] = []
    for block in found:
        if group and block.a1 - group[-1].a2 > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _hunk(a: list[str], b: list[str], group: list[Block]) -> Iterator[str]:
    first, last = group[0], group[-1]
    a1, b1 = max(0, first.a1 - _CONTEXT), max(0, first.b1 - _CONTEXT)
    start = min(first.a1 - a1, first.b1 - b1)
    a1, b1 = first.a1 - start, first.b1 - start
    tail = min(_CONTEXT, len(a) - last.a2)
    a2, b2 = last.a2 + tail, last.b2 + tail
    yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@\n"
    position = a1
    for block in group:
        yield from (_row(" ", line) for line in a[position : block.a1])
        yield from (_row("-", line) for line in a[block.a1 : block.a2])
        yield from (_row("+", line) for line in b[block.b1 : block.b2])
        position = block.a2
    yield from (_row(" ", line) for line in a[position:a2])


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _row(mark: str, line: str) -> str:
    return (
        f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
    )
