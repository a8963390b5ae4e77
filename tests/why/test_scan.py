"""Which places of a log are read, where nearly all of its lines call themselves errors."""

import os
import random
import string
from pathlib import Path

from jumar.why.knowledge import signatures, signatures_in
from jumar.why.scan import regions

NOISE = "[ERROR] retry {}\n"


def test_a_fault_among_thousands_of_different_lines_is_found(tmp_path: Path) -> None:
    words = random.Random(1)
    lines = [
        NOISE.format(number) + "going on with " + "".join(words.choices(string.ascii_letters, k=40))
        for number in range(20_000)
    ]
    lines.insert(10_000, "Traceback (most recent call last):")
    assert b"Traceback" in found(tmp_path, "\n".join(lines))


def test_a_code_of_letters_and_digits_is_found_among_errors(tmp_path: Path) -> None:
    lines = [NOISE.format(number) for number in range(30_000)]
    lines.insert(15_000, "EI0006: the others did not come\n")
    assert b"EI0006" in found(tmp_path, "".join(lines))


def test_the_anchors_in_a_long_text_are_those_in_a_short_one() -> None:
    known = signatures()
    text = "\n".join(f"x{one.anchor}y" for one in known[::3])
    wanted = [one for one in known if one.anchor in text]
    assert signatures_in(text + "\n" + "z" * 100_000) == wanted


def found(folder: Path, log: str) -> bytes:
    path = folder / "noisy.log"
    path.write_text(log)
    fd = os.open(path, os.O_RDONLY)
    try:
        return b"".join(region.text for region in regions(fd, len(log)))
    finally:
        os.close(fd)
