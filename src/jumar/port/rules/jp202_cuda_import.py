"""Imports from `torch.cuda` follow the ported names.

`from torch.cuda.amp import autocast` becomes `from torch.amp import autocast`; NPU-only code
imports the same names from the plug-in. A plain `import torch.cuda` works everywhere and stays."""

import ast

from jumar.port.context import PythonFile
from jumar.port.npu_api import RENAMED, SAME_NAME, TENSOR_TYPES
from jumar.port.prelude import TORCH_NPU
from jumar.port.records import Piece, Words
from jumar.port.rules.base import Outcomes, Rule

_AMP_NAMES = frozenset(
    {"autocast", "GradScaler", "custom_fwd", "custom_bwd", "grad_scaler", "autocast_mode"}
)
_SAME = (SAME_NAME | TENSOR_TYPES | {"amp"}) - RENAMED.keys()
_AMP_MODULES = {
    "torch.cuda.amp": "torch.amp",
    "torch.cuda.amp.autocast_mode": "torch.amp",
    "torch.cuda.amp.grad_scaler": "torch.amp",
}


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one import statement."""
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield from _from(node, node.module, file)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname and alias.name.startswith("torch.cuda"):
                target = _module(alias.name, file)
                if target is not None:
                    start, _ = file.span(alias)
                    yield file.change(
                        alias, Piece(start, start + len(alias.name), target), needs=_needs(file)
                    )


def _needs(file: PythonFile) -> tuple[str, ...]:
    return (TORCH_NPU,) if file.options.npu_only else ()


def _module(name: str, file: PythonFile) -> str | None:
    if file.options.npu_only:
        if name == "torch.cuda" or name.startswith("torch.cuda.amp"):
            return name.replace("torch.cuda", "torch_npu.npu")
        return None
    return _AMP_MODULES.get(name) if file.options.has_accelerator else None


def _from(node: ast.ImportFrom, module: str, file: PythonFile) -> Outcomes:
    names = {alias.name for alias in node.names}
    if module == "torch" and names == {"cuda"} and file.options.npu_only:
        alias = node.names[0]
        yield file.replace(
            node, f"from torch_npu import npu as {alias.asname or 'cuda'}", TORCH_NPU
        )
    elif module == "torch.cuda" and names == {"amp"}:
        yield from _rename_module(node, module, _parent_of_amp(file), file)
    elif module in _AMP_MODULES and names <= _AMP_NAMES:
        yield from _rename_module(node, module, _module(module, file), file)
    elif module == "torch.cuda" and file.options.npu_only and names <= _SAME:
        yield from _rename_module(node, module, "torch_npu.npu", file)


def _parent_of_amp(file: PythonFile) -> str | None:
    if file.options.npu_only:
        return "torch_npu.npu"
    return "torch" if file.options.has_accelerator else None


def _rename_module(
    node: ast.ImportFrom, module: str, target: str | None, file: PythonFile
) -> Outcomes:
    if target is None:
        return
    start, _ = file.span(node)
    at = file.source.text.find(module, start)
    if at >= 0:
        yield file.change(node, Piece(at, at + len(module), target), needs=_needs(file))


RULE = Rule(
    "JP202",
    Words("import from torch.cuda", "torch.cuda 导入"),
    (ast.ImportFrom, ast.Import),
    ("cuda",),
    check,
)
