"""What a rule is: a stable code, a title, the nodes it looks at, and a function."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jumar.port.context import PythonFile
from jumar.port.records import Proposal, Remark, Words

Outcomes = Iterable[Proposal | Remark]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `traces` are texts of which a file must hold one to be worth asking."""

    code: str
    title: Words
    nodes: tuple[type[ast.AST], ...]
    traces: tuple[str, ...]
    check: Callable[[ast.AST, PythonFile], Outcomes]
    torch_names_only: bool = False
    """Ask only about attributes and names that stand for something of torch."""
