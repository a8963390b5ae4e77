"""Real wandb and swanlab in trainings of transformers, without an account or a network: the curves are noted.

Installs both into a folder of its own, and runs a small Trainer with each inside of a network namespace that
has nothing in it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from jumar.inject.starting import START_PATH, first_on_path
from jumar.track.runs import RunReader

PACKAGES = ("wandb", "swanlab")
LIMIT_S = 600
SCRIPT = """\
import sys
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        found = self.layer(x).squeeze(-1)
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}

data = [{"x": torch.randn(4), "labels": torch.tensor(1.0)} for _ in range(64)]
options = TrainingArguments(
    "out", report_to=sys.argv[1], run_name="demo", logging_steps=2, max_steps=10, eval_strategy="steps",
    eval_steps=5, save_strategy="no", use_cpu=True, learning_rate=0.01,
)
Trainer(Model(), options, train_dataset=data, eval_dataset=data[:8]).train()
"""


def noted(folder: Path, packages: Path, name: str) -> RunReader:
    """What a training that reports to `name` notes."""
    job = folder / name
    (job / "job").mkdir(parents=True)
    keys = ("WANDB_API_KEY", "SWANLAB_API_KEY")
    environ = {key: value for key, value in os.environ.items() if key not in keys}
    environ |= {"HOME": str(job), "JUMAR_JOB_DIR": str(job / "job"), "PYTHONPATH": str(packages)}
    alone = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--user", "--net"]
    command = [*alone, sys.executable, "-c", SCRIPT, name]
    environ = first_on_path(environ, START_PATH)
    subprocess.run(command, env=environ, cwd=job, check=True, timeout=LIMIT_S)
    (file,) = (job / "job" / "runs").iterdir()
    reader = RunReader()
    reader.feed(file.read_bytes())
    return reader


def main() -> int:
    """0 where the curves of both are there."""
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder, "packages")
        command = [str(uv), "pip", "install", "--quiet", "--target", str(packages), *PACKAGES]
        subprocess.run(command, check=True, timeout=LIMIT_S)
        for name in PACKAGES:
            found = noted(Path(folder), packages, name)
            curves = {curve: list(one.x) for curve, one in found.curves.series.items()}
            sys.stdout.write(f"{name}: {curves}\n")
            if curves.get("train/loss") != [2, 4, 6, 8, 10] or curves.get("eval/loss") != [5, 10]:
                return 1
            if found.parameters.get("learning_rate") != 0.01 or found.experiment != "demo":
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
