"""Draw a small data set in the format of MNIST: `draw_mnist.py FOLDER [--train 2000] [--test 400]`.

Digits are strokes of a seven-segment display, moved about and blurred by noise. Standard library only."""

import argparse
import pathlib
import random
import struct

SIDE = 28
# Which of the segments (top, upper left, upper right, middle, lower left, lower right, bottom) are lit.
SEGMENTS = (
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
)
# Where each of them is: first row, last row, first column, last column.
STROKES = (
    (4, 5, 8, 19),
    (5, 13, 8, 9),
    (5, 13, 18, 19),
    (13, 14, 8, 19),
    (14, 22, 8, 9),
    (14, 22, 18, 19),
    (22, 23, 8, 19),
)


def draw(digit, dice):
    down, right = dice.randint(-3, 3), dice.randint(-5, 5)
    image = bytearray(dice.randrange(60) for _ in range(SIDE * SIDE))
    for lit, (top, bottom, left, end) in zip(SEGMENTS[digit], STROKES, strict=True):
        for row in range(top, bottom + 1):
            for column in range(left, end + 1):
                if lit == "1":
                    image[(row + down) * SIDE + column + right] = dice.randint(180, 255)
    return image


def write(folder, prefix, count, dice):
    folder.mkdir(parents=True, exist_ok=True)
    digits = [dice.randrange(10) for _ in range(count)]
    images = b"".join(draw(digit, dice) for digit in digits)
    head = struct.pack(">IIII", 0x803, count, SIDE, SIDE)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(head + images)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 0x801, count) + bytes(digits)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=400)
    given = parser.parse_args()
    dice = random.Random(1)
    write(given.folder / "train", "train", given.train, dice)
    write(given.folder / "test", "t10k", given.test, dice)
