"""Staging around a job: inputs by content, outputs while it runs, nothing lost while away."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumar.errors import NotFound
from jumar.store.accounts import StoreConfig, save_account
from jumar.store.cache import ContentCache
from jumar.store.places import open_place
from jumar.store.stage import (
    STAGE_FAILED,
    Staged,
    StagePlan,
    bring_inputs,
    plan_json,
    read_plan,
    read_status,
    send_finally,
)


def plan_of(home: Path, tmp_path: Path, **wishes: object) -> StagePlan:
    fields = {"home": str(home), "status": str(tmp_path / "status.json"), "patience_s": 1.0}
    return StagePlan(**{**fields, **wishes})  # pyright: ignore[reportArgumentType]


def phase(plan: StagePlan) -> str:
    status = read_status(Path(plan.status))
    return "" if status is None else status.phase


def run(plan: StagePlan, tmp_path: Path, *command: str) -> "subprocess.Popen[bytes]":
    path = tmp_path / "plan.json"
    path.write_text(plan_json(plan))
    assert read_plan(path) == plan
    return subprocess.Popen(
        [sys.executable, "-m", "jumar.store.stage", "run", str(path), "--", *command]
    )


def wait_for(ready: "list[Path]", limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not all(path.exists() for path in ready):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_local_inputs_are_linked(home: Path, tmp_path: Path, folder_config: StoreConfig) -> None:
    open_place("obs://lab/", folder_config).store.write("data/x", b"x")
    target = tmp_path / "inputs" / "data_url"
    bring_inputs(plan_of(home, tmp_path, inputs=(Staged(url="obs://lab/data", path=str(target)),)))
    assert target.is_symlink()
    assert (target / "x").read_bytes() == b"x"


def test_inputs_come_once_and_then_from_the_cache(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    store = open_place(f"obs://{door_bucket}/", door_config).store
    for number in range(20):
        store.write(f"data/{number % 3}/{number}", os.urandom(1000))
    wishes = {"cache": str(tmp_path / "cache")}
    for turn in range(2):
        target = tmp_path / f"job{turn}" / "data_url"
        plan = plan_of(
            home,
            tmp_path,
            inputs=(Staged(url=f"obs://{door_bucket}/data", path=str(target)),),
            **wishes,
        )
        bring_inputs(plan)
        assert sum(1 for path in target.rglob("*") if path.is_file()) == 20
        status = read_status(Path(plan.status))
        assert status is not None
        assert status.cached_bytes == (0 if turn == 0 else 20_000)
    brought = tmp_path / "job1" / "data_url" / "0" / "0"
    assert brought.read_bytes() == store.read("data/0/0")


def test_the_cache_is_bounded_and_the_longest_unused_goes(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    store = open_place(f"obs://{door_bucket}/", door_config).store
    cache = tmp_path / "cache"
    for name in ("old", "new"):
        for number in range(5):
            store.write(f"{name}/{number}", os.urandom(1000))
    for name in ("old", "new"):
        target = tmp_path / name
        bring_inputs(
            plan_of(
                home,
                tmp_path,
                inputs=(Staged(url=f"obs://{door_bucket}/{name}", path=str(target)),),
                cache=str(cache),
            )
        )
        subprocess.run(["rm", "-rf", str(target)], check=True, timeout=20)
        time.sleep(0.02)
    removed = ContentCache(cache, 5000).trim()
    assert removed == 5000
    left = {path.read_bytes() for path in cache.glob("??/*")}
    assert left == {store.read(f"new/{number}") for number in range(5)}


def test_a_missing_input_is_told_and_the_command_is_not_run(home: Path, tmp_path: Path) -> None:
    plan = plan_of(home, tmp_path, inputs=(Staged(url="obs://lab/none", path=str(tmp_path / "i")),))
    with pytest.raises(NotFound):
        bring_inputs(plan)
    process = run(plan, tmp_path, "touch", str(tmp_path / "ran"))
    assert process.wait(30) == STAGE_FAILED
    assert not (tmp_path / "ran").exists()
    assert phase(plan) == "failed"


def test_outputs_go_while_it_runs_and_after_it_failed(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    plan = plan_of(
        home, tmp_path, outputs=(Staged(url="obs://lab/out", path=str(out)),), every_s=0.3
    )
    script = "import sys,time,pathlib; o=pathlib.Path(sys.argv[1]); (o/'a').write_text('a')\n"
    script += "while not (o.parent/'go').exists(): time.sleep(.05)\n"
    script += "(o/'b').write_text('b'); sys.exit(3)"
    process = run(plan, tmp_path, sys.executable, "-c", script, str(out))
    wait_for([home / "store/lab/out/a"])
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert process.wait(30) == 3
    assert (home / "store/lab/out/b").read_text() == "b"
    assert phase(plan) == "done"


def test_a_stop_reaches_the_command_and_its_results_are_sent(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    plan = plan_of(home, tmp_path, outputs=(Staged(url="obs://lab/out", path=str(out)),))
    script = "import signal,sys,time,pathlib; o=pathlib.Path(sys.argv[1])\n"
    script += "def end(*_): (o/'last').write_text('saved'); sys.exit(0)\n"
    script += "signal.signal(signal.SIGTERM, end); (o/'up').touch(); time.sleep(60)"
    process = run(plan, tmp_path, sys.executable, "-c", script, str(out))
    wait_for([out / "up"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert (home / "store/lab/out/last").read_text() == "saved"


def test_results_stay_and_are_marked_while_the_store_is_away(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    assert door_config.obs is not None
    out = tmp_path / "out"
    out.mkdir()
    (out / "model").write_bytes(b"weights")
    plan = plan_of(home, tmp_path, outputs=(Staged(url=f"obs://{door_bucket}/o", path=str(out)),))
    good = json.loads((home / "store.json").read_text())
    bad = {"obs": {**good["obs"], "endpoint": "http://127.0.0.1:1"}}
    (home / "store.json").write_text(json.dumps(bad))
    process = run(plan, tmp_path, "true")
    assert process.wait(60) == 0
    assert phase(plan) == "not-uploaded"
    assert (out / "model").exists()
    save_account(home / "store.json", "obs", door_config.obs)
    assert send_finally(plan)
    assert phase(plan) == "done"
    assert (
        open_place(f"obs://{door_bucket}/o/model", door_config).store.read("o/model") == b"weights"
    )
