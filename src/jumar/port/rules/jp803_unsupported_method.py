"""A Tensor method that the vendor lists as unsupported is reported where it is called.

Only methods whose names no other library uses; the object's type is unknown."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp801_unsupported import report

_DISTINCT = (
    "to_sparse",
    "to_sparse_csr",
    "to_sparse_csc",
    "to_sparse_bsr",
    "to_sparse_bsc",
    "unique_consecutive",
    "sspaddmm",
    "smm",
    "int_repr",
    "qscheme",
    "to_mkldnn",
    "chalf",
    "sparse_mask",
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call."""
    assert isinstance(node, ast.Call)
    method = node.func
    if isinstance(method, ast.Attribute) and method.attr in _DISTINCT and file.name(method) is None:
        yield from report(method, f"torch.Tensor.{method.attr}", file)


RULE = Rule(
    "JP803",
    Words("unsupported Tensor method", "不支持的 Tensor 方法"),
    (ast.Call,),
    _DISTINCT,
    check,
)
