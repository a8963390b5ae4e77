"""transformers' Trainer and Lightning, scripts that know nothing of jumar, and a loop with jumar_ckpt: stopped,
killed, also while they save, out of room and with torn checkpoints, they end with the weights of a run that
nothing disturbed."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.inject.simulated import environment as simulated
from jumar.inject.starting import START_PATH, first_on_path
from jumar.spec.recovery import read_advance

SCRIPTS = Path(__file__).parent / "scripts"
Schedule = list[dict[str, int]]
MIXED: Schedule = [{"stop_at": 5}, {"kill_saving": 1}, {"kill_at": 6, "tear": 3}, {"stop_at": 1}]
OTHER: Schedule = [{"kill_at": 6}, {"full_at": 1}, {"stop_at": 2, "tear": 5}, {"kill_saving": 3}]
TRAINER: dict[str, dict[str, object]] = {
    "best": {
        "gradient_accumulation_steps": 2, "load_best_model_at_end": True, "eval_strategy": "steps",
        "eval_steps": 2, "save_steps": 2, "save_total_limit": 1,
    },
    "model-only": {"save_only_model": True},
}  # fmt: skip
LIGHTNING: dict[str, dict[str, object]] = {
    "validated": {},
    "by-steps": {"every": 4, "validate": False},
}
KINDS: dict[str, dict[str, dict[str, object]]] = {
    "trainer_script": {**TRAINER, "workers": {"dataloader_num_workers": 2}, "ranks-2": {}},
    "lightning_script": {**LIGHTNING, "workers": {"workers": 2}, "ranks-2": {"ranks": 2}},
    "loop_script": {"one": {}, "ranks-2": {}, "every-ranks-2": {"every_rank": True}},
}
Case = dict[str, Any]
Found = list[dict[str, Any]]


def case(script: str, kind: str, segments: Schedule, *, off: bool = False) -> Case:
    name = f"{script}-{kind}-{random.randrange(1 << 40):x}"
    ranks = 2 if kind.endswith("ranks-2") else 1
    options = KINDS[script][kind]
    return {
        "script": script, "name": name, "segments": segments, "options": options, "off": off, "ranks": ranks,
    }  # fmt: skip


def run(
    cases: list[Case], root: Path, variables: dict[str, str] | None = None, limit_s: float = 600
) -> Found:
    environ = {
        **first_on_path(os.environ, START_PATH),
        **(variables or {}),
        "JUMAR_CKPT_DIR": str(root),
        "JUMAR_STOP_FILE": str(root / "stop"),
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "resume_driver.py")],
        input=json.dumps(cases), env=environ, capture_output=True, text=True, timeout=limit_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    # The libraries print as well.
    return json.loads(done.stdout.splitlines()[-1])


def is_same(found: Found) -> list[Any]:
    """Those of one kind, the first of them undisturbed; what the others ended with."""
    assert {code for codes in found[0]["codes"] for code in codes} == {0}
    for one in found[1:]:
        assert one["hash"] == found[0]["hash"], one["codes"]
    return [one["codes"] for one in found[1:]]


def test_the_weights_are_those_of_a_run_that_nothing_disturbed(tmp_path: Path) -> None:
    lightning = [
        case("lightning_script", "validated", [{"stop_at": 3}], off=True),
        case("lightning_script", "validated", []),
        case("lightning_script", "validated", MIXED),
    ]
    trainer = [case("trainer_script", "best", one) for one in ([], MIXED, OTHER)]
    loop = [case("loop_script", "one", one) for one in ([], MIXED, OTHER)]
    ranks = [case("loop_script", "every-ranks-2", one) for one in ([], [{"stop_at": 5}, {}])]
    found = run([*lightning, *trainer, *loop, *ranks], tmp_path, {"JUMAR_RESUME": "off"})
    # The first one had no hooks and was asked to stop all the same: they change no run that goes through.
    assert is_same(found[:3])[1] == [[75], [-9], [-9], [75], [0]]
    assert is_same(found[3:6]) == [
        [[75], [-9], [-9], [75], [0]],
        [[-9], [1], [75], [-9], [0]],
    ]
    assert is_same(found[6:9])[0] == [[75], [-9], [-9], [75], [0]]
    assert is_same(found[9:]) == [[[75, 75], [0, 0]]]
    # Asked to leave, none is repeated; killed while it saves, those since the save before are.
    assert_counted(found[2]["told"], [0, 1])
    assert_counted(found[4]["told"], [0, 1])
    assert_counted(found[7]["told"], [0, 3])
    assert_counted(found[10]["told"], [0])


def assert_counted(told: list[str], repeated: list[int]) -> None:
    """That the segments told from where they went on, and when they had made a step."""
    found = [read_advance(one.encode()) for one in told]
    for before, after, steps in zip(found, found[1:], repeated, strict=False):
        assert before.counter is not None
        assert before.step - after.resumed[before.counter] == steps
        assert before.first_at is not None
        assert after.first_at is not None
        assert before.first_at < after.first_at


def schedules(seed: str, count: int) -> list[Schedule]:
    chosen = random.Random(seed)

    def fault() -> dict[str, int]:
        what = chosen.choice(["stop_at", "kill_at", "full_at", "kill_saving"])
        made = {what: chosen.randint(1, 4 if what == "kill_saving" else 12)}
        return {**made, "tear": chosen.randrange(1 << 16)} if chosen.random() < 0.3 else made

    return [[fault() for _ in range(chosen.randint(1, 5))] for _ in range(count)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "kind"), [(script, kind) for script, kinds in KINDS.items() for kind in kinds]
)
def test_random_schedules(script: str, kind: str, tmp_path: Path) -> None:
    count = 25
    if kind.endswith("ranks-2"):
        # The ranks that are left when one is killed wait for a supervisor, which is not there.
        chosen = random.Random(script)
        many = [[{"stop_at": chosen.randint(1, 12)} for _ in range(4)] for _ in range(5)]
    else:
        many = schedules(script + kind, count)
    is_same(run([case(script, kind, one) for one in [[], *many]], tmp_path, limit_s=3000))


@pytest.mark.full
def test_a_trainer_on_simulated_npus(tmp_path: Path) -> None:
    cases = [case("trainer_script", "best", one) for one in [[], *schedules("npu", 10)]]
    changed = simulated(first_on_path(os.environ, START_PATH), devices=1)
    is_same(run(cases, tmp_path, changed))
