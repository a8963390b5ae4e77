"""Dockerfiles, definitions for Apptainer and Cog: what builds on CUDA is reported; nothing is changed."""

import re

from jumar.port.files.lines import LineEdits, numbered
from jumar.port.files.shell import surroundings
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Effort, Severity, Words

CODE = "JP508"
_BASE = lazy_pattern(
    r"^\s*FROM(?::\s*|\s+)(?:--\S+\s+)?(?P<image>\S*(?:nvidia|cuda|cudnn)\S*)", re.IGNORECASE
)
_ARGUMENT = lazy_pattern(
    r"^\s*ARG\s+(?P<name>\w+)=[\"']?(?P<image>[^\s\"']*(?:nvidia|cuda|cudnn)[^\s\"']*)",
    re.IGNORECASE,
)
_FROM_ARGUMENT = lazy_pattern(r"^\s*FROM\s+(?:--\S+\s+)?\S*\$\{?(?P<name>\w+)", re.MULTILINE)

_CARDS = lazy_pattern(
    r"^\s*(?:ENV\s+|export\s+)?(?P<name>NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES))\b"
)
_RUN = lazy_pattern(r"^\s*RUN\s+(?:--\S+\s+)*", re.IGNORECASE)
_COG = lazy_pattern(r"^\s*(?P<key>gpu\s*:\s*true|cuda\s*:\s*[\"']?\d)")
CARDS_WORDS = (
    Words("This passes NVIDIA cards to a container.", "此处为容器挂载 NVIDIA 卡。"),
    Words(
        "use Ascend Docker Runtime with ASCEND_VISIBLE_DEVICES",
        "请使用 Ascend Docker Runtime 与 ASCEND_VISIBLE_DEVICES",
    ),
)


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
        cards = _CARDS.match(line)
        if cards:
            edits.find(CODE, number + 1, line, cards["name"], *CARDS_WORDS)
    surroundings(((n, _RUN.sub("", line)) for n, line in numbered(text)), CODE, edits)
    return edits


def of_cog(text: str) -> LineEdits:
    """Report the lines of a `cog.yaml` that ask for GPUs or a version of CUDA."""
    edits = LineEdits()
    for number, line in numbered(text):
        match = _COG.match(line)
        if match:
            edits.find(
                CODE,
                number + 1,
                line,
                match["key"].partition(":")[0].strip(),
                Words("Cog builds this image on CUDA.", "Cog 基于 CUDA 构建该镜像。"),
                Words(
                    "set gpu to false, and build an image with CANN and torch_npu for NPUs",
                    "请将 gpu 设为 false，NPU 请使用带 CANN 与 torch_npu 的镜像",
                ),
            )
    return edits
