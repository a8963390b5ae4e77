"""What a requirement asks for: distributions tied to CUDA, by the names in requirement lists."""

import re
from dataclasses import dataclass, replace

from jumar.port.packages import base_name, of_distribution
from jumar.port.records import Effort, Severity, Words
from jumar.port.versions import newest

CODE = "JP506"
_NAME = re.compile(r"^\s*-?\s*[\"']?(?P<name>[A-Za-z0-9][\w.-]*)")
_CUDA_BUILD = re.compile(
    r"\+cu\d+|/whl/(?:\w+/)?cu\d+|^\s*-?\s*(?:nvidia-[\w-]+-cu\d+|cudatoolkit|pytorch-cuda)\b"
)
_GPU_BUILD = re.compile(
    r"^\s*-?\s*[\"']?(?P<name>(?:onnxruntime|tensorflow|faiss|paddlepaddle|mindspore|dgl)-(?:gpu|cu\d+))"
)
_MARKER = re.compile(r"[;@#]")
"""What follows the versions: a condition, an address, a comment."""


@dataclass(frozen=True, slots=True)
class Tied:
    """Why a requirement needs a different choice."""

    subject: str
    why: Words
    advice: Words
    severity: Severity
    effort: Effort

    def when_optional(self) -> "Tied":
        """The same for an optional requirement."""
        return replace(self, severity=Severity.INFO, effort=Effort.NONE)


def tied(requirement: str) -> Tied | None:
    """What to report about one requirement; None for most."""
    match = _NAME.match(requirement)
    name = match["name"].lower() if match else ""
    package = of_distribution(name)
    if package is not None:
        versions = _MARKER.split(requirement[match.end() :] if match else "")[0]
        facts = package.facts(newest(versions))
        if facts is None:
            return None
        found = Tied(base_name(name), facts.why, facts.advice, facts.severity, facts.effort)
        return found.when_optional() if package.installs_anywhere else found
    if _CUDA_BUILD.search(requirement) or _GPU_BUILD.match(requirement):
        return Tied(
            name or requirement.strip(),
            Words("This asks for a CUDA build.", "该依赖指定了 CUDA 版本。"),
            Words(
                "install the CPU build with torch_npu, or remove the line",
                "请安装 CPU 版本并配合 torch_npu，或删除该行",
            ),
            Severity.LIMIT,
            Effort.MINUTES,
        )
    return None
