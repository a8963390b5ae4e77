"""What others have written is shown in a terminal, and never obeyed by it."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Jumar, environment_for

from jumar.cli.output import (
    LogFilter,
    complain,
    json_escaped,
    note,
    print_json,
    print_table,
    readable,
    readable_line,
    say,
)

CLIPBOARD = "\x1b]52;c;aGk=\x07"
TITLE = "\x1b]0;mine\x1b\\"
ODD = [CLIPBOARD, TITLE, "\x1b[2J", "\x1b[6n", "\x1bc", "\x9d0;x\x9c", "\u202e", "\x7f", "\b", "\0"]
SEEN = st.text(st.characters(exclude_categories=["Cs"]))
ANYTHING = st.text(st.sampled_from([*"\x1b[]0;m\\\x07\n\r\tPX^_aKA?", "\x9b", "\u202e", "é"]))


def _hint(text: str) -> None:
    complain("x", hint=text)


def _table(text: str) -> None:
    print_table(("A", "B"), [(text, text)])


def _narrow_table(text: str) -> None:
    print_table(("A", "B"), [(text, text)], width=60)


def _json(text: str) -> None:
    print_json({"name": text, text: 1})


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "show",
    [
        say,
        note,
        complain,
        _hint,
        _table,
        _narrow_table,
        _json,
    ],
)
def test_nothing_that_is_printed_commands_the_terminal(
    capsys: pytest.CaptureFixture[str], show: Callable[[str], None], odd: str
) -> None:
    show(f"before{odd}after")
    shown = "".join(capsys.readouterr())
    assert not set(shown) & {*odd} - {*"]52;c;aGk=0mine\\[2J6ncx"}
    assert "before" in shown
    assert "\\" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("训练\u3000结束\n\tok", "训练\u3000结束\n\tok"),
        ("a\r\nb", "a\nb"),
        ("10%\r20%", "10%\\r20%"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\ud800", "\\ud800"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_text_of_several_lines_stays_so(text: str, shown: str) -> None:
    assert readable(text) == shown


def test_a_cell_is_one_line() -> None:
    assert readable_line("a\nb\tc") == "a\\nb\\tc"


@given(st.dictionaries(SEEN, SEEN))
def test_escaped_json_means_the_same(values: dict[str, str]) -> None:
    assert json.loads(json_escaped(json.dumps(values, ensure_ascii=False))) == values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
        ("\x1b[38;2;1;2;3mx", "\x1b[38;2;1;2;3mx"),
        ("10%\r20%\r\x1b[K30%\x1b[1A\n", "10%\r20%\r\x1b[K30%\x1b[1A\n"),
        ("1\b2", "1\b2"),
        (f"a{CLIPBOARD}b", "ab"),
        (f"a{TITLE}b", "ab"),
        ("a\x1bP1$r0m\x1b\\b", "ab"),
        ("a\x1b[6nb\x1b[cb\x1b[?25lb", "abbb"),
        ("a\x1bcb", "ab"),
        ("never ends \x1b]0;x\nnext line", "never ends \nnext line"),
        ("\x9b31m\u202e\x07", "\\x9b31m\\u202e\\x07"),
        ("\x1b]" + "x" * 5000, "\\x1b]" + "x" * 5000),
    ],
)
def test_a_log_keeps_colours_and_progress_and_no_commands(text: str, shown: str) -> None:
    assert LogFilter().feed(text) == shown
    cut = LogFilter()
    assert "".join(map(cut.feed, text)) == shown


@given(st.lists(ANYTHING))
def test_however_a_log_is_cut_no_command_gets_through(pieces: list[str]) -> None:
    whole = LogFilter()
    shown = "".join(map(whole.feed, [*pieces, "\n"]))
    for part in shown.split("\x1b")[1:]:
        kept = part.lstrip("[0123456789;:")
        assert part.startswith("[")
        assert kept[:1] in set("mKABCDG")


def in_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What the command writes where stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    written: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                return
            if not piece:
                return
            written.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        subprocess.run(
            command, env=environment, stdout=theirs, stderr=theirs, stdin=theirs, timeout=240
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return b"".join(written).decode()


def test_a_failed_job_cannot_command_whoever_looks_at_it(
    jumar: Jumar, jumar_program: str, live_home: Path
) -> None:
    script = f"printf '\\033]52;c;aGk=\\007\\033[31mred\\033[0m bad'; exit 3 # {TITLE}\u202e"
    job = jumar("run", "--name", "evil", "--", "sh", "-c", script).stdout.strip()
    raw = jumar("logs", "-f", job).stdout
    assert f"{CLIPBOARD}\x1b[31mred\x1b[0m bad" in raw
    environment = environment_for(live_home, TERM="xterm-256color", COLUMNS="200")
    for words in (["show", job], ["jobs", "--all"], ["show", f"no{CLIPBOARD}"]):
        plain = jumar(*words, rc=None)
        for shown in (plain.stdout, plain.stderr):
            assert not {"\x1b", "\x07", "\u202e"} & set(shown), words
        drawn = in_a_terminal([jumar_program, *words], environment)
        assert "\x1b]" not in drawn
        assert "\u202e" not in drawn
    assert "\\x1b]52;c;aGk=\\x07" in jumar("show", job).stdout
    for words in (["logs", job], ["logs", "-f", job]):
        drawn = in_a_terminal([jumar_program, *words], environment)
        assert "\x1b[31mred\x1b[0m bad" in drawn
        assert "\x1b]" not in drawn
    shown = json.loads(jumar("show", job, "--json").stdout)
    assert CLIPBOARD in shown["attempts"][0]["tail"]


def test_a_closed_output_is_no_reason_for_a_traceback(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "jumar"
    for words in ("--help", "launch true", "devices"):
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{program} {words} >&-"],
            check=False,
            capture_output=True,
            text=True,
            env=environment_for(tmp_path),
            timeout=60,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
