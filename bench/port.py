"""How long `jumar port` takes on repositories given as folders: seconds, memory, edits, findings.

`python bench/port.py FOLDER…`; without folders it makes some of 1k to 136k lines. Each port is a
process of its own, start included, written to a new folder with all reports; the second run is the
same command again. Beside known repositories stand the figures of the vendor's tool, measured
earlier on the same repositories with 2 cores."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

VENDOR_SECONDS = {"nanoGPT": 30, "examples": 186, "yolov5": 319, "pytorch-image-models": 2871}
"""Measured earlier, same repositories, 2 cores; not run again here."""
VENDOR_MB = {"nanoGPT": 165, "examples": 265, "yolov5": 440, "pytorch-image-models": 1200}
COMMAND = "from jumar.cli import main; main()"


@dataclass(frozen=True)
class Run:
    """One measured command."""

    seconds: float
    peak_mb: float
    report: dict[str, dict[str, int]]


def measure(source: Path, out: Path) -> Run:
    """Run one port and watch the memory of all its processes together."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "port", str(source), "-o", str(out)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, group_bytes(process.pid))
        time.sleep(0.005)
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise SystemExit(f"port of {source} exited with {process.returncode}")
    report = json.loads((out / "jumar-report" / "report.json").read_text("utf-8"))
    return Run(seconds, peak / 1e6, report["summary"])


def group_bytes(group: int) -> int:
    """Proportional memory of every process of a session; shared pages count once."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if os.getsid(int(entry.name)) != group:
                continue
            rollup = Path(entry.path, "smaps_rollup").read_text()
        except (OSError, ProcessLookupError):
            continue
        line = next((row for row in rollup.splitlines() if row.startswith("Pss:")), "Pss: 0 kB")
        total += int(line.split()[1]) * 1024
    return total


def lines_of(source: Path) -> int:
    """Lines of Python below a folder."""
    return sum(path.read_bytes().count(b"\n") for path in source.rglob("*.py") if path.is_file())


def made_up(folder: Path, name: str, modules: int) -> Path:
    """A repository of plain training modules, for machines without public ones."""
    body = (
        "import torch\nfrom torch import nn\n\n\n"
        + "\n\n".join(
            f"class Block{i}(nn.Module):\n    def forward(self, x):\n"
            f"        y = torch.relu(self.a(x)) + self.b[{i}]\n        return y.view(x.size(0), -1)"
            for i in range(80)
        )
        + "\n\n\ndef train(model, loader):\n    model.cuda()\n    for x in loader:\n"
        "        loss = model(x.cuda(non_blocking=True)).sum()\n        loss.backward()\n"
    )
    for number in range(modules):
        path = folder / name / f"part{number // 40}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    return folder / name


def main() -> None:
    """Measure every folder and print a table."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(argument).resolve() for argument in sys.argv[1:]]
        if not folders:
            sizes = {"made-up-1k": 3, "made-up-16k": 40, "made-up-136k": 330}
            folders = [made_up(Path(scratch), name, n) for name, n in sizes.items()]
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        print("vendor: its tool, measured earlier on the same repositories, 2 cores")
        head = "repository lines seconds MB edits findings second vendor_s times vendor_MB"
        print("{:<22}{:>8}{:>9}{:>6}{:>7}{:>10}{:>8}{:>10}{:>7}{:>11}".format(*head.split()))
        for number, source in enumerate(folders):
            out = Path(scratch, f"out{number}")
            first, second = measure(source, out), measure(source, out)
            vendor = VENDOR_SECONDS.get(source.name)
            findings = sum(first.report["findings"].values())
            print(
                f"{source.name:<22}{lines_of(source):>8}{first.seconds:>9.2f}{first.peak_mb:>6.0f}"
                f"{first.report['changes']:>7}{findings:>10}{second.seconds:>8.2f}"
                f"{vendor or '-':>10}{f'{vendor / first.seconds:.0f}x' if vendor else '-':>7}"
                f"{VENDOR_MB.get(source.name, '-'):>11}"
            )


if __name__ == "__main__":
    main()
