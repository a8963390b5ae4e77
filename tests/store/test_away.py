"""Stores that are slow, or away while a job runs: nothing is lost, and it is said once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.store.dialects import Dialect, speaking
from tests.store.parts import copy, tree
from tests.store.test_staging import plan_of, status_of
from tests.waiting import wait_for

from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.store.credentials import Credential, StoreConfig, save_credential
from jumar.store.staging.plan import Staged, StagePlan, plan_json
from jumar.store.staging.send import send_finally
from jumar.store.staging.status import read_status


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_store_that_does_not_answer_for_a_while_gets_and_gives_all(
    way: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.store.objects.TIMEOUT_S", 1.0)
    folder = tmp_path / "from"
    folder.mkdir()
    with speaking(Dialect()) as dialect:
        config = StoreConfig(home / "store", home / "transfers", obs=dialect.credential)
        for number, size in enumerate((10, 3 * MIB, 17 * MIB)):
            data = os.urandom(size)
            (folder / str(number)).write_bytes(data)
            if way == "down":
                dialect.put(f"x/{number}", data)
        dialect.stalls = 3
        if way == "up":
            assert copy(folder, "obs://lab/x", config).failed == ()
        else:
            assert copy("obs://lab/x", tmp_path / "to", config).failed == ()
        assert dialect.stalls == 0
        arrived = {key[2:]: found.data for key, found in dialect.objects.items()}
    assert (arrived if way == "up" else tree(tmp_path / "to")) == tree(folder)


def keeping(plan: StagePlan, tmp_path: Path, log: Path) -> "subprocess.Popen[bytes]":
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_json(plan)))
    with log.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "jumar.store.staging", "keep", str(path)], stderr=file
        )


def test_a_store_away_while_a_job_runs_is_said_once_and_gets_all_when_it_is_back(
    home: Path, tmp_path: Path
) -> None:
    port = free_port()
    credential = Credential(f"http://127.0.0.1:{port}", access_key="AK", secret_key="SK")
    save_credential(home / "store.json", "obs", credential)
    out = tmp_path / "out"
    out.mkdir()
    for number in range(20):
        (out / str(number)).write_bytes(os.urandom(1000))
        os.utime(out / str(number), (1e9, 1e9))
    staged = (Staged(url="obs://lab/run", path=str(out)),)
    plan = plan_of(home, tmp_path, outputs=staged, every_s=0.2)
    log = tmp_path / "staging.log"
    process = keeping(plan, tmp_path, log)
    try:
        turns: set[float] = set()

        def five_turns() -> bool:
            status = read_status(Path(plan.status))
            if status is not None and status.error is not None:
                turns.add(status.updated_at)
            return len(turns) >= 5

        wait_for(five_turns)
        with speaking(Dialect(), port) as dialect:
            wait_for(lambda: len(dialect.objects) == 20)
            wait_for(lambda: status_of(plan).sent_at is not None)
            assert {key[4:]: found.data for key, found in dialect.objects.items()} == tree(out)
            wait_for(lambda: "results are being sent again" in log.read_text())
    finally:
        process.terminate()
        process.wait(60)
    said = log.read_text()
    assert said.count("results could not be sent yet") == 1, said
    assert said.count("trying again") <= 1, said
    assert said.count("results are being sent again") == 1, said


def test_an_output_whose_store_is_away_holds_up_no_other(home: Path, tmp_path: Path) -> None:
    gone = Credential(f"http://127.0.0.1:{free_port()}", access_key="AK", secret_key="SK")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    with speaking(Dialect()) as dialect:
        save_credential(home / "store.json", "obs", gone)
        save_credential(home / "store.json", "s3", dialect.credential)
        staged = (
            Staged(url="obs://lab/one", path=str(tmp_path / "one")),
            Staged(url="s3://lab/two", path=str(tmp_path / "two")),
        )
        plan = plan_of(home, tmp_path, outputs=staged, patience_s=0.3)
        assert not send_finally(plan)
        assert dialect.objects["two/f"].data == b"two"
    assert status_of(plan).phase == "not-uploaded"
