"""TensorFlow 1.15 scripts: a session's configuration is wrapped by the NPU bridge.

`tf.Session(config=c)` becomes `tf.Session(config=npu_config_proto(config_proto=c))`. Placements on
`/gpu:0` and the Estimator are reported, and so is the session in portable code, since the bridge
exists only on NPUs."""

import ast

from jumar.port.context import PythonFile
from jumar.port.prelude import TF_BRIDGE
from jumar.port.records import Effort, Kind, Piece, Remark, Severity, Words
from jumar.port.rules.base import Outcomes, Rule

_SESSIONS = frozenset(
    {"tensorflow.Session", "tensorflow.compat.v1.Session", "tensorflow.InteractiveSession"}
)


def check(node: ast.AST, file: PythonFile) -> Outcomes:
    """Port one session, or report complex cases."""
    assert isinstance(node, ast.Call)
    name = file.name(node.func) or ""
    if name in _SESSIONS and file.options.npu_only:
        yield from _session(node, file)
    elif name in _SESSIONS:
        yield _remark(
            node,
            name,
            "请使用 --npu-only 迁移，或手工传入 npu_config_proto",
            "port with --npu-only, or pass npu_config_proto of npu_bridge",
            file,
        )
    elif name in ("tensorflow.device", "tensorflow.compat.v1.device") and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and "gpu" in str(first.value).lower():
            yield _remark(
                node, name, "在 NPU 上请删除 /gpu 放置", "remove the placement on /gpu", file
            )
    elif name.startswith("tensorflow.estimator.RunConfig"):
        yield _remark(node, name, "请改用 NPURunConfig", "use NPURunConfig of npu_bridge", file)


def _session(node: ast.Call, file: PythonFile) -> Outcomes:
    if "npu_config_proto" in file.text(node):
        return
    config = next((k.value for k in node.keywords if k.arg == "config"), None)
    pieces: list[Piece] = []
    if config is not None:
        start, end = file.span(config)
        pieces = [file.insert(start, "npu_config_proto(config_proto="), file.insert(end, ")")]
    else:
        end = file.span(node)[1] - 1
        comma = ", " if node.args or node.keywords else ""
        pieces = [file.insert(end, f"{comma}config=npu_config_proto()")]
    yield file.change(node, *pieces, needs=(TF_BRIDGE,))


def _remark(node: ast.Call, subject: str, zh: str, en: str, file: PythonFile) -> Remark:
    return file.remark(
        node,
        subject,
        Words(
            "TensorFlow on NPUs runs through the NPU bridge.",
            "TensorFlow 通过 NPU bridge 在 NPU 上运行。",
        ),
        Words(en, zh),
        severity=Severity.WORK,
        effort=Effort.MINUTES,
        kind=Kind.DEVICE,
    )


RULE = Rule(
    "JP961", Words("TensorFlow session", "TensorFlow 会话"), (ast.Call,), ("tensorflow",), check
)
