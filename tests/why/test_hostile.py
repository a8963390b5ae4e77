"""Logs that somebody has written to hold up whoever reads them, and logs that change meanwhile."""

import os
import pkgutil
import re
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from tests.why.logs import verdict_of
from tests.why.pumping import seconds_at_most

import jumar.why
from jumar.why import apart, facts, reasons, statements
from jumar.why.apart import judge_apart
from jumar.why.gather import from_path
from jumar.why.judging import judge
from jumar.why.knowledge import forms, kinds, rows
from jumar.why.particulars import below, fits_all, particulars
from jumar.why.settling import settled

_STACK = 'Traceback (most recent call last):\n  File "/u/train.py", line 3, in f\n    g()\n'
_LENGTH = 800
_LIMIT_S = 0.3
_LONG_WORDS_S = 1.5


def _patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for table in (kinds(), forms()):
        yield from ((cause.name, pattern) for cause, pattern in table)
    yield from ((one.name, one.pattern) for one in statements.statements())
    further = [one for found in below().values() for one in found]
    for one in (*particulars(), *fits_all(), *further):
        yield one.name, one.message.compiled
        if one.where is not None:
            yield f"{one.name}, where", re.compile(re.sub(r"@\w+@", "a", one.where), re.MULTILINE)
    yield from ((row[2], re.compile(row[3])) for row in rows("jumar.why", "details.tsv"))
    yield from reasons.patterns().items()
    yield from facts.patterns()
    for one in [one for found in settled().values() for one in found]:
        if one.pattern is not None:
            yield one.name, one.pattern
    for module in pkgutil.iter_modules(jumar.why.__path__, "jumar.why."):
        for name, value in vars(import_module(module.name)).items():
            if isinstance(value, re.Pattern):
                pattern = cast("re.Pattern[Any]", value)
                yield from [(name, pattern)] if isinstance(pattern.pattern, str) else []


def test_no_expression_takes_much_longer_for_a_text_that_was_made_for_it() -> None:
    slow = {
        name: taken
        for name, pattern in _patterns()
        if (taken := seconds_at_most(pattern, _LENGTH, give_up_s=1.0)) > _LIMIT_S
    }
    assert not slow


@pytest.mark.parametrize("said", ["a", "9", "/x", "A.b", "-", "'"])
def test_long_words_in_which_nothing_is_known_cost_little(said: str) -> None:
    """No single expression is slow there; but there are more than a thousand, and each used to begin at every letter."""
    line = (said * 2000)[:2000] + "\n"
    # Tables are read once.
    verdict_of("nothing")
    began = time.process_time()
    assert verdict_of(line * 10).cause is None
    assert time.process_time() - began < _LONG_WORDS_S


def test_what_takes_too_long_is_given_up_by_the_child_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(_STACK + "ValueError: no\n")
    assert judge_apart([from_path(str(log))]).cause == judge([from_path(str(log))]).cause
    monkeypatch.setattr(apart, "_PATIENCE_S", 0.0)
    verdict = judge_apart([from_path(str(log))])
    assert (verdict.cause, verdict.whose, verdict.files) == (None, "unknown", 1)
    assert "take longer" in verdict.what["en"]


def test_a_log_that_is_gone_by_now_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    for name in ("rank0.log", "rank1.log"):
        (tmp_path / name).write_text(_STACK + "KeyError: 'loss'\n")
    sources = [from_path(str(tmp_path / name)) for name in ("rank0.log", "rank1.log")]
    (tmp_path / "rank0.log").unlink()
    for verdict in (judge(sources), judge_apart(sources)):
        assert verdict.cause == "key-missing"
        assert [one.file for one in verdict.evidence] == [str(tmp_path / "rank1.log")]


def test_a_log_that_is_cut_while_it_is_read_is_read_as_far_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "rank0.log"
    # So many that kinds of lines are noted, and looked up once more in the end.
    log.write_text("".join(f"Error {number}: no luck\n" for number in range(2_500_000)))
    blocks = log.stat().st_size // (8 << 20) + 1
    read_at = os.pread
    reads = iter(range(1_000_000))

    def cut_when_all_is_read(fd: int, length: int, at: int) -> bytes:
        # Once for its head, then block by block.
        if next(reads) == blocks + 1:
            os.truncate(log, 20)
        return read_at(fd, length, at)

    monkeypatch.setattr(os, "pread", cut_when_all_is_read)
    assert judge([from_path(str(log))]).files == 1


def test_a_log_may_be_dated_beyond_all_calendars() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as log:
        log.write((_STACK + "KeyError: 'loss'\n").encode())
        log.flush()
        os.utime(log.name, (2**62, 2**62))
        assert judge([from_path(log.name)]).cause == "key-missing"
