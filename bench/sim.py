"""Step time on a simulated NPU against plain torch on the same processor.

Each measurement is a process of its own, plain and simulated in turn, so that noise of the machine
hits both; on the CPU it is the time that the one thread computed, which other programs disturb less. `--backend cuda` measures against plain CUDA with a model of GPT-2 small's size, and also
checks that the results agree; run it on a machine with a CUDA card.

    python bench/sim.py [--mode warn|strict|fast] [--rounds 3] [--backend cpu|cuda]
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

SIM_PATH = Path(__file__).resolve().parent.parent / "src" / "jumar" / "inject" / "sim_path"
SEEDED_STEPS = 3


@dataclass(frozen=True)
class Case:
    """One model and the ratio that it must not pass."""

    name: str
    steps: int
    goal: float
    wants_ms: float
    """A step has to take at least this long on plain torch for the goal to mean something."""


CPU_CASES = (
    Case("mlp", 300, 3.0, 0.0),
    Case("cnn", 15, 1.3, 50.0),
    Case("transformer", 15, 1.3, 50.0),
)
# GPT-2 small, by the sequences of 1,024 in a step.
# Eight do not keep a large card busy: the CPU is the bottleneck, and the figure is there for honesty.
CUDA_CASES = (Case("gpt2-small-32", 15, 1.3, 0.0), Case("gpt2-small-8", 20, math.inf, 0.0))


def build(name: str) -> "tuple[Any, Any, Any]":
    """A model, its inputs and its targets, on the host."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
            )

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.body(x))

    class Language(nn.Module):
        def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(layers)
            )
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, x: Any) -> Any:
            hidden = self.embed(x)
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            for block in self.blocks:
                hidden = block(hidden, src_mask=mask, is_causal=True)
            return self.head(hidden).flatten(0, 1)

    if name == "mlp":
        model = nn.Sequential(
            nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        )
        return model, torch.randn(32, 64), torch.randint(0, 10, (32,))
    if name == "cnn":
        layers = [nn.Conv2d(3, 32, 3, padding=1), *(Residual(32) for _ in range(4))]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        return model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    words, width, heads, depth, batch, length = 200, 128, 4, 4, 16, 64
    if name.startswith("gpt2-small"):
        words, width, heads, depth, batch, length = 50257, 768, 12, 12, int(name[11:]), 1024
    x = torch.randint(0, words, (batch, length))
    return Language(words, width, heads, depth), x, torch.randint(0, words, (batch * length,))


def work(case: str, device: str, steps: int) -> None:
    """In the measured process: train, and print the median step and the first losses."""
    torch: Any = import_module("torch")
    if device == "npu":
        import_module("torch_npu")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x, y = build(case)
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    low = case.startswith("gpt2-small")
    on_card = device == "cuda" or os.environ.get("JUMAR_SIM_BACKEND") == "cuda"
    clock = time.perf_counter if on_card else time.process_time
    times: list[float] = []
    losses: list[float] = []
    for step in range(steps + 5):
        # Attention's gradients are summed by chance on CUDA, unless it is told otherwise.
        torch.use_deterministic_algorithms(on_card and step < SEEDED_STEPS)
        _wait(device)
        started = clock()
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=low):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        _wait(device)
        times.append((clock() - started) * 1e3)
        if step < SEEDED_STEPS:
            losses.append(loss.item())
    print(json.dumps({"ms": statistics.median(times[5:]), "losses": losses}))


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "npu":
        import_module("torch_npu").npu.synchronize()


def measure(case: Case, device: str, options: argparse.Namespace) -> dict[str, Any]:
    """One measurement in a process of its own."""
    # cuBLAS repeats its results only with a workspace of its own.
    environ = dict(os.environ, OMP_NUM_THREADS="1", CUBLAS_WORKSPACE_CONFIG=":4096:8")
    if device == "npu":
        environ.update(
            PYTHONPATH=f"{SIM_PATH}{os.pathsep}{environ.get('PYTHONPATH', '')}",
            JUMAR_SIM_DEVICES="2",
            JUMAR_SIM_MODE=options.mode,
            JUMAR_SIM_BACKEND=options.backend,
        )
    arguments = ["--worker", case.name, "--device", device, "--steps", str(case.steps)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Measure all cases and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", default="warn")
    parser.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.device, options.steps)
        return 0
    missed = 0
    print(f"{'model':<13} {'plain ms':>9} {'simulated':>9} {'ratio':>6} {'goal':>5}  losses equal")
    for case in CPU_CASES if options.backend == "cpu" else CUDA_CASES:
        rounds = [
            (measure(case, options.backend, options), measure(case, "npu", options))
            for _ in range(options.rounds)
        ]
        plain = min(one["ms"] for one, _ in rounds)
        simulated = min(other["ms"] for _, other in rounds)
        equal = all(one["losses"] == other["losses"] for one, other in rounds)
        ratio = simulated / plain
        missed += ratio > case.goal or not equal or plain < case.wants_ms
        print(
            f"{case.name:<13} {plain:>9.2f} {simulated:>9.2f} {ratio:>6.2f} {case.goal:>5.1f}  {equal}",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
