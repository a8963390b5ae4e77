"""apex's fused layers and optimisers become torch's own, under the names the script uses.

`from apex.normalization import FusedLayerNorm` becomes `from torch.nn import LayerNorm as
FusedLayerNorm`. Only where every use has arguments that torch's class has too; an import that the
script guards against failing stays, and so does everything else of apex (JP603 tells about it)."""

import ast

from jumar.port.context import PythonFile
from jumar.port.records import Words
from jumar.port.rules.base import Outcomes, Rule
from jumar.port.rules.jp600_packages import is_guarded

_ADAM = frozenset({"params", "lr", "betas", "eps", "weight_decay", "amsgrad"})
_SGD = frozenset({"params", "lr", "momentum", "dampening", "weight_decay", "nesterov"})
_NORM = frozenset({"normalized_shape", "eps", "elementwise_affine"})
_PARTS = {
    "apex.normalization.FusedLayerNorm": ("torch.nn", "LayerNorm", _NORM),
    "apex.normalization.MixedFusedLayerNorm": ("torch.nn", "LayerNorm", _NORM),
    "apex.normalization.FusedRMSNorm": ("torch.nn", "RMSNorm", _NORM),
    "apex.normalization.fused_layer_norm.FusedLayerNorm": ("torch.nn", "LayerNorm", _NORM),
    "apex.optimizers.FusedAdam": ("torch.optim", "AdamW", _ADAM),
    "apex.optimizers.FusedSGD": ("torch.optim", "SGD", _SGD),
}


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one import whose names are all known and used in a known way."""
    assert isinstance(node, ast.ImportFrom)
    if node.level or not (node.module or "").startswith("apex.") or is_guarded(node, file):
        return
    parts = [_PARTS.get(f"{node.module}.{alias.name}") for alias in node.names]
    lines: list[str] = []
    for alias, part in zip(node.names, parts, strict=True):
        if part is None:
            return
        module, name, allowed = part
        local = alias.asname or alias.name
        if not _uses_fit(local, allowed, file):
            return
        lines.append(f"from {module} import {name} as {local}")
    start, _ = file.span(node)
    indent = file.source.text[file.source.starts[node.lineno - 1] : start]
    yield file.replace(node, f"{file.source.newline}{indent}".join(lines))


def _uses_fit(local: str, allowed: frozenset[str], file: PythonFile) -> bool:
    for call in file.names.found[ast.Call]:
        assert isinstance(call, ast.Call)
        mine = isinstance(call.func, ast.Name) and call.func.id == local
        if mine and (len(call.args) > 2 or any(k.arg not in allowed for k in call.keywords)):
            return False
    return True


RULE = Rule(
    "JP303",
    Words("fused layers and optimisers of apex", "apex 融合层与优化器"),
    (ast.ImportFrom, ast.Call),
    ("apex",),
    lambda node, file: check(node, file) if isinstance(node, ast.ImportFrom) else (),
)
