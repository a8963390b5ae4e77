"""Dockerfiles: an image that is built on CUDA is reported, nothing is changed."""

import re

from jumar.port.files.lines import LineEdits, numbered
from jumar.port.records import Effort, Severity, Words

CODE = "JP508"
_BASE = re.compile(r"^\s*FROM\s+(?:--\S+\s+)?(?P<image>\S*(?:nvidia|cuda|cudnn)\S*)", re.IGNORECASE)


def findings(text: str) -> LineEdits:
    """Report the images of a Dockerfile."""
    edits = LineEdits()
    for number, line in numbered(text):
        match = _BASE.match(line)
        if match:
            edits.find(
                CODE,
                number + 1,
                line,
                match["image"],
                Words("This image is built on CUDA.", "该镜像基于 CUDA。"),
                Words(
                    "start from an image with CANN and torch_npu, such as ascend/torch-npu",
                    "请使用带 CANN 与 torch_npu 的镜像，例如 ascend/torch-npu",
                ),
                severity=Severity.WORK,
                effort=Effort.HOURS,
            )
    return edits
