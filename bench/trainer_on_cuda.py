"""transformers' Trainer in five segments: cut by time limits, a request to stop and `kill -9`, with the newest
checkpoint torn once, it must end with the weights of a run that nothing disturbed, to the bit.

The script knows nothing of jumar: a small GPT-2 with random words, dropout and a collator that draws random
numbers, on the first CUDA card, or on the CPU where there is none. Needs torch, transformers, accelerate and
nothing of jumar but the launcher, which runs each segment as an attempt of a job directory:
`python3 bench/trainer_on_cuda.py [--steps 3000]`. About five minutes; the last line is the verdict."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from jumar.launch.jobdir.files import FORMAT, JobDir  # noqa: E402
from jumar.launch.jobdir.job import ask_to_stop  # noqa: E402

SCRIPT = """
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

WORDS, LENGTH = 256, 32
steps = int(sys.argv[1])
made = torch.Generator().manual_seed(1)
data = [{"input_ids": torch.randint(WORDS, (LENGTH,), generator=made)} for _ in range(steps * 4)]

def collate(rows):
    ids = torch.stack([row["input_ids"] for row in rows])
    noisy = torch.where(torch.rand(ids.shape) < 0.1, torch.randint(WORDS, ids.shape), ids)
    return {"input_ids": noisy, "labels": ids}

torch.manual_seed(0)
on_card = torch.cuda.is_available()
config = GPT2Config(
    vocab_size=WORDS, n_positions=LENGTH, n_embd=256 if on_card else 16, n_layer=6 if on_card else 1, n_head=4,
    bos_token_id=0, eos_token_id=0,
)
arguments = TrainingArguments(
    output_dir="out", max_steps=steps, per_device_train_batch_size=8, seed=7, bf16=on_card, use_cpu=not on_card,
    save_steps=steps // 20, save_total_limit=3, logging_steps=steps // 10, report_to=[], disable_tqdm=True,
)
trainer = Trainer(
    model=GPT2LMHeadModel(config), args=arguments, train_dataset=data, data_collator=collate,
)
trainer.train()
trainer.save_model("final")
print("trained on", trainer.args.device, torch.__version__, flush=True)
"""
GRACE_S = 20.0
PATIENCE_S = 400.0
Fault = Callable[["Segments", int, JobDir, "subprocess.Popen[bytes]"], None]


class Segments:
    """A job directory, and the attempts that are made in it one after the other."""

    def __init__(self, folder: Path, steps: int, *, resume: bool) -> None:
        # Control groups are named after jobs: no other one of this machine may be called the same.
        self.root = folder / f"j{os.urandom(4).hex()}"
        self.work = folder / "work"
        self.steps = steps
        self.startup_s = 0.0
        """From the launcher's start to the first step, in the attempt before."""
        self.step_s = 0.0
        for made in (self.root, self.work):
            made.mkdir(parents=True)
        (self.work / "train.py").write_text(SCRIPT)
        switches = {"JUMAR_DETERMINISTIC": "1", **({} if resume else {"JUMAR_RESUME": "off"})}
        job = {
            "format": FORMAT, "job_id": self.root.name, "name": "trainer", "user": "bench", "code": "folder",
            "command": [sys.executable, "train.py", str(steps)], "workdir": str(self.work),
            "device": {"kind": _kind(), "count": 1}, "ranks": "node", "framework": "pytorch",
            "environment": {**switches, "HF_HUB_OFFLINE": "1"}, "inputs": {}, "outputs": {},
            "grace_s": GRACE_S, "env_cache": str(folder / "environments"),
        }  # fmt: skip
        (self.root / "job.json").write_text(json.dumps(job))

    def attempt(self, number: int, limit_s: float | None, fault: Fault | None) -> str:
        """Run one; how it ended, in words."""
        directory = JobDir(str(self.root), number)
        Path(directory.control).mkdir(parents=True)
        ask_before_s = 0.0 if limit_s is None else min(GRACE_S, limit_s / 3)
        started = time.time()
        request = {
            "cards": [0] if _kind() == "gpu" else [], "ask_before_s": ask_before_s, "segment": number, "segments": "auto",
            "deadline": None if limit_s is None else started + limit_s,
        }  # fmt: skip
        Path(directory.request).write_text(json.dumps(request))
        launcher = subprocess.Popen(
            [sys.executable, "-m", "jumar.launch", str(self.root), "--attempt", str(number)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        try:
            if fault is not None:
                fault(self, number, directory, launcher)
            launcher.wait(PATIENCE_S)
        finally:
            if launcher.poll() is None:
                launcher.terminate()
                launcher.wait(GRACE_S + 10)
        told, ended_at = self.told(number), time.time()
        if told.get("first_at"):
            self.startup_s = told["first_at"] - started
            made = int(told["made"])
            self.step_s = (ended_at - told["first_at"]) / max(1, made)
        ending = json.loads(Path(directory.said).read_text())
        words = f"{ending['state']}: {ending['reason']}".strip(": ")
        start = self.resumed(number)
        print(f"  attempt {number}: steps {start} to {start + int(told.get('made', 0))}, {words}")
        return str(ending["state"])

    def told(self, number: int) -> dict[str, Any]:
        """What the training itself tells the platform of its steps."""
        try:
            return json.loads((self.root / "steps" / f"attempt-{number}.json").read_text())
        except (OSError, ValueError):
            return {}

    def resumed(self, number: int) -> int:
        """The step that an attempt began from."""
        return max((self.told(number).get("resumed") or {"": 0}).values())

    def log(self) -> str:
        return (self.root / "logs" / "node0" / "rank0.log").read_text(errors="replace")

    def weights(self) -> str:
        data = (self.work / "final" / "model.safetensors").read_bytes()
        return hashlib.sha256(data).hexdigest()


def _kind() -> str:
    return "gpu" if Path("/dev/nvidiactl").exists() else "cpu"


def _after_steps(run: Segments, number: int, launcher: "subprocess.Popen[bytes]") -> None:
    """An eighth of the training, and not while it saves: that is every twentieth."""
    give_up = time.monotonic() + PATIENCE_S
    while int(run.told(number).get("made", 0)) < run.steps * 12 // 100:
        if launcher.poll() is not None or time.monotonic() > give_up:
            raise SystemExit(f"attempt {number} did not come far enough:\n{run.log()[-3000:]}")
        time.sleep(0.01)


def stop(
    run: Segments, number: int, directory: JobDir, launcher: "subprocess.Popen[bytes]"
) -> None:
    """As when another job needs the card."""
    _after_steps(run, number, launcher)
    ask_to_stop(directory, "preempted")


def kill(
    run: Segments, number: int, directory: JobDir, launcher: "subprocess.Popen[bytes]"
) -> None:
    """The rank, and then half of the newest checkpoint's largest file."""
    _after_steps(run, number, launcher)
    for pid in json.loads(Path(directory.ranks).read_text())["pids"]:
        os.kill(pid, 9)
    launcher.wait(PATIENCE_S)
    newest = max(
        (run.work / "out").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2])
    )
    torn = max(newest.iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(torn, torn.stat().st_size // 2)
    print(f"  torn after the kill: {newest.name}/{torn.name}")


def cut(run: Segments) -> list[str]:
    """The states of the attempts: a kill, a stop, two time limits, and the one that comes to the end."""
    states = [run.attempt(number, None, fault) for number, fault in ((1, kill), (2, stop))]
    while states.count("timed-out") < 2 and "succeeded" not in states and len(states) < 6:
        # Asked two thirds through it, or its grace before.
        asked_s = 1.3 * run.startup_s + 0.15 * run.step_s * run.steps
        limit_s = asked_s * 1.5 if asked_s / 2 < GRACE_S else asked_s + GRACE_S
        states.append(run.attempt(len(states) + 1, limit_s, None))
        if not run.told(len(states)).get("made"):
            # The machine was slower than before, and nothing was trained: that was no cut.
            states[-1] = "empty"
            run.startup_s *= 1.5
    if "succeeded" not in states:
        states.append(run.attempt(len(states) + 1, None, None))
    return states


def main() -> int:
    """0 if the weights are the same, 1 if not, 2 if the faults did not cut it as they should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--steps", type=int, default=3000)
    steps: int = parser.parse_args().steps
    folder = Path(tempfile.mkdtemp(prefix="bench-trainer-"))
    began = time.monotonic()
    try:
        # Cold files would make the first start much slower than the others.
        subprocess.run([sys.executable, "-c", "from transformers import Trainer"], check=True)
        print(f"uninterrupted, without the hooks, {steps} steps:")
        whole = Segments(folder / "whole", steps, resume=False)
        if whole.attempt(1, None, None) != "succeeded":
            print(whole.log()[-3000:])
            return _verdict(2, "NOT SHOWN: the uninterrupted run failed", began)
        print(f"  {whole.log().splitlines()[-1]}; {whole.weights()}")
        states: list[str] = []
        parts = whole
        for name in ("parts", "again", "once-more"):
            print("cut:")
            before, parts = parts, Segments(folder / name, steps, resume=True)
            parts.startup_s, parts.step_s = before.startup_s, before.step_s
            states = cut(parts)
            # Done within a time limit: the start was quicker than the one that it was measured by.
            if states.count("timed-out") == 2:
                break
        cuts = ["failed", "preempted", "timed-out", "timed-out", "succeeded"]
        if [state for state in states if state != "empty"] != cuts:
            print(parts.log()[-1500:])
            return _verdict(2, f"NOT SHOWN: the attempts ended {', '.join(states)}", began)
        print(f"  {parts.log().splitlines()[-1]}; {parts.weights()}")
        segments = f"{len(states)} segments: {', '.join(states)}"
        if whole.weights() != parts.weights():
            return _verdict(1, f"DIFFERENT after {segments}", began)
        return _verdict(0, f"IDENTICAL to the bit after {segments}", began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _verdict(code: int, words: str, began: float) -> int:
    print(f"VERDICT {words} ({_kind()}, {time.monotonic() - began:.0f} s)", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
