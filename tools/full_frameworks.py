"""Public training frameworks on simulated NPUs in strict mode: nothing is refused, and the losses are the CPU's.

Installs what is missing into a folder of its own and runs `tests/inject/scripts/frameworks.py` with each."""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from jumar.inject.simulated import environment

SCRIPT = Path(__file__).resolve().parents[1] / "tests/inject/scripts/frameworks.py"
PACKAGES = ("peft", "timm", "deepspeed", "hjson", "msgpack", "ninja", "py-cpuinfo", "einops")
VISION = ("torchvision",)
"""For timm alone: transformers takes it for whole, and builds for CUDA are not."""
COMPARED = ("transformers", "accelerate", "peft", "timm", "lightning")
STAGES = ("deepspeed-zero1", "deepspeed-zero2", "deepspeed-zero3")
RANKS = 2
LIMIT_S = 900


def install(folder: Path, *packages: str) -> None:
    """Without their own requirements: torch and what it needs are here already."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--python", sys.executable, "--target", str(folder), *packages]
    environ = {**os.environ, "DS_BUILD_OPS": "0"}
    subprocess.run(command, env=environ, check=True, timeout=LIMIT_S)


def losses(name: str, device: str, folder: Path, variables: Mapping[str, str]) -> list[float]:
    """What one process of a training says its losses were."""
    paths = [folder / "packages", *([folder / "vision"] if name == "timm" else [])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
    if device == "npu":
        environ = environment(environ, devices=RANKS, mode="strict")
    work = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, str(SCRIPT), name, device]
    done = subprocess.run(
        command, env=environ, cwd=work, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise SystemExit(f"{name} on {device} failed:\n{done.stdout}\n{done.stderr}")
    told = next(line for line in done.stdout.splitlines() if line.startswith("losses "))
    return json.loads(told.removeprefix("losses "))


def of_ranks(name: str, folder: Path) -> list[list[float]]:
    """The losses of each rank of a training on as many simulated NPUs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    with ThreadPoolExecutor(RANKS) as pool:
        started = [
            pool.submit(losses, name, "npu", folder, {**group, "RANK": rank, "LOCAL_RANK": rank})
            for rank in map(str, range(RANKS))
        ]
        return [one.result() for one in started]


def main() -> int:
    """0 where nothing was refused and all losses are as expected."""
    is_equal = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        install(folder / "packages", *PACKAGES)
        install(folder / "vision", *VISION)
        for name in COMPARED:
            host, card = (losses(name, device, folder, {}) for device in ("cpu", "npu"))
            is_equal = is_equal and host == card
            sys.stdout.write(f"{name}: {card}, {'equal' if host == card else f'not {host}'}\n")
        # DeepSpeed compiles its collectives for the CPU, so its stages are compared with each other;
        # the first adds its bfloat16 gradients in another order.
        stages = {name: of_ranks(name, folder) for name in STAGES}
        for name, found in stages.items():
            pairs = zip(chain(*found), chain(*stages[STAGES[0]]), strict=True)
            is_equal = is_equal and all(math.isclose(a, b, rel_tol=1e-3) for a, b in pairs)
            sys.stdout.write(f"{name}: {found}\n")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
