"""How long metrics take to be read: `bench/metrics.py [--events-mb 200] [--log-mb 1000]`.

A TensorBoard run against TensorBoard's own EventAccumulator, and a log against a plain loop of regular
expressions, one per way to write a line. Seconds are those of the processor."""

import argparse
import json
import math
import random
import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from jumar.track.crc32c import masked
from jumar.track.events import EventReader
from jumar.track.reading import FileReader, LogReader

LEAST = {"events": 10.0, "log": 3.0}
"""How many times quicker it has to be."""
BLOCK = 1 << 20
TAGS = ("train/loss", "train/accuracy", "train/learning_rate", "train/grad_norm", "valid/loss")
PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"epoch:?\s+(\d+)\s+step:?\s+(\d+),?\s+loss(?: is|:)?\s+([\d.eE+-]+|nan)",
        r"iteration\s+(\d+)/\s*\d+ \|.*lm loss: ([\d.eE+-]+) \|.*grad norm: ([\d.]+)",
        r"Epoch \[(\d+)/\d+\], Step \[(\d+)/\d+\], Loss: ([\d.]+)",
        r"'loss': '?([\d.eE+-]+)'?.*'epoch': '?([\d.]+)",
        r"(\d+)/\d+ \[.*?\] - .*loss: ([\d.]+)",
        r"step:(\d+) - .*?[\w/]+:([\d.eE+-]+)",
        r"FPS:? ([\d.]+)",
        r"loss=([\d.eE+-]+)",
        r"step (\d+) loss:? ([\d.]+)",
        r"acc(?:uracy)?:? ([\d.]+)%?",
    )
]


def write_events(path: Path, size: int) -> None:
    """Scalars of five names, as torch's SummaryWriter and as TensorFlow 2 write them."""
    source = random.Random(1)
    with path.open("wb") as file:
        step = 0
        while file.tell() < size:
            step += 1
            file.write(b"".join(_record(tag, step, source.random()) for tag in TAGS))


def _record(tag: str, step: int, value: float) -> bytes:
    if tag.startswith("valid"):
        tensor = b"\x08\x01\x12\x00\x22\x04" + struct.pack("<f", value)
        content = _field(1, tag.encode()) + _field(8, tensor)
    else:
        content = _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    message = b"\x09" + struct.pack("<d", 1.7e9 + step) + b"\x10" + _varint(step)
    message += _field(5, _field(1, content))
    head = struct.pack("<Q", len(message))
    return b"".join(
        (head, struct.pack("<I", masked(head)), message, struct.pack("<I", masked(message)))
    )


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def write_log(path: Path, size: int) -> None:
    """A training's lines with what else is printed in between."""
    source = random.Random(1)
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.writelines(
                _line(place, source.random()) for place in range(number, number + 40_000)
            )
            number += 40_000


def _line(number: int, noise: float) -> str:
    loss = 4 * math.exp(-number / 90_000) + noise / 10
    if number % 4 == 0:
        return f"epoch: {number // 80_000} step: {number}, loss is {loss:.6f}\n"
    if number % 4 == 1:
        return (
            f" iteration {number:8}/9999999 | consumed samples: {number * 256:12} | learning rate: {1e-4:.3E} | "
            f"global batch size: 256 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {noise:.3f} |\n"
        )
    if number % 4 == 2:
        return f"2026-03-01 10:{number % 60:02}:00,123 INFO data.py:88 worker {number % 8} read 512 files of /data\n"
    return f"[rank{number % 8}] memory {int(noise * 60000)} MB in use\n"


def ours(path: Path, reader: FileReader) -> int:
    """How many values there are."""
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        while reader.offset < size:
            file.seek(reader.offset)
            reader.feed(file.read(BLOCK))
    return sum(series.count for series in reader.curves.series.values())


def accumulated(path: Path) -> int:
    """As TensorBoard reads it."""
    module: Any = import_module("tensorboard.backend.event_processing.event_accumulator")
    found = module.EventAccumulator(str(path.parent), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    tags = found.Tags()
    return sum(len(found.Scalars(tag)) for tag in tags["scalars"]) + sum(
        len(found.Tensors(tag)) for tag in tags["tensors"]
    )


def plain(path: Path) -> int:
    """Line by line, pattern by pattern: a line may tell of several metrics."""
    curves: dict[int, list[tuple[float, ...]]] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            for number, pattern in enumerate(PATTERNS):
                match = pattern.search(line)
                if match is not None:
                    curves.setdefault(number, []).append(tuple(map(float, match.groups())))
    return sum(map(len, curves.values()))


def timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def compare(name: str, path: Path, reader: FileReader, theirs: Callable[[Path], int]) -> bool:
    """Print one line of JSON."""
    own, values = timed(lambda: ours(path, reader))
    other, _ = timed(lambda: theirs(path))
    size = path.stat().st_size
    told = {"what": name, "bytes": size, "values": values, "seconds": round(own, 2)}
    told |= {"theirs": round(other, 2), "times_quicker": round(other / own, 1)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    return other / own >= LEAST[name]


def main() -> int:
    """1 where it is not as quick as it has to be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events-mb", type=int, default=200)
    parser.add_argument("--log-mb", type=int, default=1000)
    options = parser.parse_args()
    well = True
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "board", "events.out.tfevents.1.host.1.0")
        events.parent.mkdir()
        write_events(events, options.events_mb * 10**6)
        well = compare("events", events, EventReader(), accumulated) and well
        events.unlink()
        log = Path(folder, "rank0.log")
        write_log(log, options.log_mb * 10**6)
        well = compare("log", log, LogReader(), plain) and well
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
