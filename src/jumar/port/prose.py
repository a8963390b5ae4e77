"""Texts of any kind: arguments of functions that print, search or cut, messages, keys."""

import ast

from jumar.port.context import PythonFile, name_called

TAKE_PROSE = frozenset(
    {
        "print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "write",
        "format_help", "replace", "split", "strip", "lstrip", "rstrip", "find", "index", "count",
        "startswith", "endswith", "match", "get",
    }
)  # fmt: skip
"""Functions and methods whose arguments are texts of any kind."""


def is_prose(node: ast.expr, parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether a string that looks like a device is a text for people, a key, or compared with one."""
    if isinstance(parent, ast.Call):
        called = name_called(parent)
        # The second argument of `get` is what is taken instead.
        return called in TAKE_PROSE and not (called == "get" and parent.args[0] is not node)
    if isinstance(parent, ast.Dict):
        return node in parent.keys
    return isinstance(
        parent, (ast.Expr, ast.FormattedValue, ast.Raise, ast.Assert, ast.Compare, ast.Subscript)
    )
