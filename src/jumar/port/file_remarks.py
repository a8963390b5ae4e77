"""What is reported about a Python file as a whole, or about a place that no rule can handle."""

import ast
import sys

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.source import ASYNC, OLD_ASYNC, TYPOGRAPHIC, Source

_NEW_SYNTAX = (3, 12)
_GENERIC = lazy_pattern(r"\s*(?:(?:async\s+)?def|class)\s+\w+\[|\s*type\s+\w+(?:\[.*\])?\s*=")


def unreadable(source: Source, error: Exception) -> Remark:
    """The file does not parse."""
    line = getattr(error, "lineno", None) or 1
    line = min(max(line, 1), len(source.starts))
    start = source.starts[line - 1]
    why = getattr(error, "msg", None) or type(error).__name__
    return Remark(
        start,
        start,
        Severity.WORK if "cuda" in source.text else Severity.LIMIT,
        Effort.MINUTES,
        Kind.FILE,
        "syntax",
        *_words_of_unreadable(why, source.line_text(line)),
    )


def _words_of_unreadable(why: str, line: str) -> tuple[Words, Words]:
    here = "{}.{}".format(*sys.version_info)
    if sys.version_info < _NEW_SYNTAX and (why.startswith("f-string") or _GENERIC.match(line)):
        newer = "{}.{}".format(*_NEW_SYNTAX)
        return (
            Words(
                f"Python {here} cannot parse this file: {why}. "
                f"Quotes nested in f-strings and type parameters need Python {newer}.",
                f"Python {here} 无法解析该文件：{why}。f-string 内嵌套引号与类型参数需要 Python {newer}。",
            ),
            Words(
                f"the file was copied unchanged; run jumar port with Python {newer} or later",
                f"文件已原样复制；请用 Python {newer} 及以上版本运行 jumar port",
            ),
        )
    return (
        Words(
            f"Python {here} cannot parse this file: {why}", f"Python {here} 无法解析该文件：{why}"
        ),
        Words(
            "the file was copied unchanged; fix it, or ignore this if it is a template or Python 2",
            "文件已原样复制；请修正语法，若是模板或 Python 2 代码可忽略",
        ),
    )


def old_word(text: str) -> Remark:
    """`async` is the name of an argument, as it was before Python 3.7."""
    match = ASYNC.search(text)
    start = match.start() if match else 0
    return Remark(
        start,
        start + len(OLD_ASYNC),
        Severity.WORK,
        Effort.MINUTES,
        Kind.FILE,
        "async",
        Words("async is a keyword since Python 3.7.", "async 自 Python 3.7 起为关键字。"),
        Words("rename this argument", "请为该参数改名"),
    )


def typographic(source: Source) -> tuple[str, Remark]:
    """The file has quotes that a word processor made."""
    start = next(i for i, char in enumerate(source.text) if char in TYPOGRAPHIC)
    return "JP002", Remark(
        start,
        start + 1,
        Severity.WORK,
        Effort.MINUTES,
        Kind.FILE,
        "quotes",
        Words(
            "The file has typographic quotes, which Python cannot parse.",
            "文件中有中文引号，Python 无法解析。",
        ),
        Words("Write plain quotes: \" and '.", "请改为英文引号。"),
    )


def would_not_parse() -> tuple[str, Remark]:
    """The edits were withdrawn."""
    return "JP003", Remark(
        0,
        0,
        Severity.WORK,
        Effort.MINUTES,
        Kind.FILE,
        "edit",
        Words(
            "The edited file would not have parsed, so no edits were made.",
            "该文件的修改结果无法解析，因此未作任何修改。",
        ),
        Words(
            "Port this file by hand, and please report the problem with the file.",
            "请手工迁移该文件，并反馈此问题。",
        ),
    )


def unlisted(modules: list[str]) -> tuple[str, Remark]:
    """Helper modules that `pip install` would leave out."""
    names = ", ".join(modules)
    return "JP000", Remark(
        0,
        0,
        Severity.WORK,
        Effort.MINUTES,
        Kind.FILE,
        names,
        Words(
            f"This module now imports {names}, which the packaging file does not list.",
            f"该模块现在导入 {names}，但打包配置未列出它。",
        ),
        Words(
            f"add {names} to py_modules, or turn the module into a package",
            f"请在 py_modules 中加入 {names}，或将该模块改为包",
        ),
    )


def unplaced(file: PythonFile, node: ast.AST) -> Remark:
    """A place inside an f-string is not known exactly."""
    line = getattr(node, "lineno", 1)
    start = file.source.starts[line - 1]
    return Remark(
        start,
        start,
        Severity.WORK,
        Effort.MINUTES,
        Kind.DEVICE,
        "f-string",
        Words(
            "A device is inside an f-string whose parts cannot be located exactly.",
            "f-string 中含有设备相关代码，无法精确定位。",
        ),
        Words(
            "Change it by hand, or port with Python 3.12 or later.",
            "请手工修改，或使用 Python 3.12 及以上版本运行迁移。",
        ),
    )
