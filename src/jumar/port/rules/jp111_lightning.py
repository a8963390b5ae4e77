"""A `Trainer` or `Fabric` of Lightning is reported: Lightning itself does not support NPUs.

With a GPU requested, it fails; with `accelerator="auto"` or no choice, it silently trains on the
CPU. One that names another accelerator, such as `"cpu"`, is not reported."""

import ast

from jumar.port.context import PythonFile
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Kind, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
_MAKERS = ("Trainer", "Fabric", "LightningLite", "Trainer.from_argparse_args")
ACCELERATOR_WORDS = (
    Words(
        "Lightning has no built-in NPU accelerator and chooses the CPU on NPU machines.",
        "Lightning 本身没有 NPU accelerator，自动选择时会使用 CPU。",
    ),
    Words(
        "install the vendor's lightning_npu and use its accelerator and strategy",
        "请安装昇腾 lightning_npu，并使用其 accelerator 与 strategy",
    ),
)
_TARGET = lazy_pattern(r"(?:pytorch_lightning|lightning)(?:\.\w+)*\.Trainer")
_OTHERS = frozenset({"cpu", "npu", "tpu", "mps", "hpu", "ipu"})


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Report one trainer that would use CUDA, created here or configured for hydra."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and _TARGET.fullmatch(node.value):
            yield _remark(node, node.value, file)
        return
    assert isinstance(node, ast.Call)
    own = file.class_named(node.func)
    names = (file.name(base) or "" for base in own.bases) if own else [file.name(node.func) or ""]
    name = next(filter(_is_maker, names), None)
    if name is None:
        return
    asked = next((k for k in node.keywords if k.arg == "accelerator"), None)
    if asked is not None and isinstance(asked.value, ast.Constant) and asked.value.value in _OTHERS:
        return
    yield _remark(asked or node.func, name, file)


def _is_maker(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package in _PACKAGES and f".{rest}".endswith(tuple(f".{m}" for m in _MAKERS))


def _remark(node: ast.AST, subject: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        subject,
        *ACCELERATOR_WORDS,
        severity=Severity.WORK,
        effort=Effort.HOURS,
        kind=Kind.PACKAGE,
    )


RULE = Rule(
    "JP111",
    Words("Lightning accelerator", "Lightning 加速器"),
    (ast.Call, ast.Constant),
    ("lightning",),
    check,
)
