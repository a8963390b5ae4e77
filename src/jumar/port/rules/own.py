"""The project's own rules: a resolved name is replaced, or reported with the project's message."""

import ast
import re

from jumar.errors import BadInput
from jumar.port.context import PythonFile
from jumar.port.options import OwnRule
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule


def rule(own: OwnRule) -> Rule:
    """Make a rule from one entry of the project file."""
    if not re.fullmatch(r"[A-Z]+\d+", own.code) or own.code.startswith("JP"):
        raise BadInput(
            f"invalid rule code {own.code!r}",
            hint="use capital letters and a number, such as LAB101; JP is reserved",
        )
    if not own.replace and not own.message:
        raise BadInput(f"rule {own.code}: `replace` or `message` is required")

    def check(node: ast.AST, file: PythonFile) -> Outcomes:
        if file.name(node) != own.name or not isinstance(getattr(node, "ctx", None), ast.Load):
            return
        if own.replace:
            yield file.replace(node, own.replace)
        else:
            yield file.remark(
                node,
                own.name,
                Words(own.message, own.message),
                Words(own.advice, own.advice),
                severity=Severity(own.severity),
                effort=Effort.MINUTES,
                kind=Kind.DEVICE,
            )

    leaf = own.name.rpartition(".")[2]
    return Rule(own.code, Words(own.name, own.name), (ast.Attribute, ast.Name), (leaf,), check)
