"""What torchrun reads and does beyond its everyday options."""

import json
import re
from pathlib import Path

import pytest
from tests.launch.conftest import Launcher
from tests.ports import free_port

SHOW = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $TORCHELASTIC_RUN_ID $TORCHELASTIC_MAX_RESTARTS"
VISIBLE = 'echo "$LOCAL_RANK $LOCAL_WORLD_SIZE $ASCEND_RT_VISIBLE_DEVICES$CUDA_VISIBLE_DEVICES$JUMAR_SIM_DEVICES"'
UUIDS = [f"GPU-5d3c9a7{n}-0b1e-42f6-9c8d-7e6f5a4b3c2{n}" for n in range(2)]


@pytest.fixture
def cards(tmp_path: Path) -> str:
    path = tmp_path / "cards.json"
    kinds = [("npu", 2), ("npu", 5), ("gpu", 0), ("gpu", 1), ("gpu", 3)]
    path.write_text(json.dumps([{"kind": kind, "id": number} for kind, number in kinds]))
    return str(path)


def test_variables_stand_for_options_that_are_not_given(launcher: Launcher) -> None:
    environ = {"PET_NPROC_PER_NODE": "2", "PET_RDZV_ID": "r8", "PET_MAX_RESTARTS": "3"}
    ended = launcher.run("sh", "-c", SHOW, environ=environ)
    assert ended.lines() == ["[rank 0] 0/2 0 r8 3", "[rank 1] 1/2 1 r8 3"]
    given = ("--devices", "cpu:1", "--rdzv-id=mine", "--max-restarts", "0")
    ended = launcher.run(*given, "sh", "-c", SHOW, environ=environ)
    assert ended.lines() == ["[rank 0] 0/1 0 mine 0"]


def test_nodes_meet_by_variables_alone(launcher: Launcher) -> None:
    common = {
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(free_port()), "PET_LOCAL_RANKS_FILTER": "1",
    }  # fmt: skip
    started = [
        launcher.start("sh", "-c", SHOW, environ={**common, "PET_NODE_RANK": node})
        for node in ("1", "0")
    ]
    one, zero = (launcher.end(running) for running in started)
    assert zero.lines() == ["[rank 1] 1/4 1 none 0"]
    assert one.lines() == ["[rank 3] 3/4 1 none 0"]


def test_flags_are_numbers(launcher: Launcher) -> None:
    environ = {"PET_STANDALONE": "1", "PET_NNODES": "4", "PET_MODULE": "1", "PET_NO_PYTHON": "0"}
    launcher.script("print('ran')", "mod.py")
    assert launcher.run("mod", environ=environ).output == "[rank 0] ran\n"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PET_NPROC_PER_NODE", "many"), ("PET_MASTER_PORT", "x"), ("PET_STANDALONE", "yes")],
)
def test_a_variable_that_cannot_be_used_is_named(
    launcher: Launcher, variable: str, value: str
) -> None:
    ended = launcher.run("true", environ={variable: value})
    assert ended.code == 2
    error, hint = ended.errors.splitlines()
    assert value in error
    assert variable in error + hint


def test_only_ranks_asked_for_are_printed_and_all_are_kept(
    launcher: Launcher, tmp_path: Path
) -> None:
    show = ("--devices", "cpu:4", "--log-dir", "logs", "--local_ranks_filter=1, 3")
    ended = launcher.run(*show, "sh", "-c", "echo out; echo err >&2; test $RANK != 2 || exit 3")
    # Rank 2 ends the others when it fails, at any moment: lines of theirs may be missing.
    assert ended.code == 3
    assert set(re.findall(r"\[rank (\d)\]", ended.output)) <= {"1", "3"}
    assert "rank 2 exited with code 3" in ended.errors
    assert (tmp_path / "logs/node0/rank2.log").read_text() == "out\nerr\n"
    ended = launcher.run(*show, "echo", "out")
    assert ended.lines() == ["[rank 1] out", "[rank 3] out"]
    assert launcher.run("--local-ranks-filter", "0,a", "true").code == 2


@pytest.mark.parametrize(
    ("devices", "seen"),
    [("npu:2", ["2", "5"]), ("gpu:3", ["0", "1", "3"]), ("sim:2", ["1", "1"]), ("cpu:2", ["", ""])],
)
def test_with_a_virtual_local_rank_each_sees_its_own_card_as_the_first(
    launcher: Launcher, cards: str, devices: str, seen: list[str]
) -> None:
    ended = launcher.run(
        "--cards", cards, "--devices", devices, "--virtual-local-rank", "--bind", "none",
        "sh", "-c", VISIBLE,
    )  # fmt: skip
    assert ended.lines() == [f"[rank {n}] 0 {len(seen)} {card}" for n, card in enumerate(seen)]


def test_other_counts_of_the_own_card_are_virtual_too(launcher: Launcher, cards: str) -> None:
    script = launcher.script(
        "import argparse, os\np = argparse.ArgumentParser()\np.add_argument('--local_rank')\n"
        "print(p.parse_args().local_rank, os.environ['RANK'], os.environ['DEVICE_ID'])\n"
    )
    ended = launcher.run(
        "--cards", cards, "--devices", "npu:2", "--virtual_local_rank", "--bind", "none",
        "--framework", "tensorflow", "--rank-table", "none", script,
    )  # fmt: skip
    assert ended.lines() == ["[rank 0] 0 0 0", "[rank 1] 0 1 0"]


def test_gpus_may_be_named_by_uuid(launcher: Launcher, cards: str) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": f"{UUIDS[1]}, {UUIDS[0]}"}
    in_order = f"{UUIDS[1]},{UUIDS[0]}"
    for devices in ("auto", "gpu:2", "2"):
        ended = launcher.run(
            "--cards", cards, "--devices", devices, "sh", "-c", VISIBLE,
            environ={**environ, "ASCEND_RT_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        assert ended.lines() == [f"[rank {n}] {n} 2 {in_order}" for n in range(2)]
    one_each = ("--devices", "gpu:2", "--virtual-local-rank", "sh", "-c", VISIBLE)
    ended = launcher.run(*one_each, environ=environ)
    assert ended.lines() == [f"[rank 0] 0 2 {UUIDS[1]}", f"[rank 1] 0 2 {UUIDS[0]}"]
    ended = launcher.run("--devices", "gpu:3", "true", environ=environ)
    assert (ended.code, "3 gpu wanted" in ended.errors) == (2, True)
    ended = launcher.run(
        "--devices", "gpu", "sh", "-c", VISIBLE, environ={"CUDA_VISIBLE_DEVICES": "MIG-1b2c/3/0"}
    )
    assert ended.lines() == ["[rank 0] 0 1 MIG-1b2c/3/0"]
    ended = launcher.run("--devices", "gpu:1", "true", environ={"CUDA_VISIBLE_DEVICES": "GPU0"})
    assert (ended.code, "'GPU0' is not a list of cards" in ended.errors) == (2, True)


def test_a_word_that_torchrun_completes_is_taken(launcher: Launcher) -> None:
    ended = launcher.run("--nnode", "1", "--nproc_per_node=2", "sh", "-c", SHOW)
    assert ended.lines() == ["[rank 0] 0/2 0 none 0", "[rank 1] 1/2 1 none 0"]
