"""What people meet in a terminal: that it has Chinese words, and that a command which it advises exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

import jumar
from jumar.cli.app import root
from jumar.words.sentences import spoken

SOURCE = Path(jumar.__file__).parent
# What a command of an ordinary user says; other rooms speak to operators and to programs.
ROOMS = ("cli/*.py", "client/*.py", "jobs/*.py", "people/*.py", "engine/local/*.py", "why/*.py")
ERRORS = re.compile(
    r"BadInput|Conflict|SubmitRefused|\w*NotFound|Not\w+|\w+Unusable|\w+Unreachable"
)


def _texts(node: ast.expr) -> Iterator[str]:
    """A text as it may come out, with something for its values; both of a choice."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [
            ("'a'" if part.conversion == ord("r") else "a")
            if isinstance(part, ast.FormattedValue)
            else str(cast("ast.Constant", part).value)
            for part in node.values
        ]
        yield "".join(parts)


def _told(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        hints = [word.value for word in node.keywords if word.arg == "hint"]
        if node.func.id == "note" or hints or ERRORS.fullmatch(node.func.id):
            for text in (*node.args[:1], *hints):
                yield from _texts(text)


def test_what_is_told_has_chinese_words() -> None:
    told = [line for room in ROOMS for path in SOURCE.glob(room) for line in _told(path)]
    lines = {line.strip() for text in told for line in text.split("\n")}
    # More than a value or a command to type.
    sentences = {
        line
        for line in lines
        if re.search("[a-z]{2} [a-z]{2}", line) and not re.match("(sudo )?jumar [a-z]", line)
    }
    assert len(sentences) > 300
    assert sorted(line for line in sentences if spoken(line, "zh") == line) == []


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
