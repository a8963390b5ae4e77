"""A check for CUDA that guards code for CUDA alone stays, and is reported.

The code behind it builds an extension, asks for the card's generation, calls a CUDA-only package, or
uses a value that stays CUDA's. NPUs take the other branch, and the code behind the check stays."""

import ast

from jumar.port.context import PythonFile
from jumar.port.guards import kept
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one check."""
    guard = kept(file).get(node)
    if guard is None or not guard.reason or _is_told(node, file):
        return
    why, advice = _error(guard.reason) if guard.stops else _other_branch(guard.reason)
    yield file.remark(
        node,
        guard.reason,
        why,
        advice,
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.DEVICE,
    )


def _other_branch(reason: str) -> tuple[Words, Words]:
    return (
        Words(
            f"What this check guards is for CUDA alone ({reason}), so NPUs take the other branch.",
            f"该判断之后的代码仅适用于 CUDA（{reason}），NPU 将走另一分支。",
        ),
        Words(
            "make sure that the other branch is right for NPUs",
            "请确认另一分支适用于 NPU",
        ),
    )


def _error(reason: str) -> tuple[Words, Words]:
    return (
        Words(
            f"What follows is for CUDA alone ({reason}), so this check raises an error on NPUs.",
            f"此后的代码仅适用于 CUDA（{reason}），在 NPU 上该检查会报错。",
        ),
        Words(
            "make sure that NPUs do not get here, or write this part for them",
            "请确认 NPU 不会执行到此处，或为 NPU 另行实现",
        ),
    )


def _is_told(node: ast.AST, file: PythonFile) -> bool:
    """Whether an earlier check of the same statement is reported."""
    statement = _statement(node, file)
    start, _ = file.span(node)
    return any(
        file.span(other)[0] < start and guard.reason and _statement(other, file) is statement
        for other, guard in kept(file).items()
    )


def _statement(node: ast.AST, file: PythonFile) -> ast.AST | None:
    return next((a for a in file.ancestors(node) if isinstance(a, ast.stmt)), None)


RULE = Rule(
    "JP709",
    Words("check that stays for CUDA", "保留的 CUDA 判断"),
    (ast.Attribute, ast.Name, ast.Constant),
    ("cuda",),
    check,
    chosen=kept,
)
