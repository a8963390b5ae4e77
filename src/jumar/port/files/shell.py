"""Shell scripts: `CUDA_VISIBLE_DEVICES=0 python train.py --device cuda --backend nccl`.

Comments, echoed text and paths stay. A launch line (`torch.distributed.launch`, `torchrun`) works on
NPUs as it is; only what is on it changes."""

import re

from jumar.port.files.lines import LineEdits, command, numbered, rewrite, without_effect
from jumar.port.options import Options
from jumar.port.records import Effort, Severity, Words

CODE = "JP502"
_SMI = re.compile(r"(?:^|[;&|(`]\s*|\bwatch\s+(?:-\S+\s+)*)nvidia-smi\b")
_PROSE = re.compile(r"^\s*(?:#|echo\b|printf\b)")


def port(text: str, options: Options) -> tuple[str, LineEdits]:
    """Port a shell script."""
    edits = LineEdits()
    lines = [(n, line) for n, line in numbered(text) if not _PROSE.match(line)]
    ported = rewrite(text, lines, lambda line: command(line, options), CODE, edits)
    for number, line in lines:
        without_effect(line, number + 1, CODE, edits)
        if _SMI.search(line.strip()):
            edits.find(
                CODE,
                number + 1,
                line,
                "nvidia-smi",
                Words("nvidia-smi sees NVIDIA cards only.", "nvidia-smi 只能查看 NVIDIA 卡。"),
                Words("on NPUs use: npu-smi info", "在 NPU 上请使用 npu-smi info"),
                severity=Severity.LIMIT,
                effort=Effort.MINUTES,
            )
    return ported, edits
