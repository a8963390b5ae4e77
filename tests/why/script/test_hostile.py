"""Code that was written to hold up whoever reads it: what its log tells is not lost."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.why.script.code import LOG, judged, ran, write

from jumar.spec.text import flaw_of
from jumar.why import apart
from jumar.why.apart import JobCode, judge_apart
from jumar.why.gather import from_path
from jumar.why.script import checks
from jumar.why.script.bounds import TakesTooLong, bounded
from jumar.why.script.code import Folders, ends_alike, text_of
from jumar.why.script.reading import Fault, Finding, Place, Script

_LOOP = "def run(items):\n    for one in items:\n        loss = one\n    return loss\nrun([])\n"
_FOUND = "only inside a loop"
_ROOT = "/srv/jobs/j1/code"


@pytest.mark.parametrize(
    "above",
    ["\f\n", "\f# a\n", " \f\n", "# a\u2028b\n", "# \v \x1c \x85\n", "# \f\n", "# a\r", "# a\r\n"],
)
def test_lines_have_the_numbers_that_python_gives_them(tmp_path: Path, above: str) -> None:
    (tmp_path / "train.py").write_bytes((above + _LOOP).encode())
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, check=False, stderr=subprocess.PIPE, timeout=60
    )
    (tmp_path / LOG).write_bytes(done.stderr)
    told = judged(tmp_path)
    assert _FOUND in told.what["en"]
    assert [one.line for one in told.evidence[1:]] == [3, 4]
    assert told.evidence[1].text == "for one in items:"


def test_a_function_behind_a_form_feed_is_parsed(tmp_path: Path) -> None:
    assert _FOUND in ran(tmp_path, _LOOP.replace("def run", "  \fdef run")).what["en"]


def test_a_file_of_one_line_fills_no_page(tmp_path: Path) -> None:
    many = "items and [" + "1, " * 100_000 + "]"
    verdict = ran(tmp_path, _LOOP.replace("in items", f"in {many}"))
    assert _FOUND in verdict.what["en"]
    assert all(len(text) < 1000 for text in (*verdict.what.values(), *verdict.remedy.values()))
    assert all(len(one.text) <= 301 for one in verdict.evidence)


def test_a_path_of_many_parts_is_compared_in_little_time() -> None:
    names = [f"some/folder/of/code/x{number % 9}.py" for number in range(20_000)]
    began = time.process_time()
    for number in range(40):
        list(ends_alike("/" + "a/" * 900 + f"x{number % 9}.py", names))
    assert time.process_time() - began < 10
    alike = ["b/x.py", "a/x.py", "x.py", "z/ax.py", "q/b/a/x.py"]
    assert list(ends_alike("/u/b/a/x.py", alike)) == ["q/b/a/x.py", "a/x.py", "b/x.py", "x.py"]


def _spin() -> None:
    while True:
        pass


def _never_ends(fault: Fault, script: Script) -> Finding | None:
    _spin()


def _takes_all_memory(fault: Fault, script: Script) -> Finding | None:
    raise MemoryError


def _has_a_fault(fault: Fault, script: Script) -> Finding | None:
    raise IndexError("of the check itself")


@pytest.mark.parametrize("look", [_never_ends, _takes_all_memory, _has_a_fault])
def test_a_check_that_fails_loses_nothing_that_the_log_tells(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Fault, Script], Finding | None],
) -> None:
    monkeypatch.setattr(checks, "CHECKS", ((frozenset(("name-missing",)), look),))
    assert ran(tmp_path, _LOOP).cause == "name-missing"


def test_what_a_string_of_the_code_holds_is_shown_as_one_line_that_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "a\nremedy: b\ud800\0" + "c" * 1000

    def look(fault: Fault, script: Script) -> Finding | None:
        place = Place(said, 1, said)
        return Finding(
            "unbound-later", dict.fromkeys(("name", "function", "where"), said), (place,)
        )

    monkeypatch.setattr(checks, "CHECKS", ((frozenset(("name-missing",)), look),))
    verdict = ran(tmp_path, _LOOP)
    shown = (*verdict.what.values(), *verdict.remedy.values())
    for text in (*shown, verdict.evidence[1].file, verdict.evidence[1].text):
        assert "\n" not in text
        assert flaw_of(text) is None
        assert len(text) < 2500


def test_time_that_was_not_used_up_ends_nothing() -> None:
    with bounded(0.05):
        pass
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    with pytest.raises(TakesTooLong), bounded(0.05):
        _spin()


def test_a_child_that_the_code_ends_is_followed_by_one_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path, _LOOP)
    children: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **given: object) -> None:
            super().__init__(*args, **given)  # pyright: ignore[reportArgumentType, reportCallIssue]
            children.append(self)

    def kills(name: str) -> int:
        children[-1].kill()
        children[-1].wait()
        return os.open(tmp_path / name, os.O_RDONLY)

    monkeypatch.setattr(apart.subprocess, "Popen", Kept)
    log = tmp_path / "job.log"
    log.write_text((tmp_path / LOG).read_text().replace(f"{tmp_path}/", f"{_ROOT}/"))
    verdict = judge_apart([from_path(str(log))], code=JobCode(["train.py"], _ROOT, (), kills))
    assert verdict.cause == "name-missing"
    assert len(children) == 2


def test_code_beside_many_data_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "", "a/b.py": ""})
    for number in range(6000):
        (tmp_path / f"{number}.jpg").touch()
    listed = Folders([str(tmp_path)], is_sure=True).names("")
    assert listed == [str(tmp_path / "train.py"), str(tmp_path / "a/b.py")]


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty", "/proc/self/fd"])
def test_what_leads_to_a_device_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    (tmp_path / "train.py").symlink_to(device)

    def opened(*_: object) -> int:
        raise AssertionError("it was opened")

    with monkeypatch.context() as now:
        now.setattr(os, "open", opened)
        assert text_of(Folders([str(tmp_path)], is_sure=True), str(tmp_path / "train.py")) is None


def test_half_a_character_in_a_record_of_a_log_can_be_sent(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text('{"message": "ValueError: bad \\ud800 thing", "level": "error"}\n')
    verdict = judge_apart([from_path(str(log))])
    assert [flaw_of(one.text) for one in verdict.evidence] == [None]
    assert not any(map(flaw_of, verdict.what.values()))
