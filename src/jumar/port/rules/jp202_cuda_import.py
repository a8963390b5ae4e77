"""Imports from `torch.cuda` follow the ported names.

`from torch.cuda.amp import autocast` becomes `from torch.amp import autocast` if all its calls are
ported (`amp_uses.py`); names that stay keep an import of their own. NPU-only code imports the same
names from the plug-in. A plain `import torch.cuda` works everywhere and stays."""

import ast

from jumar.port.amp_uses import is_used, moves
from jumar.port.context import PythonFile
from jumar.port.npu_api import RENAMED, SAME_NAME, TENSOR_TYPES
from jumar.port.prelude import TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_AMP_NAMES = frozenset(
    {"autocast", "GradScaler", "custom_fwd", "custom_bwd", "grad_scaler", "autocast_mode"}
)
_SAME = (SAME_NAME | TENSOR_TYPES | {"amp"}) - RENAMED.keys()
_PLUGIN = "torch_npu"
_AMP = "torch.cuda.amp"
_AMP_MODULES = frozenset({_AMP, f"{_AMP}.autocast_mode", f"{_AMP}.grad_scaler"})


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one import statement."""
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield from _from(node, node.module, file)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            target = _module(alias.name, file) if alias.asname else None
            if target is not None:
                start, _ = file.span(alias)
                yield file.change(
                    alias, Piece(start, start + len(alias.name), target), needs=_needs(file)
                )


def _needs(file: PythonFile) -> tuple[str, ...]:
    return (TORCH_NPU,) if file.options.npu_only else ()


def _module(name: str, file: PythonFile) -> str | None:
    """What `import torch.cuda.amp as amp` imports instead."""
    if file.options.npu_only:
        if name == "torch.cuda" or name.startswith(_AMP):
            return name.replace("torch.cuda", "torch_npu.npu")
        return None
    if name in _AMP_MODULES and file.options.has_accelerator and moves(name, file):
        return "torch.amp"
    return None


def _from(node: ast.ImportFrom, module: str, file: PythonFile) -> Outcomes:
    """Port `from … import …`; names that stay keep an import of their own."""
    if module != "torch" and not module.startswith("torch.cuda"):
        return
    targets = _targets(node, module, file)
    homes = dict.fromkeys(targets)
    if homes.keys() == {module}:
        return
    start, _ = file.span(node)
    if len(homes) == 1 and targets[0] != _PLUGIN:
        at = file.source.text.find(module, start)
        if at >= 0:
            piece = Piece(at, at + len(module), targets[0])
            yield file.change(node, piece, needs=_needs(file))
    elif "#" not in file.text(node):
        lines = [
            f"from {home} import "
            + ", ".join(
                _spelled(alias, home)
                for alias, target in zip(node.names, targets, strict=True)
                if target == home
            )
            for home in homes
        ]
        yield file.replace(node, _joint(node, file).join(lines), *_needs(file))


def _targets(node: ast.ImportFrom, module: str, file: PythonFile) -> list[str]:
    """The module of each name; those that nothing uses go with the others."""
    targets = [_home(module, alias, file) for alias in node.names]
    if file.options.npu_only:
        return targets
    used = [
        is_used(alias.asname or alias.name, file.scope(node), file) or alias.name not in _AMP_NAMES
        for alias in node.names
    ]
    moved = [t for t, its in zip(targets, used, strict=True) if its]
    if not moved or len(set(moved)) > 1:
        return targets
    return [t if its else moved[0] for t, its in zip(targets, used, strict=True)]


def _home(module: str, alias: ast.alias, file: PythonFile) -> str:
    """The module that a name is imported from once the file is ported."""
    if file.options.npu_only:
        if module == "torch":
            return _PLUGIN if alias.name == "cuda" else module
        in_plugin = alias.name in (_AMP_NAMES | {"*"} if module in _AMP_MODULES else _SAME)
        return module.replace("torch.cuda", "torch_npu.npu") if in_plugin else module
    if not file.options.has_accelerator or not moves(f"{module}.{alias.name}", file, alias):
        return module
    if module == "torch.cuda" and alias.name == "amp":
        return "torch"
    return "torch.amp" if module in _AMP_MODULES and alias.name in _AMP_NAMES else module


def _spelled(alias: ast.alias, home: str) -> str:
    if home == _PLUGIN:
        return f"npu as {alias.asname or alias.name}"
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _joint(node: ast.ImportFrom, file: PythonFile) -> str:
    """What separates two statements in the place of one."""
    start, end = file.span(node)
    text = file.source.text
    line = text.rfind("\n", 0, start) + 1
    alone = not text[line:start].strip() and text[end:].lstrip(" \t")[:1] in ("", "\r", "\n", "#")
    return f"{file.source.newline}{text[line:start]}" if alone else "; "


RULE = Rule(
    "JP202",
    Words("import from torch.cuda", "torch.cuda 导入"),
    (ast.ImportFrom, ast.Import),
    ("cuda",),
    check,
)
