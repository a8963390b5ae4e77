"""`nn.DataParallel` is reported: NPUs train on many cards with one process each.

So are variants from other packages (`DataParallelWithCallback`); one that the repository itself
defines is reported where it derives from torch's.

`--distributed` makes the change in a plain training script; `model.module` and the like stay."""

import ast

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.project import OWN
from jumar.port.records import Effort, Kind, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

CODE = "JP404"
_NAMES = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.parallel.replicate",
        "torch.nn.parallel.replicate.replicate",
        "torch.nn.parallel.parallel_apply",
        "torch.nn.parallel.parallel_apply.parallel_apply",
    }
)
_VARIANT = lazy_pattern(
    r"(?!\w*(?:Distributed|Sharded))\w*DataParallel(?:With[A-Z]\w*|Model|Criterion|Wrapper)?"
)
"""Whole names: `TransformerDataParallelConfig` and `DataParallelStrategy` only speak of it."""

_OTHERS = ("paddle.", "mxnet.", "tensorflow.", "jax.", "oneflow.", "mindspore.", "jittor.")
"""Frameworks with a class of this name that has nothing to do with torch's."""


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call, or one class derived from it."""
    assert isinstance(node, (ast.Call, ast.ClassDef))
    places = node.bases if isinstance(node, ast.ClassDef) else [node.func]
    for place in places:
        name = file.name(place) or _imported_as(place, file)
        if name not in _NAMES and not _is_variant(name):
            continue
        yield file.remark(
            place,
            "torch.nn.DataParallel",
            Words(
                "DataParallel drives several cards from one process, which NPUs do not support.",
                "DataParallel 由单进程驱动多卡，NPU 不支持。",
            ),
            Words(
                "train on one card without it, or use DistributedDataParallel: "
                "jumar port --distributed SCRIPT makes the change in a plain script",
                "单卡训练时去掉它；多卡请改用 DistributedDataParallel，"
                "jumar port --distributed 可自动修改简单脚本",
            ),
            severity=Severity.WORK,
            effort=Effort.HOURS,
            kind=Kind.UNSUPPORTED,
        )


def _imported_as(place: ast.expr, file: PythonFile) -> str:
    """The name imported from a module that is missing in the repository's own package."""
    bound = file.bound(place)
    return next((name for name in bound if isinstance(name, str)), "")


def _is_variant(name: str) -> bool:
    module, _, last = name.rpartition(".")
    is_from_elsewhere = bool(module) and not name.startswith((OWN, "torch.", *_OTHERS))
    return is_from_elsewhere and _VARIANT.fullmatch(last) is not None


RULE = Rule(
    CODE, Words("DataParallel", "DataParallel"), (ast.Call, ast.ClassDef), ("arallel",), check
)
