"""Two runs compared: what counts as equal, and where they part."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from jumar.port import Options, port_tree
from jumar.port.proof import Certificate, TestCounts, Verdict, compare
from jumar.port.proof_runs import Failure, Kind, Mark, RunResult, gap
from jumar.port.proof_tests import are_tests, compare_tests
from jumar.port.report import as_html, proof_text
from jumar.port.report.as_patch import line_before
from jumar.port.report.for_programs import as_json, as_sarif
from jumar.port.report.summary import Evidence, Report, make
from jumar.port.trial_report import read

OUTPUT = Mark(Kind.OUTPUT, "Linear", (1.0, 2.0), where="net.py:4", source="x = self.fc(x)")
LOSS = Mark(Kind.LOSS, "loss", (2.0,), where="train.py:9", source="loss.backward()")
WEIGHT = Mark(Kind.PARAMETER, "w", (1.0, 2.0), "aa", "train.py:10", "optimizer.step()")
STEP = Mark(Kind.STEP, "SGD", where="train.py:10")
FIRST = (OUTPUT, LOSS, WEIGHT, STEP)
MARKS = FIRST + tuple(replace(mark, values=tuple(v / 2 for v in mark.values)) for mark in FIRST)
ORIGINAL = RunResult("CPU", ("python", "train.py"), (MARKS,))
PORT = RunResult("simulated NPU", ("python", "train.py"), (MARKS,), used=frozenset({"npu"}))


def changed(number: int, **fields: object) -> RunResult:
    marks = list(MARKS)
    marks[number] = replace(marks[number], **fields)  # pyright: ignore[reportArgumentType]
    return replace(PORT, ranks=(tuple(marks),))


def test_the_same_bits_are_proven() -> None:
    certificate = compare(ORIGINAL, PORT)
    assert certificate.equal
    assert certificate.bitwise
    assert (certificate.steps, certificate.parameters, len(certificate.losses)) == (2, 1, 2)
    assert proof_text.headline(certificate).en == (
        "proven: 2 losses and 1 parameter over 2 steps, equal to the last bit"
    )


def test_rounding_within_the_tolerance_is_proven_and_not_called_the_same_bits() -> None:
    certificate = compare(ORIGINAL, changed(2, values=(1.0 + 1e-7, 2.0), digest="bb"))
    assert certificate.equal
    assert not certificate.bitwise
    assert "equal within 1e-05" in proof_text.headline(certificate).en
    assert not compare(ORIGINAL, changed(2, digest="bb")).bitwise


@pytest.mark.parametrize(
    ("number", "fields", "what", "where"),
    [
        (5, {"values": (1.1,)}, "loss 2", "train.py:9"),
        (5, {"values": (math.nan,)}, "loss 2", "train.py:9"),
        (2, {"values": (1.0, 2.5)}, "parameter w after step 1", "train.py:10"),
        (6, {"what": "v"}, "order of events", "train.py:10"),
    ],
)
def test_the_first_difference_has_its_place(
    number: int, fields: dict[str, object], what: str, where: str
) -> None:
    certificate = compare(ORIGINAL, changed(number, **fields))
    assert certificate.verdict is Verdict.DIFFERS
    assert certificate.difference is not None
    assert (certificate.difference.what, certificate.difference.where) == (what, where)
    assert certificate.difference.original_where == where


def test_the_module_that_parts_first_is_named_where_a_later_figure_differs() -> None:
    marks = list(MARKS)
    marks[4] = replace(marks[4], values=(9.0, 9.0))
    marks[5] = replace(marks[5], values=(7.0,))
    origin = compare(ORIGINAL, replace(PORT, ranks=(tuple(marks),))).origin
    assert origin is not None
    assert (origin.what, origin.where) == ("output of Linear", "net.py:4")


def test_a_module_that_differs_only_afterwards_is_not_the_cause() -> None:
    marks = list(MARKS)
    marks[1] = replace(LOSS, values=(18.0,))
    marks[4] = replace(marks[4], values=(7.0, 9.0))
    certificate = compare(ORIGINAL, replace(PORT, ranks=(tuple(marks),)))
    assert certificate.difference is not None
    assert certificate.difference.what == "loss 1"
    assert certificate.origin is None
    # A module alone is no verdict: its output may have been thrown away.
    assert compare(ORIGINAL, changed(4, values=(9.0, 9.0))).equal


def test_a_run_that_is_shorter_differs_unless_time_ended_it() -> None:
    short = replace(PORT, ranks=(FIRST,))
    certificate = compare(ORIGINAL, short)
    assert certificate.difference is not None
    assert certificate.difference.what == "number of steps"
    cut = compare(ORIGINAL, replace(short, cut=True))
    assert cut.equal
    assert cut.steps == 1


def test_processes_are_compared_one_by_one() -> None:
    pair = replace(PORT, ranks=(MARKS, changed(5, values=(8.0,)).ranks[0]))
    certificate = compare(replace(ORIGINAL, ranks=(MARKS, MARKS)), pair)
    assert certificate.difference is not None
    assert certificate.difference.rank == 1
    assert compare(ORIGINAL, pair).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("original", "ported", "verdict"),
    [
        (True, False, Verdict.ORIGINAL_FAILED),
        (False, True, Verdict.PORT_FAILED),
        (True, True, Verdict.BOTH_FAILED),
    ],
)
def test_a_run_that_failed_is_no_proof(original: bool, ported: bool, verdict: Verdict) -> None:
    one = Failure("RuntimeError: no cuda", "train.py:3", "x = y", "Traceback <one>")
    other = Failure("RuntimeError: boom", "train.py:4", "x = z", "Traceback <other>")
    left = replace(ORIGINAL, failure=one, ranks=(FIRST,)) if original else ORIGINAL
    right = replace(PORT, failure=other, ranks=(FIRST,)) if ported else PORT
    certificate = compare(left, right)
    assert certificate.verdict is verdict
    # That the other one came further is no difference of its own.
    assert certificate.difference is None
    details = [words.en for words in proof_text.details(certificate)]
    assert ("Original: RuntimeError: no cuda (train.py:3)" in details) == original
    assert ("Port: RuntimeError: boom (train.py:4)" in details) == ported


def test_a_run_without_steps_or_without_a_device_proves_nothing() -> None:
    none = replace(PORT, ranks=())
    assert compare(replace(ORIGINAL, ranks=()), none).verdict is Verdict.NO_STEPS
    assert compare(ORIGINAL, replace(PORT, used=frozenset({"cpu"}))).verdict is Verdict.NO_DEVICE


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_without_numbers_proves_nothing(value: float) -> None:
    def without(run: RunResult, *kinds: Kind) -> RunResult:
        marks = [
            replace(mark, values=(value,) * len(mark.values)) if mark.kind in kinds else mark
            for mark in run.ranks[0]
        ]
        return replace(run, ranks=(tuple(marks),))

    for kind in (Kind.LOSS, Kind.PARAMETER):
        lost = compare(without(ORIGINAL, kind), without(PORT, kind))
        assert lost.verdict is Verdict.NO_NUMBERS
    # One overflow, as a loss scale meets at its start, is no obstacle; it is told.
    once = changed(1, values=(value,))
    certificate = compare(replace(once, used=frozenset()), once)
    assert certificate.equal
    assert "1 loss is NaN or infinite in both runs." in [
        words.en for words in proof_text.details(certificate)
    ]


def test_numbers_that_changed_places_are_a_difference() -> None:
    moved = changed(2, values=(1.0, 2.0, 0.25))
    there = replace(moved, ranks=changed(2, values=(1.0, 2.0, 0.75)).ranks)
    assert compare(moved, there).verdict is Verdict.DIFFERS


def test_a_sum_next_to_nothing_is_measured_by_its_norm() -> None:
    assert gap((1e-9, 2.0), (-1e-9, 2.0)) < 1e-8
    assert gap((math.inf,), (math.inf,)) == 0
    assert gap((1.0,), (math.inf,)) == math.inf
    assert gap((0.0,), (0.0,)) == 0


TRIAL = {
    "chip": "Ascend910B3",
    "release": "2.13",
    "mode": "warn",
    "steps": 2,
    "operators": {"mm": 4},
    "host_operators": [{"name": "fmax", "count": 2, "file": "/copy/train.py", "line": 3}],
    "events": [
        {"kind": "wait", "what": "item", "file": "/copy/train.py", "line": 4, "count": 2},
        {"kind": "refused", "what": "<add>", "file": "/lib/other.py", "line": 9, "count": 1},
    ],
    "bytes_moved": {"copy-to-device": 4096},
    "dtypes": {"torch.float32": 7},
    "memory": [{"device": 0, "peak": 2048, "limit": 4096}],
}


def reported(
    tmp_path: Path,
    certificate: Certificate,
    source: str = "import torch\nx.cuda()\ny = torch.fmax(x, x)\n",
) -> Report:
    (tmp_path / "train.py").write_text(source)
    evidence = Evidence(certificate, read(TRIAL, Path("/copy")))
    return make(port_tree(tmp_path, Options()), 0.5, evidence)


@pytest.mark.parametrize(
    ("ported", "code", "text"),
    [
        (PORT, "ready", "ready"),
        (changed(5, values=(3.0,)), "needs-work", "needs work: the proof failed"),
        (replace(PORT, failure=Failure("boom")), "needs-work", "needs work: the proof failed"),
        (replace(PORT, used=frozenset()), "ported", "ported, not proven yet"),
    ],
)
def test_only_a_proof_makes_a_port_ready(
    tmp_path: Path, ported: RunResult, code: str, text: str
) -> None:
    report = reported(tmp_path, compare(ORIGINAL, ported), source="import torch\nx.cuda()\n")
    document = json.loads(as_json(report))
    assert (document["verdict"]["code"], document["verdict"]["en"]) == (code, text)
    run = json.loads(as_sarif(report))["runs"][0]
    assert run["properties"]["verdict"] == code
    page = as_html.render(report)
    assert ("class='verdict work'" in page) == (code == "needs-work")


def test_the_headline_of_a_proven_port_is_not_red_even_if_places_are_left(tmp_path: Path) -> None:
    source = "import torch\nmodel = torch.nn.DataParallel(model).cuda()\n"
    report = reported(tmp_path, compare(ORIGINAL, PORT), source=source)
    assert report.verdict.code == "needs-work"
    page = as_html.render(report)
    assert "class='verdict limit'" in page
    assert "class='verdict work'" not in page


def test_where_both_fail_the_page_shows_each_error_under_its_side(tmp_path: Path) -> None:
    left = replace(ORIGINAL, failure=Failure("E: one", "a.py:1", "x = 1", "tail of one"))
    right = replace(PORT, failure=Failure("E: two", "b.py:2", "y = 2", "tail of two"))
    page = as_html.render(reported(tmp_path, compare(left, right)))
    order = ["Original: E: one (a.py:1)", "Port: E: two (b.py:2)", "tail of one", "tail of two"]
    places = [page.index(words) for words in order]
    assert places == sorted(places)


def test_tests_that_break_are_named_and_those_that_flicker_are_not() -> None:
    def run(of: RunResult, **tests: bool) -> RunResult:
        return replace(of, tests=tests, ranks=())

    original = run(ORIGINAL, a=True, b=True, c=False)
    found = compare_tests([original], [run(PORT, a=True, b=False)])
    assert found.verdict is Verdict.TESTS_FAIL
    assert found.is_the_ports_fault
    assert found.tests == TestCounts(1, 2, 3, ("b",))
    assert proof_text.headline(found).en == (
        "not proven: 1 of 2 tests that pass with the original fail with the port"
    )
    fewer = compare_tests([original], [run(PORT, a=True, b=True, c=False)])
    assert proof_text.headline(fewer).en.startswith("proven: 2 of 3 tests pass with the original")
    # Nobody trained, so there are no processes to count.
    assert "process" not in proof_text.setting(fewer).en
    assert "进程" not in proof_text.setting(fewer).zh
    assert "b" in [words.en for words in proof_text.details(found)]
    again = run(PORT, a=True, b=True)
    assert compare_tests([original] * 2, [run(PORT, a=True, b=False), again]).equal
    flickers = [original, run(ORIGINAL, a=True, b=False)]
    assert compare_tests(flickers, [run(PORT, a=True)] * 2).equal
    assert compare_tests([run(ORIGINAL, c=False)], [again]).verdict is Verdict.NO_TESTS
    unused = replace(again, used=frozenset())
    assert compare_tests([original], [unused]).verdict is Verdict.NO_DEVICE
    # Time ended the port's run before it came to b.
    assert compare_tests([original], [replace(run(PORT, a=True), cut=True)]).equal


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("pytest tests", True),
        ("python -m pytest -x", True),
        ("/usr/bin/pytest", True),
        ("python train.py", False),
        ("python pytest_like.py", False),
    ],
)
def test_a_command_that_runs_tests_is_recognised(command: str, answer: bool) -> None:
    assert are_tests(command.split()) is answer


def test_proof_and_trial_are_on_the_page_in_two_languages(tmp_path: Path) -> None:
    page = as_html.render(reported(tmp_path, compare(ORIGINAL, changed(5, values=(3.0,)))))
    for words in (
        "First difference: loss 2 (train.py:9): 1.0 became 3.0.",
        "首个差异",
        "train.py:9  loss.backward()",
        "aten::fmax",
        "&lt;add&gt;",
        "模拟 NPU 试运行",
        "2 KiB",
    ):
        assert words in page
    assert page.count('class="en"') == page.count('class="zh"')


def test_json_has_the_whole_proof_and_no_words_that_json_lacks(tmp_path: Path) -> None:
    text = as_json(reported(tmp_path, compare(ORIGINAL, changed(5, values=(math.nan,)))))
    assert "NaN" not in text
    document = json.loads(text)
    assert document["proof"]["equal"] is False
    assert document["proof"]["losses"][1] == {"step": 2, "original": 1.0, "ported": "nan"}
    assert document["trial"]["events"][0]["what"] == "aten::fmax"


def test_sarif_has_them_at_lines_of_the_source(tmp_path: Path) -> None:
    def results(certificate: Certificate) -> list[tuple[str, str, int | None]]:
        run = json.loads(as_sarif(reported(tmp_path, certificate)))["runs"][0]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        found: list[tuple[str, str, int | None]] = []
        for result in run["results"]:
            assert rules[result["ruleIndex"]] == result["ruleId"]
            places = result.get("locations", [])
            line = places[0]["physicalLocation"]["region"]["startLine"] if places else None
            found.append((result["ruleId"], result["level"], line))
        return found

    differs = results(compare(ORIGINAL, changed(5, values=(3.0,))))
    assert ("JP953", "error", 9) in differs
    # Line 3 of the port is line 2 of the source: a line was put before it.
    assert ("JP952", "warning", 2) in differs
    assert ("JP953", "none", None) in results(compare(ORIGINAL, PORT))


def test_lines_of_the_port_lead_back_to_the_source() -> None:
    before = ["a", "a2", "b", "c", "c2", "d", "e", "e2"]
    after = ["new", "a", "a2", "B1", "B2", "c", "c2", "e", "e2"]
    found = [line_before(before, after, line) for line in range(1, 10)]
    assert found == [1, 1, 2, 3, 3, 4, 5, 7, 8]
