"""Images of digits, drawn with strokes: shifted, turned, slanted, thick or thin, and noisy.

Nothing is downloaded. The same seed gives the same images."""

from itertools import pairwise

import numpy as np

SIDE = 24

# Each digit as lines through points, x to the right and y down, in a box from 0 to 1.
_RING = [(0.5 + 0.5 * np.sin(a), 0.5 - 0.5 * np.cos(a)) for a in np.linspace(0, 2 * np.pi, 13)]


def _ring(x, y, width, height):
    return [(x + px * width, y + py * height) for px, py in _RING]


def _line(text):
    """`"25 25  55 0"` as points, in hundredths of the box."""
    numbers = [int(word) / 100 for word in text.split()]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


STROKES = {
    0: [_ring(0.15, 0.0, 0.7, 1.0)],
    1: [_line("25 25  55 0  55 100")],
    2: [_line("15 20  30 3  60 0  82 15  80 38  15 100  85 100")],
    3: [_line("18 8  50 0  80 12  78 36  45 48  80 60  85 85  50 100  15 90")],
    4: [_line("65 100  65 0  12 68  90 68")],
    5: [_line("82 0  25 0  20 45  55 40  85 60  80 88  50 100  15 92")],
    6: [_line("75 2  40 20  20 60"), _ring(0.17, 0.45, 0.66, 0.55)],
    7: [_line("13 0  87 0  40 100")],
    8: [_ring(0.22, 0.0, 0.56, 0.46), _ring(0.15, 0.46, 0.7, 0.54)],
    9: [_ring(0.17, 0.0, 0.66, 0.55), _line("82 35  75 70  50 100")],
}


def make_digits(count, seed):
    """`count` images (N, 1, SIDE, SIDE) between 0 and 1, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    images = np.empty((count, SIDE, SIDE), np.float32)
    for digit, strokes in STROKES.items():
        chosen = np.flatnonzero(labels == digit)
        images[chosen] = _draw(strokes, len(chosen), rng)
    images += rng.normal(0.0, 0.25, images.shape)
    return np.clip(images, 0.0, 1.0)[:, None], labels.astype(np.int64)


def _draw(strokes, count, rng):
    """One digit `count` times: the distance of each pixel to the nearest line decides its ink."""
    lines = np.array([pair for stroke in strokes for pair in pairwise(stroke)])
    placed = _distort(lines, count, rng)
    grid = np.arange(SIDE, dtype=np.float32)
    x, y = (axis.reshape(1, -1) for axis in np.meshgrid(grid, grid))
    nearest = np.full((count, SIDE * SIDE), np.inf, np.float32)
    for (x0, y0), (x1, y1) in placed.transpose(1, 2, 3, 0)[..., None]:
        along_x, along_y = x1 - x0, y1 - y0
        length = np.maximum(along_x**2 + along_y**2, 1e-9)
        share = np.clip(((x - x0) * along_x + (y - y0) * along_y) / length, 0.0, 1.0)
        gap = (x - x0 - share * along_x) ** 2 + (y - y0 - share * along_y) ** 2
        np.minimum(nearest, gap, out=nearest)
    nearest = np.sqrt(nearest)
    thickness = rng.uniform(0.2, 1.2, (count, 1))
    ink = rng.uniform(0.7, 1.0, (count, 1))
    return (ink * np.clip(0.8 + thickness - nearest, 0.0, 1.0)).reshape(count, SIDE, SIDE)


def _distort(lines, count, rng):
    """The lines in pixels, each copy turned, slanted, stretched, shifted and shaken by itself."""
    points = lines[None] - 0.5 + rng.normal(0.0, 0.02, (count, *lines.shape))
    angle = rng.normal(0.0, 0.2, count)
    slant = rng.normal(0.0, 0.2, count)
    width = rng.uniform(8.0, 14.0, count)
    height = rng.uniform(12.0, 18.0, count)
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.array(
        [[cos * width, (cos * slant - sin) * height], [sin * width, (sin * slant + cos) * height]]
    ).transpose(2, 0, 1)
    shift = rng.uniform(-2.0, 2.0, (count, 1, 1, 2))
    moved = np.einsum("nij,nlpj->nlpi", matrix, points) + SIDE / 2 + shift
    return moved.astype(np.float32)
