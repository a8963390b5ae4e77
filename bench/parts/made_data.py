"""Data sets made up on the spot, in the form that public training code reads: the same bytes in every
run, and nothing to download."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

_WORDS = ("the ", "sea ", "of\n", "trees ", "King: ", "a . ", "O God, O God! ")


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A picture of height, width and perhaps three colours."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    height, width = pixels.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def text(path: Path, rng: Generator) -> None:
    """A file of words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(rng.choice(_WORDS, 8000)))


def mnist(folder: Path, rng: Generator) -> None:
    """Digits in MNIST's four files."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 600), ("t10k", 100)):
        pixels = rng.integers(0, 256, (count, 28, 28), np.uint8)
        head = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        labels = rng.integers(0, 10, count, np.uint8)
        head = struct.pack(">II", 2049, count)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def cifar(folder: Path, rng: Generator) -> None:
    """Pictures in the binary form of CIFAR-10: a file for training and one for validation, of the size of
    the real ones, which MindSpore insists on."""
    for part, name in (("train", "data_batch_1.bin"), ("val", "test_batch.bin")):
        (folder / part).mkdir(parents=True, exist_ok=True)
        rows = rng.integers(0, 256, (10_000, 3073), np.uint8)
        rows[:, 0] %= 10
        (folder / part / name).write_bytes(rows.tobytes())


def images(folder: Path, rng: Generator) -> None:
    """Photographs of two classes, for training and validation, as ImageNet's folders have them."""
    for part in ("train", "val"):
        for kind in ("ant", "bee"):
            place = folder / part / kind
            place.mkdir(parents=True, exist_ok=True)
            for number in range(4):
                pixels = rng.integers(0, 256, (224, 224, 3), np.uint8)
                (place / f"{number}.png").write_bytes(_png(pixels))


def citations(folder: Path, rng: Generator) -> None:
    """Papers with words and citations, as Cora's two files have them."""
    folder.mkdir(parents=True, exist_ok=True)
    words = rng.integers(0, 2, (2708, 40))
    kinds = rng.integers(0, 7, 2708)
    rows = [
        f"{paper}\t" + "\t".join(map(str, words[paper])) + f"\tkind{kinds[paper]}"
        for paper in range(2708)
    ]
    (folder / "cora.content").write_text("\n".join(rows) + "\n")
    pairs = rng.integers(0, 2708, (5000, 2))
    (folder / "cora.cites").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))


def masks(folder: Path, rng: Generator) -> None:
    """Pictures and the mask of each, in two folders."""
    for kind, shape in (("imgs", (64, 64, 3)), ("masks", (64, 64))):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(10):
            pixels = rng.integers(0, 2, shape, np.uint8) * (255 if kind == "imgs" else 1)
            name = f"{number}.png" if kind == "imgs" else f"{number}_mask.png"
            (folder / kind / name).write_bytes(_png(pixels))


_MAKERS: dict[str, Callable[[Path, Generator], None]] = {
    maker.__name__: maker for maker in (text, mnist, cifar, images, citations, masks)
}


def make(kind: str, place: Path) -> None:
    """Make the data set `kind` at `place`."""
    _MAKERS[kind](place, default_rng(0))
