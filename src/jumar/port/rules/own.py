"""Rules of the project's own: a resolved name is replaced, or reported with the project's words."""

import ast
import re

from jumar.errors import BadInput
from jumar.port.context import PythonFile
from jumar.port.options import OwnRule
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule


def rule(own: OwnRule) -> Rule:
    """Make a rule of one entry of the project file."""
    if not re.fullmatch(r"[A-Z]+\d+", own.code) or own.code.startswith("JP"):
        raise BadInput(
            f"rule code {own.code!r} cannot be used",
            hint="capital letters and a number, not starting with JP, such as LAB101",
        )
    if not own.replace and not own.message:
        raise BadInput(f"rule {own.code}: neither `replace` nor `message` is given")

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
