"""`nn.DataParallel` is reported: NPUs train on many cards with one process each.

`--distributed` makes the change in a plain training script; `model.module` and the like stay."""

import ast

from jumar.port.context import PythonFile
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


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one call, or one class that is made from it."""
    assert isinstance(node, (ast.Call, ast.ClassDef))
    places = node.bases if isinstance(node, ast.ClassDef) else [node.func]
    for place in places:
        if file.name(place) not in _NAMES:
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


RULE = Rule(
    CODE, Words("DataParallel", "DataParallel"), (ast.Call, ast.ClassDef), ("arallel",), check
)
