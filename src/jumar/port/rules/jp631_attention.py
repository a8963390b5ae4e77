"""Attention from flash_attn and xformers is replaced by a helper module that uses torch.

`from flash_attn import flash_attn_func` becomes `from torch_attention import flash_attn_func`; the
calls stay, and `torch_attention.py` is added to the package that uses it (then
`from .torch_attention import …`) or beside the script. On a machine that has flash_attn or xformers,
the helper uses it. Only if the helper has every name and argument that the file uses; an import that
may fail in the script stays, and so does everything else (reported as JP601 and JP602)."""

import ast
from collections.abc import Iterator

from jumar.port import helpers
from jumar.port.amp_uses import is_used
from jumar.port.context import PythonFile
from jumar.port.optional_imports import is_guarded
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp600_packages import is_foreign

_KERNELS = frozenset(
    f"flash_attn_{kind}func"
    for kind in ("", "kvpacked_", "qkvpacked_", "varlen_", "varlen_kvpacked_", "varlen_qkvpacked_",
                 "unpadded_", "unpadded_kvpacked_", "unpadded_qkvpacked_")
)  # fmt: skip
_PADDING = frozenset({"index_first_axis", "pad_input", "unpad_input"})
_XFORMERS = frozenset({"memory_efficient_attention", "LowerTriangularMask", "unbind"})
_MODULES = {
    "flash_attn": _KERNELS,
    "flash_attn.flash_attn_interface": _KERNELS,
    "flash_attn.bert_padding": _PADDING,
    "xformers.ops": _XFORMERS,
}
_ARGUMENTS_NOT_THERE = frozenset(
    {"softcap", "return_attn_probs", "return_softmax", "block_table", "unused_mask"}
)
_VALUES_OF_UNPAD = 4
"""flash_attn 2.7 returns five; code that takes exactly four, or any number, works with either."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one import, or one use through a module's full name."""
    if not all(is_foreign(root, file) for root in ("flash_attn", "xformers")):
        # The repository is the package, or has a copy of it.
        return
    if isinstance(node, ast.Attribute):
        yield from _use(node, file)
    elif isinstance(node, ast.ImportFrom):
        yield from _from(node, file)
    elif isinstance(node, ast.Import) and len(node.names) == 1:
        yield from _import(node, file)


def _from(node: ast.ImportFrom, file: PythonFile) -> Outcomes:
    module = node.module or ""
    if node.level or is_guarded(node, file):
        return
    if module == "xformers" and [a.name for a in node.names] == ["ops"]:
        local = node.names[0].asname or "ops"
        if _fits("xformers.ops", file):
            yield file.replace(node, file.home.whole(helpers.ATTENTION, local), helpers.ATTENTION)
        return
    offered = _MODULES.get(module, frozenset())
    if not all(a.name in offered and _used_well(f"{module}.{a.name}", file) for a in node.names):
        return
    if _is_probe(node, file):
        return
    start, _ = file.span(node)
    at = file.source.text.find(module, start)
    ours = file.home.module(helpers.ATTENTION)
    yield file.change(node, Piece(at, at + len(module), ours), needs=(helpers.ATTENTION,))


def _is_probe(node: ast.ImportFrom, file: PythonFile) -> bool:
    """Whether an import in a function only asks for the package: nothing there uses its names."""
    scope = file.scope(node)
    return file.enclosing_function(node) is not None and not any(
        is_used(alias.asname or alias.name, scope, file) for alias in node.names
    )


def _import(node: ast.Import, file: PythonFile) -> Outcomes:
    alias = node.names[0]
    if alias.name in _MODULES and not is_guarded(node, file) and _fits(alias.name, file):
        ours = file.home.whole(helpers.ATTENTION, alias.asname or "")
        yield file.replace(node, ours, helpers.ATTENTION)


def _use(node: ast.Attribute, file: PythonFile) -> Outcomes:
    """`xformers.ops.f`, where the ported import no longer binds the package."""
    module, _, name = (file.name(node) or "").rpartition(".")
    if name not in _MODULES.get(module, ()) or file.text(node) != f"{module}.{name}":
        return
    imports = [
        s
        for s in file.names.found[ast.Import]
        if isinstance(s, ast.Import) and [a.name for a in s.names if not a.asname] == [module]
    ]
    if imports and not any(is_guarded(s, file) for s in imports) and _fits(module, file):
        yield file.replace(node, f"{helpers.ATTENTION}.{name}")


def _fits(module: str, file: PythonFile) -> bool:
    """Whether the file uses a module, and nothing of it that the helper does not have."""
    root = module.partition(".")[0]
    is_used = False
    for attribute in file.names.found[ast.Attribute]:
        dotted = file.name(attribute) or ""
        outermost = not isinstance(file.parent(attribute), ast.Attribute)
        if outermost and dotted.partition(".")[0] == root:
            holder, _, name = dotted.rpartition(".")
            if name not in _MODULES.get(holder, ()) or not _used_well(dotted, file):
                return False
            is_used = True
    return is_used


def _used_well(dotted: str, file: PythonFile) -> bool:
    for call in _calls(dotted, file):
        if any(k.arg is None or k.arg in _ARGUMENTS_NOT_THERE for k in call.keywords):
            return False
        if dotted.endswith(".unpad_input") and not _takes_four(file.parent(call)):
            return False
        if dotted.endswith(".memory_efficient_attention") and not _bias_is_plain(call, file):
            return False
    return True


def _calls(dotted: str, file: PythonFile) -> Iterator[ast.Call]:
    for call in file.names.found[ast.Call]:
        if isinstance(call, ast.Call) and file.name(call.func) == dotted:
            yield call


def _takes_four(parent: ast.AST | None) -> bool:
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Tuple):
        return False
    parts = parent.targets[0].elts
    return len(parts) == _VALUES_OF_UNPAD or any(isinstance(p, ast.Starred) for p in parts)


def _bias_is_plain(call: ast.Call, file: PythonFile) -> bool:
    """Whether the bias is a tensor or the one supported mask, not another object."""
    bias = next((k.value for k in call.keywords if k.arg == "attn_bias"), None)
    if bias is None and len(call.args) > 3:
        bias = call.args[3]
    for part in ast.walk(bias) if bias is not None else ():
        name = file.name(part) or ""
        if name.startswith("xformers.") and name not in (
            "xformers.ops",
            "xformers.ops.LowerTriangularMask",
        ):
            return False
    return True


RULE = Rule(
    "JP631",
    Words("flash_attn and xformers attention", "flash_attn 与 xformers 注意力"),
    (ast.Import, ast.ImportFrom, ast.Attribute, ast.Call),
    ("flash_attn", "xformers"),
    check,
)
