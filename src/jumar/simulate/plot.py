"""The runs of a simulation side by side, as an SVG that any browser shows."""

from collections.abc import Sequence
from html import escape

from jumar.simulate.measures import Measures

_COLOURS = ("#0b6e99", "#c2571a", "#6b6b6b")
_WIDTH, _HEIGHT, _LEFT, _TOP = 860, 180, 90, 40
_STEPS_H = (1, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760)
"""Hours between two marks of the axis of time."""
_MOST_MARKS = 10


def plot(runs: Sequence[Measures], title: str, days: float) -> str:
    """Cards in use and cards waited for, over time."""
    most = max((max(run.waiting) for run in runs), default=0) or 1
    height = _TOP + 2 * (_HEIGHT + 60)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _LEFT} {height}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(title)}</text>',
        *_panel(_TOP, "cards in use", "100%", days, [run.busy for run in runs]),
        *_panel(
            _TOP + _HEIGHT + 60,
            "cards that waiting jobs need",
            f"{most:,} cards",
            days,
            [[cards / most for cards in run.waiting] for run in runs],
        ),
    ]
    for place, run in enumerate(runs):
        x = _LEFT + _WIDTH - 90 * (len(runs) - place)
        parts.append(f'<text x="{x}" y="20" fill="{_colour(place)}">{escape(run.policy)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    top: float, name: str, most: str, days: float, lines: Sequence[Sequence[float]]
) -> list[str]:
    bottom = top + _HEIGHT
    parts = [
        f'<path d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}" fill="none" stroke="#999"/>',
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{bottom + 34}">{name}, over {days:.1f} days</text>',
        *_marks(bottom, days),
    ]
    for place, line in enumerate(lines):
        points = " ".join(
            f"{_LEFT + _WIDTH * n / len(line):.1f},{bottom - _HEIGHT * part:.1f}"
            for n, part in enumerate(line)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{_colour(place)}" '
            'stroke-width="1.2"/>'
        )
    return parts


def _marks(bottom: float, days: float) -> list[str]:
    """Days from the first arrival; hours where there are few days."""
    hours = days * 24
    step = next((step for step in _STEPS_H if hours / step <= _MOST_MARKS), _STEPS_H[-1])
    marks: list[str] = []
    for number in range(int(hours / step) + 1 if hours > 0 else 1):
        at = number * step
        x = _LEFT + (_WIDTH * at / hours if hours > 0 else 0)
        label = f"{at} h" if step < 24 else f"{at // 24} d"
        marks += [
            f'<path d="M{x:.1f} {bottom}v5" stroke="#999"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" font-size="11">{label}</text>',
        ]
    return marks


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]
