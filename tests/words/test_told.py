"""What people meet in a terminal: that it has Chinese words, and that a command which it advises exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unicodedata import east_asian_width

import click
import pytest

import jumar
from jumar.cli.app import root, run
from jumar.words.sentences import spoken

SOURCE = Path(jumar.__file__).parent
# What speaks to programs, and in the language of the protocol that these know; or runs in a job, with the
# standard library only.
PROGRAMS = (
    *("inject/", "launch/", "modelarts/", "server/modelarts/", "port/"),
    *("server/hub/hf_", "server/hub/lfs", "server/hub/xet"),
)
TOLD = {"note", "tell", "translated"}
"""Functions of the command line that are given a sentence."""
FOUND = {"Finding", "Result"}
"""What is found on a machine or in a store: its name, a verdict, what was seen, what mends it."""
SAID = {"seen", "fix", "text", "notes", "why", "said"}
SENTENCE = re.compile(r"[a-z]{2} [a-z]{2}|\b[a-z]{2,} .*\b[a-z]{2,}[ ,;:].*[ ,;:][a-z]{2,}\b")
ERRORS = re.compile(
    r"BadInput|Conflict|SubmitRefused|\w*NotFound|Not\w+|\w+Unusable|\w+Unreachable"
)


def _value(node: ast.expr) -> str:
    """What may stand for it: of a choice between words, the first."""
    chosen = node.body if isinstance(node, ast.IfExp) else node
    return str(chosen.value) if isinstance(chosen, ast.Constant) else "a"


def _texts(node: ast.expr) -> Iterator[str]:
    """A text as it may come out, with something for its values; both of a choice."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [
            ("'a'" if part.conversion == ord("r") else _value(part.value))
            if isinstance(part, ast.FormattedValue)
            else str(cast("ast.Constant", part).value)
            for part in node.values
        ]
        yield "".join(parts)


def _set(node: ast.AST) -> Iterator[ast.expr]:
    """What is given the name of a sentence: `fix = "install it"`, `text="it fits"`."""
    if (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in SAID) or (
        isinstance(node, ast.keyword) and node.arg in SAID
    ):
        yield node.value


def _told(path: Path) -> Iterator[str]:
    finds = re.search("/(host|store|site)/", str(path)) is not None
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        for text in _set(node) if finds else ():
            yield from _texts(text)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        hints = [word.value for word in node.keywords if word.arg == "hint"]
        texts = hints
        if node.func.id in TOLD or hints or ERRORS.fullmatch(node.func.id):
            texts = [*node.args[:1], *hints]
        elif node.func.id in FOUND:
            texts = node.args[2:]
        for text in texts:
            yield from _texts(text)


def test_what_is_told_has_chinese_words() -> None:
    told = [
        line
        for path in SOURCE.glob("**/*.py")
        if not str(path.relative_to(SOURCE)).startswith(PROGRAMS)
        for line in _told(path)
    ]
    lines = {line.strip() for text in told for line in text.split("\n")}
    # More than a value or a command to type.
    sentences = {
        line
        for line in lines
        if SENTENCE.search(line) and not re.match("(sudo )?(jumar|pip) [a-z]", line)
    }
    assert len(sentences) > 900
    assert sorted(line for line in sentences if spoken(line, "zh") == line) == []


def test_the_report_of_a_trial_has_chinese_words_for_all_it_says() -> None:
    """It is written where jumar's tables are not."""
    folder = SOURCE / "inject/sim_path/torch_npu/_sim"
    words = ast.parse((folder / "report_words.py").read_text("utf-8"))
    tables = [node.value for node in words.body if isinstance(node, ast.Assign)]
    table = next(one for one in tables if isinstance(one, ast.Dict))
    chinese = cast("dict[str, str]", ast.literal_eval(table))
    said = {
        text
        for node in ast.walk(ast.parse((folder / "report.py").read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "said"
        for text in _texts(node.args[0])
    }
    assert len(said) > 10
    assert said <= set(chinese)


def test_no_command_prints_a_sentence_past_the_tables() -> None:
    """`tell`, `local` and `labelled` look for it; `print` and `say` do not."""
    found = [
        (path.name, text)
        for path in (SOURCE / "cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "say", "click.echo"}
        for argument in node.args
        for text in _texts(argument)
        if SENTENCE.search(text) and not text.startswith("jumar ")
    ]
    assert found == []


def _pages(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it, as a person sees it."""
    context = command.context_class(command, info_name=name, terminal_width=400)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            assert below is not None
            yield from _pages(below, f"{name} {one}")


def test_every_page_of_the_help_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    pages = dict(_pages(root, "jumar"))
    # Its own is put into words where it is run.
    del pages["jumar"]
    assert len(pages) > 120
    # Commands to type are the same in every language.
    english = [
        (name, line)
        for name, page in pages.items()
        for line in page.splitlines()
        if re.search(r"[a-z]{2} [a-z]{2,} [a-z]{2}", line)
        and not re.search("[\u4e00-\u9fff]", line)
        and not re.match(r" +(jumar|sudo|ssh|git|cat|dmesg|eval|pip) |.*(--|&&| jumar )", line)
    ]
    assert english == []
    assert not [name for name, page in pages.items() if re.search("default: |Examples?:", page)]


def test_help_is_as_wide_as_the_terminal_in_chinese_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["logs"], ["backup"], ["run"]):
        assert run([*words, "--help"]) == 0
        said = capsys.readouterr().out
        lines = [line for line in said.splitlines() if not line.startswith("    jumar ")]
        widths = {
            sum(2 if east_asian_width(one) in "WF" else 1 for one in line): line for line in lines
        }
        assert max(widths) <= 80, widths[max(widths)]


def _exists(words: list[str]) -> bool:
    """Whether the command that the words begin with is one of ours."""
    found: click.Command | None = root
    context = click.Context(root)
    if root.get_command(context, " ".join(words[:2])) is not None:
        return True
    for word in words[:2]:
        if not isinstance(found, click.Group):
            return True
        if found is not root and found.invoke_without_command and not word.islower():
            return True
        found = found.get_command(context, word)
        if found is None:
            return False
    return True


def test_a_command_that_is_advised_exists() -> None:
    advised = {
        tuple(found.split())
        for path in SOURCE.glob("**/*.py")
        for text in _told(path)
        for found in re.findall(r"(?:: |sudo |then |with )jumar ([a-z-]+(?: [a-z][a-z-]+)?)", text)
    }
    assert len(advised) > 40
    assert sorted(words for words in advised if not _exists(list(words))) == []
