"""What a rule is: a stable code, a title, the nodes it looks at, and a function."""

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jumar.port.context import PythonFile
from jumar.port.records import Proposal, Remark, Words

Outcomes = Iterable[Proposal | Remark]


class Rule(NamedTuple):
    """One rule; a file is checked only if it contains one of the `traces`."""

    code: str
    title: Words
    nodes: tuple[type[ast.AST], ...]
    traces: tuple[str, ...]
    check: Callable[[ast.AST, PythonFile], Outcomes]
    torch_names_only: bool = False
    """Check only attributes and names that refer to something in torch."""
    chosen: Callable[[PythonFile], Iterable[ast.AST]] | None = None
    """Where only a few nodes of these kinds matter: those, found once for all who ask."""
