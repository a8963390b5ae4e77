"""A name that torch itself does not have is told apart from one that NPUs do not support.

Only plain members of torch's public modules, only where the script calls them, and not where it
asks first with `hasattr` or catches the error."""

import ast

from jumar.port.catalogue import State, catalogue
from jumar.port.context import PythonFile
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_PLUG_INS = tuple(f"torch.{name}." for name in ("npu", "mlu", "musa", "hpu", "gcu", "sdaa", "ops"))
"""What plug-ins add to torch, and operators that are registered while a program runs."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call of a name that is not there."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) if isinstance(node.func, ast.Attribute) else None
    if name is None or not name.startswith("torch.") or name.startswith(_PLUG_INS):
        return
    options = file.options
    if catalogue(options.torch, options.chip).api(name).state is not State.NOT_TORCH:
        return
    if any(isinstance(a, ast.Try) for a in file.ancestors(node)) or _asked_first(name, file):
        return
    yield file.remark(
        node.func,
        name,
        Words(f"torch 2.13 has no {name}.", f"torch 2.13 中没有 {name}。"),
        Words(
            "it was removed or renamed: look for its successor in torch's release notes",
            "该接口已移除或更名，请查阅 torch 发布说明",
        ),
        severity=Severity.LIMIT,
        effort=Effort.MINUTES,
        kind=Kind.UNKNOWN,
    )


def _asked_first(name: str, file: PythonFile) -> bool:
    member = name.rpartition(".")[2]
    return f'"{member}"' in file.source.text or f"'{member}'" in file.source.text


RULE = Rule(
    "JP804",
    Words("name that torch does not have", "torch 中不存在的接口"),
    (ast.Call,),
    ("torch",),
    check,
)
