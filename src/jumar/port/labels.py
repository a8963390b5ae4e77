"""Values that name CUDA without being a device: members of an Enum, keys of a registry, platforms."""

import ast
import re

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern

PLATFORMS = frozenset(
    {"rocm", "hip", "nvidia", "amd", "opencl", "vulkan", "metal", "triton", "tensorrt", "openvino"}
)
"""What stands beside `cuda` where it names a platform or an implementation, not a device."""
_REGISTERS = lazy_pattern(r"regist(?:er|ry)|custom_op$|^impl$", re.IGNORECASE)
_ENUM = lazy_pattern(r"(?:Enum|Flag)$")
_CI_FOLDERS = frozenset({".github", ".ci", ".circleci", ".buildkite", ".gitlab"})


def is_label(node: ast.expr, parent: ast.AST | None, file: PythonFile) -> bool:
    """Whether a value only names CUDA: a member of an Enum, a key that something is registered under,
    a platform among others, a cell of a CI matrix."""
    if isinstance(node, ast.IfExp) and any(
        isinstance(n, ast.Constant) and n.value in PLATFORMS for n in ast.walk(node.test)
    ):
        return True
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        owner = file.parent(parent)
        return isinstance(owner, ast.ClassDef) and (_is_enum(owner, file) or _has_own_name(parent))
    if isinstance(parent, ast.DictComp):
        return parent.key is node
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)) and beside(PLATFORMS, parent):
        return True
    call = file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call) and _REGISTERS.search(name_called(call)):
        return True
    return not _CI_FOLDERS.isdisjoint(file.path.split("/"))


def _is_enum(owner: ast.ClassDef, file: PythonFile) -> bool:
    """Whether a class is an Enum, by its own bases or by those of the repository's classes."""
    for base in owner.bases:
        if _ENUM.search((file.name(base) or file.text(base)).rpartition(".")[2]):
            return True
        above = file.class_named(base)
        if above is not None and above is not owner:
            return any(_ENUM.search(ast.unparse(b)) for b in above.bases)
    return False


def _has_own_name(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether this is `CUDA = "cuda"`: the constant says what its value is."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == "CUDA" for t in targets)


def name_called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def beside(words: frozenset[str], node: ast.expr) -> bool:
    """Whether one of some words is an alternative in an expression."""
    if isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = node.elts
    else:
        return isinstance(node, ast.Constant) and node.value in words
    return any(beside(words, part) for part in parts)
