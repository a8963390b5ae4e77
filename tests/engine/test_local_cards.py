"""What a job is told of its cards: numbers, generation, addresses, its superpod."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.engine.conftest import Workshop, log_of

from jumar.devices.machine import Machine
from jumar.engine.local.engine import CardBook, LocalEngine
from jumar.launch.processes.probe import Answer
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.states import AttemptState

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def npus(generation: str, device_ip: str | None = None) -> tuple[Card, ...]:
    """The cards 12 to 15, as a container sees them."""
    return tuple(
        Card(
            DeviceKind.NPU,
            number,
            generation=generation,
            logical_id=place,
            npu_id=number,
            chip_id=0,
            device_ip=device_ip and f"{device_ip}{number}",
        )
        for place, number in enumerate(range(12, 16))
    )


def machine(root: Path, answers: dict[str, str]) -> tuple[Machine, list[str]]:
    asked: list[str] = []
    tool = root / "usr/local/bin/npu-smi"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)

    def answer(command: Sequence[str], *, timeout_s: float) -> Answer:
        asked.append(" ".join(command[1:]))
        return Answer(0, answers[asked[-1]]) if asked[-1] in answers else Answer(1, "no")

    return Machine(root, answer, {}), asked


@pytest.fixture
def with_npus(workshop: Workshop) -> Workshop:
    workshop.engine = LocalEngine(workshop.home, npus("A2", "10.7.0."))
    return workshop


def test_a_job_sees_logical_numbers_and_its_rank_table_physical_ones(with_npus: Workshop) -> None:
    made, seen = with_npus.run(
        ["python", "-c", SHOW], device="npu:2", ranks="device", cards=(14, 13), framework="mindspore 2.6"
    )  # fmt: skip
    assert seen.state == AttemptState.SUCCEEDED, seen
    found = json.loads(log_of(made, 1))
    assert found["ASCEND_RT_VISIBLE_DEVICES"] == "1,2"
    assert (found["RANK_ID"], found["RANK_SIZE"], found["DEVICE_ID"]) == ("1", "2", "1")
    assert found["RANK_TABLE_FILE"] == str(made.directory / "hccl.json")
    table = json.loads((made.directory / "hccl.json").read_text())
    assert table["server_list"][0]["device"] == [
        {"device_id": "13", "device_ip": "10.7.0.13", "rank_id": "0"},
        {"device_id": "14", "device_ip": "10.7.0.14", "rank_id": "1"},
    ]


def test_a_command_that_starts_its_ranks_itself_finds_the_table(with_npus: Workshop) -> None:
    command = '. "$JUMAR_POD_ENV"; echo $RANK_SIZE $DEVICE_ID $RANK_ID $ASCEND_RT_VISIBLE_DEVICES $VISIBLE_IDS'
    made, _ = with_npus.run(command, device="npu:2", cards=(14, 15))
    assert log_of(made) == "2 0 2,3 14,15\n"


def test_superpods_are_asked_for_once_a_card(tmp_path: Path) -> None:
    spod = "SDID : {}\nSuper Pod Size : 384\nSuper Pod ID : 6\n"
    answers = {f"info -t spod-info -i {n} -c 0": spod.format(n + 30) for n in range(12, 16)}
    here, asked = machine(tmp_path, answers)
    book = CardBook(here)
    first = book.facts(DeviceKind.NPU, (12, 13), npus("A3"))
    assert [fact["super_device_id"] for fact in first] == ["42", "43"]
    assert {fact["super_pod_id"] for fact in first} == {"6"}
    assert book.facts(DeviceKind.NPU, (13, 14), npus("A3"))[0] == first[1]
    assert len(asked) == 3


def test_addresses_of_the_first_generation_are_asked_for_until_one_is_silent(
    tmp_path: Path,
) -> None:
    here, asked = machine(tmp_path, {"-i 13 -ip -g": "ipaddr:10.9.0.13\nnetmask:255.255.0.0\n"})
    shutil.copy(tmp_path / "usr/local/bin/npu-smi", tmp_path / "usr/local/bin/hccn_tool")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hccn.conf").write_text("address_12=10.9.0.12\n")
    facts = CardBook(here).facts(DeviceKind.NPU, range(12, 16), npus("910"))
    assert [fact["device_ip"] for fact in facts] == ["10.9.0.12", "10.9.0.13", None, None]
    assert asked == ["-i 13 -ip -g", "-i 14 -ip -g"]


def test_what_cannot_be_read_leaves_the_numbers(tmp_path: Path) -> None:
    here, _ = machine(tmp_path, {})
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hccl_rootinfo.json").write_text("{")
    facts = CardBook(here).facts(DeviceKind.NPU, (12,), npus("A5"))
    assert facts == ({"id": 12, "logical_id": 0, "generation": "A5"},)


def test_a_rank_table_that_cannot_be_made_is_told_and_the_job_runs(workshop: Workshop) -> None:
    workshop.engine = LocalEngine(workshop.home, npus("A5"))
    made, seen = workshop.run("test -z $RANK_TABLE_FILE", device="npu:1", cards=(12,))
    assert seen.state == AttemptState.SUCCEEDED
    assert "no rank table: 2.0 needs an address" in (made.directory / "events.jsonl").read_text()


def test_a_rank_table_that_lacks_what_the_chip_needs_is_told(workshop: Workshop) -> None:
    workshop.engine = LocalEngine(workshop.home, npus("910"))
    made, seen = workshop.run("test -f $RANK_TABLE_FILE", device="npu:1", cards=(12,))
    assert seen.state == AttemptState.SUCCEEDED
    events = (made.directory / "events.jsonl").read_text()
    assert "the rank table is wrong" in events
    assert "device_ip" in events
