"""transformers' Trainer and Lightning, scripts that know nothing of jumar: stopped, killed and with torn
checkpoints, they end with the weights of a run that nothing disturbed."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.inject.starting import START_PATH, first_on_path

SCRIPTS = Path(__file__).parent / "scripts"
MIXED = [{"stop_at": 5}, {"kill_at": 6, "tear": 3}, {"stop_at": 1}, {"kill_at": 3}]

Case = dict[str, Any]


def case(name: str, segments: list[dict[str, int]], **options: object) -> Case:
    return {"name": name, "segments": segments, "options": options}


def run(script: str, cases: list[Case], root: Path, **variables: str) -> list[dict[str, Any]]:
    plan = {"script": script, "root": str(root), "cases": cases}
    environ = {
        **first_on_path(os.environ, START_PATH),
        "JUMAR_CKPT_DIR": str(root),
        "JUMAR_STOP_FILE": str(root / "stop"),
        **variables,
    }
    command = [sys.executable, str(SCRIPTS / "resume_driver.py")]
    done = subprocess.run(
        command, input=json.dumps(plan), env=environ, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # The libraries print as well.
    return json.loads(done.stdout.splitlines()[-1])


def disturbed(
    kinds: dict[str, dict[str, object]], schedules: list[list[dict[str, int]]]
) -> list[Case]:
    """Each kind undisturbed, and then with each schedule."""
    return [
        case(f"{kind}-{number}", segments, **options)
        for kind, options in kinds.items()
        for number, segments in enumerate([[], *schedules])
    ]


def check(found: list[dict[str, Any]], runs_per_kind: int) -> None:
    for first in range(0, len(found), runs_per_kind):
        whole, *others = found[first : first + runs_per_kind]
        assert whole["codes"] == [0]
        for one in others:
            assert one["hash"] == whole["hash"], one["codes"]


TRAINER: dict[str, dict[str, object]] = {
    "accumulated": {"gradient_accumulation_steps": 2},
    "best": {
        "load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 4, "save_total_limit": 1,
    },
    "model-only": {"save_only_model": True},
}  # fmt: skip
LIGHTNING: dict[str, dict[str, object]] = {
    "validated": {},
    "by-steps": {"every": 4, "validate": False},
}


def test_a_trainer_of_transformers_ends_with_the_same_weights(tmp_path: Path) -> None:
    found = run("trainer_script", disturbed(TRAINER, [MIXED]), tmp_path)
    check(found, 2)
    assert [one["codes"] for one in found[1::2]] == [[75, -9, 75, -9, 0]] * 3


def test_lightning_ends_with_the_same_weights(tmp_path: Path) -> None:
    found = run("lightning_script", disturbed(LIGHTNING, [MIXED, [{"kill_at": 13}]]), tmp_path)
    check(found, 3)
    assert found[1]["codes"] == [75, -9, 75, -9, 0]
    stopped = case("off", [{"stop_at": 3}])
    unhooked = run("lightning_script", [stopped], tmp_path, JUMAR_RESUME="off")
    assert unhooked == [found[0]], "the hooks changed a run, or were there although switched off"


@pytest.mark.full
@pytest.mark.parametrize("script", ["trainer_script", "lightning_script"])
def test_random_schedules(script: str, tmp_path: Path) -> None:
    chosen = random.Random(script)
    kinds: dict[str, dict[str, object]] = {**TRAINER, "workers": {"dataloader_num_workers": 2}}
    if script == "lightning_script":
        kinds = {**LIGHTNING, "workers": {"workers": 2}}

    def fault() -> dict[str, int]:
        made = {chosen.choice(["stop_at", "kill_at"]): chosen.randint(1, 12)}
        return {**made, "tear": chosen.randrange(1 << 16)} if chosen.random() < 0.3 else made

    schedules = [[fault() for _ in range(chosen.randint(1, 5))] for _ in range(25)]
    for name, options in kinds.items():
        check(run(script, disturbed({name: options}, schedules), tmp_path), 26)
