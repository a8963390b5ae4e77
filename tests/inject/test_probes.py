"""What strict mode does against what a card does: the probes of `probes.tsv`, in one process per mode."""

import csv
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Outcome = tuple[str, str]
TABLE = Path(__file__).with_name("probes.tsv")
PAGE = Path(__file__).parents[2] / "docs/reference/simulated-npus.md"


def _rows() -> list[dict[str, str]]:
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


ROWS = _rows()
LEFT = [row for row in ROWS if row["simulated"]]


def outcomes(run: Run, mode: str, **variables: str) -> list[Outcome]:
    done = run("probes.py", str(TABLE), mode=mode, **variables)
    assert done.returncode == 0, done.stderr
    found: list[Outcome] = [(kind, words) for kind, words in json.loads(done.stdout)]
    assert len(found) == len(ROWS)
    return found


def _agrees(row: dict[str, str], outcome: Outcome) -> bool:
    return outcome[0] == row["answer"] and row["words"] in outcome[1]


def test_every_probe_has_an_answer_and_a_reason() -> None:
    assert len(ROWS) >= 200
    assert len({row["code"] for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row["answer"] in ("runs", "warns", "raises"), row
        assert re.match(r"(pytorch|op-plugin|ops-\w+|torch): |native-API table", row["source"]), row


def test_strict_does_what_a_card_does(simulated: Run) -> None:
    found = outcomes(simulated, "strict")
    wrong = [
        (row["code"], row["answer"], outcome)
        for row, outcome in zip(ROWS, found, strict=True)
        if _agrees(row, outcome) is bool(row["simulated"])
    ]
    assert wrong == []
    assert 1 - len(LEFT) / len(ROWS) >= 0.97


def test_the_page_shows_the_count_and_what_is_left() -> None:
    page = PAGE.read_text("utf-8")
    assert f"{len(ROWS) - len(LEFT)} of {len(ROWS)} probes" in page
    for row in LEFT:
        assert row["code"] in page


def test_warn_stops_nowhere_where_a_card_goes_on(simulated: Run) -> None:
    stopped = [
        (row["code"], words)
        for row, (kind, words) in zip(ROWS, outcomes(simulated, "warn"), strict=True)
        if kind == "raises"
        and row["answer"] != "raises"
        and not row["simulated"]
        # A cast to float64 stays one in this mode.
        and "float32" not in row["code"]
    ]
    assert stopped == []


FORBIDDEN = """
import torch, torch_npu
x = torch.ones(2, device="npu")
(x + x).exp()
try:
    torch.fmax(x, x)
    print("ran")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(("mode", "said"), [("strict", "is disabled by"), ("warn", "ran")])
def test_running_on_the_cpu_can_be_forbidden(simulated: Run, mode: str, said: str) -> None:
    done = simulated(FORBIDDEN, mode=mode, TORCH_NPU_FALLBACK_CPU_DISABLE="1")
    assert said in done.stdout, done.stderr
    assert "fmax on the CPU" in done.stderr
