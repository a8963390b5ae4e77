"""The doctor as a whole: a well machine, a bare one, tools that hang, flood or talk nonsense."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host.conftest import FakeMachine
from tests.identity import being

from jumar.errors import BadInput
from jumar.host import doctor
from jumar.host.doctor import CHECKS, choose, examine
from jumar.host.findings import Check, Finding, Verdict, ok
from jumar.host.patient import Patient


def test_a_well_machine_has_nothing_to_complain_of(well: FakeMachine):
    well.source(well.add_cann("9.1.0"))
    site = well.add_python(torch="2.14.0", torch_npu="2.14.0", torchvision="0.29.0")
    well.add_needed()
    (site / "torch.py").write_text(
        "class npu:\n    is_available = staticmethod(lambda: True)\n"
        "    device_count = staticmethod(lambda: 2)\n"
    )
    (site / "torch_npu.py").touch()
    report = well.examine()
    bad = [one for one in report.results if one.verdict in (Verdict.WARN, Verdict.FAIL)]
    assert bad == []
    assert report.is_well
    unseen = {one.check for one in report.results if one.verdict is Verdict.UNKNOWN}
    assert unseen == set()


def test_a_machine_without_a_card_is_well_and_says_so_once(bare: FakeMachine):
    bare.add_python()
    report = bare.examine()
    assert report.is_well
    assert report.count(Verdict.WARN) == 0
    unseen = [one.check for one in report.results if one.verdict is Verdict.UNKNOWN]
    assert unseen == ["card-driver", "torch-fit"]
    assert bare.verdicts("tls") == {Verdict.UNKNOWN}


def test_every_problem_comes_with_its_fix(bare: FakeMachine):
    bare.add_cards(2, nodes=False)
    bare.environ |= {"ASCEND_HOME_PATH": "/opt/gone", "HCCL_CONNECT_TIMEOUT": "5"}
    report = bare.examine("cards", "driver", "CANN", "variables", "network", "host")
    bad = [one for one in report.results if one.verdict in (Verdict.WARN, Verdict.FAIL)]
    assert len(bad) >= 4
    assert all(one.fix for one in bad)


def hang(machine: FakeMachine, tool: str) -> Path:
    """Let a tool hang; the file has a line for each time that it came as far."""
    asked = machine.root / "asked"
    asked.touch()
    machine.add_tool(tool, f'echo "$*" >> {asked}; exec sleep 600')
    return asked


def test_a_tool_that_hangs_costs_one_limit(well: FakeMachine):
    asked = hang(well, "npu-smi")
    well.shorter(probe_s=0.5)
    report = well.examine("cards", "driver", "use", "variables", "network")
    seen = {one.check: one for one in report.results}
    assert "did not answer in time" in seen["npu-smi"].seen
    assert "dmesg" in (seen["npu-smi"].fix or "")
    assert seen["health"].verdict is Verdict.UNKNOWN
    assert seen["card-driver"].verdict is Verdict.OK
    assert asked.read_text() in ("", "info\n")


def test_a_network_tool_that_hangs_is_asked_once_a_check(well: FakeMachine):
    asked = hang(well, "hccn_tool")
    well.shorter(probe_s=0.3)
    report = well.examine("network")
    questions = asked.read_text().splitlines()
    assert len(set(questions)) == len(questions)
    assert all(question.startswith("-i 0 ") for question in questions)
    assert {one.verdict for one in report.results if one.check != "device-ip"} == {Verdict.UNKNOWN}


def test_a_tool_that_floods_is_cut_off(well: FakeMachine):
    well.add_tool("npu-smi", "exec yes '| 0 910B3 |'")
    seen, fix = well.found("npu-smi", Verdict.FAIL)
    assert "wrote more than" in seen
    assert fix


@pytest.mark.parametrize("answer", ["", "hello", "| | | |", "\\0377\\0200\\0001", "+---+\\n|x|"])
def test_a_tool_that_talks_nonsense_leaves_things_unknown(well: FakeMachine, answer: str):
    well.add_tool("npu-smi", f"printf '{answer}'")
    well.add_tool("hccn_tool", f"printf '{answer}'")
    report = well.examine("driver", "use", "network")
    assert not any("broke" in one.seen for one in report.results)
    assert {one.verdict for one in report.results} <= {Verdict.UNKNOWN, Verdict.OK}
    assert report.count(Verdict.UNKNOWN) >= 6


def test_a_tool_that_crashes_is_said_to(well: FakeMachine):
    well.add_tool("npu-smi", "kill -SEGV $$")
    assert "was killed by SIGSEGV" in well.found("npu-smi", Verdict.FAIL)[0]


def test_a_tool_that_may_not_be_run(well: FakeMachine):
    well.add_tool("npu-smi", "exit 1")
    (well.root / "usr/local/bin/npu-smi").write_text("not a program")
    seen, fix = well.found("npu-smi", Verdict.FAIL)
    assert "cannot run" in seen
    assert fix


def test_folders_that_this_user_may_not_enter(well: FakeMachine):
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    well.root.chmod(0)
    try:
        with being(65534, 65534):
            report = well.examine("cards", "driver", "use", "CANN", "variables", "network", "host")
    finally:
        well.root.chmod(0o755)
    assert [one for one in report.results if "broke" in one.seen] == []
    assert {one.verdict for one in report.results if one.family == "cards"} == {Verdict.UNKNOWN}


def test_a_check_that_never_answers_is_given_up(bare: FakeMachine):
    def hang(patient: Patient) -> Iterator[Finding]:
        time.sleep(600)
        yield ok("never")

    bare.shorter(all_s=3)
    report = examine(bare.patient(), [Check("stuck", "host", hang), *choose(["memory"])])
    assert [one.verdict for one in report.results] == [Verdict.UNKNOWN, Verdict.OK]
    assert "no answer within 3 s" in report.results[0].seen


def test_a_check_that_breaks_does_not_hide_the_others(bare: FakeMachine):
    def broken(patient: Patient) -> Iterator[Finding]:
        raise ZeroDivisionError("oh")
        yield

    report = examine(bare.patient(), [Check("broken", "host", broken), *choose(["memory"])])
    assert [one.verdict for one in report.results] == [Verdict.UNKNOWN, Verdict.OK]
    assert "ZeroDivisionError: oh" in report.results[0].seen


def test_a_question_is_asked_once_however_many_checks_want_it(well: FakeMachine):
    counter = well.write("asked")
    script = (well.root / "usr/local/bin/npu-smi").read_text().removeprefix("#!/bin/sh\n")
    well.add_tool("npu-smi", f"echo x >> {counter}\n{script}")
    well.examine("driver", "use", "variables", "network")
    assert len(counter.read_text().split()) == 3  # info, and the board of each card


def test_checks_are_chosen_by_name_and_by_family():
    assert [check.name for check in choose(["tls", "Python"])] == [
        "python",
        "python-packages",
        "tls",
    ]
    assert choose([]) == CHECKS
    with pytest.raises(BadInput, match="there is no check 'tlss'") as caught:
        choose(["tlss"])
    assert "tls" in (caught.value.hint or "")


def test_names_of_checks_are_unique():
    names = [check.name for check in doctor.CHECKS]
    assert len(set(names)) == len(names)
