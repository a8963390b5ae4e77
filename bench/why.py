"""How long `jumar why` takes for a log of 1 GB: `bench/why.py [--size BYTES]`.

Three logs: one of an ordinary training with its fault at the end, one whose every line calls itself an error, and one
whose every line does so in other words."""

import argparse
import json
import os
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 600.0
FAULT = """Traceback (most recent call last):
  File "/home/ann/train.py", line 88, in <module>
    loss = model(batch)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x100 and 128x10)
"""


def ordinary(number: int) -> str:
    """A line of a training that is well."""
    if number % 5 == 0:
        return f"[rank{number % 8}]: iteration {number} | time (ms): {number % 997}.5 | loss {1 / (number + 1):.6f} |\n"
    return f"2026-03-01 10:{number % 60:02}:{number % 59:02},123 INFO train.py:88 step {number} loss: 0.{number % 9973}\n"


def noisy(number: int) -> str:
    """A line that calls itself an error and ends nothing."""
    return f"[ERROR] RUNTIME({number % 97},python):2026-03-01-10:00:00.{number % 1000:03} retry {number} of stream {number % 31}\n"


def varied(number: int) -> str:
    """A line that calls itself an error, unlike any other."""
    words = random.Random(number)
    name, stream = ("".join(words.choices(string.ascii_lowercase, k=size)) for size in (40, 20))
    return f"[ERROR] {name} retry of stream {stream}\n"


def write(path: Path, line: Callable[[int], str], size: int) -> None:
    """A log of this size, of the same lines again and again."""
    block = "".join(line(number) for number in range(50_000)).encode()
    with path.open("wb") as file:
        for _ in range(max(size // len(block), 1)):
            file.write(block)
        file.write(FAULT.encode())


def measure(path: Path) -> dict[str, Any]:
    """Seconds of the whole command, and what it found."""
    before, start = os.times(), time.monotonic()
    command = [str(Path(sys.executable).with_name("jumar")), "why", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S)
    wall, after = time.monotonic() - start, os.times()
    cpu = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    cause = json.loads(done.stdout)["cause"]
    return {"bytes": path.stat().st_size, "seconds": wall, "cpu_seconds": cpu, "cause": cause}


def main() -> int:
    """Print one line of JSON per log; 1 if one takes 10 seconds of CPU or is not understood."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10**9)
    size = parser.parse_args().size
    well = True
    with tempfile.TemporaryDirectory() as folder:
        for name, line in (("ordinary", ordinary), ("noisy", noisy), ("varied", varied)):
            path = Path(folder, f"{name}.log")
            write(path, line, size)
            found = measure(path)
            print(json.dumps({"log": name, **found}), flush=True)
            path.unlink()
            well = well and found["cause"] == "shape" and found["cpu_seconds"] < 10
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
