"""A curve in the terminal: braille dots, or stars where only plain characters can be shown."""

from collections.abc import Sequence

_BRAILLE = 0x2800
# The dot of a cell by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def draw(
    values: Sequence[float], *, width: int = 60, height: int = 8, plain: bool = False
) -> list[str]:
    """Lines that show `values` from left to right, the scale at the left."""
    if not values:
        return []
    across, down = (1, 1) if plain else (2, 4)
    heights = _heights(_resample(values, width * across), height * down)
    cells = [[0] * width for _ in range(height)]
    for x, (top, bottom) in enumerate(_joined(heights)):
        for y in range(top, bottom + 1):
            cells[y // down][x // across] |= _DOTS[y % down][x % across]
    rows = ["".join(_character(cell, plain) for cell in row).rstrip() for row in cells]
    labels = {0: f"{max(values):.3g}", height - 1: f"{min(values):.3g}"}
    margin = max(map(len, labels.values()))
    bar = "|" if plain else "│"
    return [f"{labels.get(i, ''):>{margin}} {bar}{row}" for i, row in enumerate(rows)]


def _character(cell: int, plain: bool) -> str:
    if not cell:
        return " "
    return "*" if plain else chr(_BRAILLE + cell)


def _resample(values: Sequence[float], count: int) -> list[float]:
    """`count` values along the curve; many are averaged, few are repeated."""
    sampled: list[float] = []
    for i in range(count):
        first = i * len(values) // count
        last = max(first + 1, (i + 1) * len(values) // count)
        sampled.append(sum(values[first:last]) / (last - first))
    return sampled


def _heights(values: Sequence[float], rows: int) -> list[int]:
    """Each value's row, counted from the top."""
    lowest, highest = min(values), max(values)
    scale = (rows - 1) / (highest - lowest) if highest > lowest else 0.0
    return [round((highest - value) * scale) for value in values]


def _joined(heights: Sequence[int]) -> list[tuple[int, int]]:
    """The rows to fill at each place, so that a steep curve has no gaps."""
    joined: list[tuple[int, int]] = []
    before = heights[0]
    for here in heights:
        if here > before:
            joined.append((before + 1, here))
        else:
            joined.append((here, max(here, before - 1)))
        before = here
    return joined
