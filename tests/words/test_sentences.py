"""That lines of the command line are found in the table whatever values they have, and that the table holds
no line that the code does not say."""

import ast
import re
import string
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

import jumar
from jumar.spec import array
from jumar.spec.faults import _WORDS  # pyright: ignore[reportPrivateUsage]
from jumar.words.sentences import spoken, table

PARTS = tomllib.loads(files("jumar.words").joinpath("sentences.zh.toml").read_text("utf-8"))
OURS = [line for part, lines in PARTS.items() if part != "click" for line in lines]
SOURCE = Path(jumar.__file__).parent


def _is_said(piece: str, code: str) -> bool:
    """At once, or in two parts, as where a message is put together."""
    blanks = [at for at, character in enumerate(piece) if character == " "]
    return piece in code or any(
        piece[:at].rstrip(" :,") in code and piece[at + 1 :] in code for at in blanks
    )


def test_every_line_of_the_table_is_said_by_the_code() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SOURCE.glob("**/*.py"))
    # Texts that were too long for one line.
    code = re.sub(r'"\s*\n\s*f?"', "", code).replace('\\"', '"')
    # Help fills its lines anew, and its braces are braces.
    code += re.sub(r"\s+", " ", code.replace("{", "{{").replace("}", "}}"))
    unsaid = [
        (line, piece)
        for line in OURS
        for piece in (one.strip(" ',:;") for one in re.split(r"\{\w+\}", line))
        if len(piece) > 4 and not _is_said(piece, code)
    ]
    assert unsaid == []
    # Help is never put together, so a line that differs in its end is another one.
    assert [line for line in PARTS["help"] if line not in code] == []


def test_translations_have_the_same_values_and_are_chinese() -> None:
    assert sum(map(len, PARTS.values())) == len(table("zh")), "no line stands there twice"
    assert table("zh") == {line: words for part in PARTS.values() for line, words in part.items()}
    for line, words in table("zh").items():
        names = [
            sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)
            for text in (line, words)
        ]
        assert names[0] == names[1], line
        assert re.search("[\u4e00-\u9fff]", words), line


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("no job 'x'", "没有任务“x”"),
        ("no job '{job} {0} {'", "没有任务“{job} {0} {”"),
        (
            "job: outputs: '' is not a path inside the code folder",
            "job: outputs：“”不是代码目录内的路径",
        ),
        ("stopped the server of /a b/c", "已停止 /a b/c 的服务"),
        (
            "a.yaml: name: is missing\na.yaml:3: nam: unknown field",
            "a.yaml: name：未填写\na.yaml:3: nam：没有这个字段",
        ),
        ("\nlast lines:", "\n日志末尾："),
        ("  {line} of somebody's log", "  {line} of somebody's log"),
        ("", ""),
    ],
)
def test_a_line_is_found_whatever_is_in_it(english: str, chinese: str) -> None:
    assert spoken(english, "zh") == chinese
    assert spoken(english, "en") == english


def _said(message: ast.expr) -> str:
    """A message as it may come out, whatever its values."""
    if isinstance(message, ast.Constant):
        return str(message.value)
    assert isinstance(message, ast.JoinedStr)
    parts: list[str] = []
    for part in message.values:
        if isinstance(part, ast.FormattedValue):
            known = {"_HOW": array._HOW}  # pyright: ignore[reportPrivateUsage]
            value = known.get(ast.unparse(part.value), "a")
            parts.append(repr(value) if part.conversion == ord("r") else value)
        else:
            parts.append(_said(part))
    return "".join(parts)


def test_everything_that_can_be_wrong_with_a_job_is_said_in_chinese() -> None:
    words = [
        message.format(**dict.fromkeys(re.findall(r"\{(\w+)\}", message), "'a' or 'b'"))
        for message in _WORDS.values()
    ]
    for path in (SOURCE / "spec").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ValueError":
                words.append(_said(node.args[0]))
    assert len(words) > 50
    assert [line for line in words if spoken(line, "zh") == line] == []
    assert [line for line in words if spoken(f"job.yaml: field: {line}", "zh").isascii()] == []


def test_a_text_of_somebody_else_is_passed_on_and_does_not_hang() -> None:
    hostile = ": , to ; already there ' is not " * 15
    for text in ("no job '" + "a" * 100_000, hostile, hostile * 1000):
        assert spoken(text, "zh").count("\n") == 0


def test_a_value_may_look_like_a_place_in_the_table() -> None:
    assert spoken("no job '{job}'", "zh") == "没有任务“{job}”"
    assert spoken("report: {path}", "zh") == "报告：{path}"


def test_what_can_be_wrong_with_a_port_is_said_in_chinese() -> None:
    words: list[str] = []
    for path in (SOURCE / "port").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "BadInput":
                words += [_said(one) for one in (*node.args, *(k.value for k in node.keywords))]
    assert len(words) > 30
    assert [line for line in words if spoken(line, "zh") == line] == []


def test_the_state_of_a_job_in_a_sentence_has_its_name() -> None:
    said = spoken("job k7x2m9q4tb has already ended (timed-out)", "zh")
    assert said == "任务 k7x2m9q4tb 已经结束（超时）"
