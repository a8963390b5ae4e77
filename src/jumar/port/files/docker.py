"""Dockerfiles: an image built on CUDA is reported; nothing is changed."""

import re

from jumar.port.files.lines import LineEdits, numbered
from jumar.port.records import Effort, Severity, Words

CODE = "JP508"
_BASE = re.compile(r"^\s*FROM\s+(?:--\S+\s+)?(?P<image>\S*(?:nvidia|cuda|cudnn)\S*)", re.IGNORECASE)
_ARGUMENT = re.compile(
    r"^\s*ARG\s+(?P<name>\w+)=[\"']?(?P<image>[^\s\"']*(?:nvidia|cuda|cudnn)[^\s\"']*)",
    re.IGNORECASE,
)
_FROM_ARGUMENT = re.compile(r"^\s*FROM\s+(?:--\S+\s+)?\S*\$\{?(?P<name>\w+)", re.MULTILINE)


def findings(text: str) -> LineEdits:
    """Report the images of a Dockerfile, including those in its arguments."""
    edits = LineEdits()
    arguments = {match["name"] for match in _FROM_ARGUMENT.finditer(text)}
    for number, line in numbered(text):
        argument = _ARGUMENT.match(line)
        is_image = argument is not None and argument["name"] in arguments
        match = argument if is_image else _BASE.match(line)
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
