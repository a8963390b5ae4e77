"""Shell scripts: `CUDA_VISIBLE_DEVICES=0 python train.py --device cuda --backend nccl`.

In portable scripts such options ask torch for the device of the machine. Comments, echoed text and
paths stay. A launch line (`torch.distributed.launch`, `torchrun`, `accelerate launch --multi_gpu`)
works on NPUs unchanged; only its arguments change."""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

from jumar.port.environment import SLURM_GPUS, SLURM_GPUS_WORDS
from jumar.port.files import features, installs
from jumar.port.files.lines import (
    LineEdits,
    asked,
    command,
    numbered,
    rewrite,
    split_lines,
    still_cuda,
    unfinished,
    without_effect,
)
from jumar.port.files.words import kept_literally
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity, Words
from jumar.port.rules.jp111_lightning import ACCELERATOR_WORDS

CODE = "JP502"
_START = r"(?:^\s*[!$>]?\s*|[;&|(`]\s*|\bwatch\s+(?:-\S+\s+)*)"
"""Where a command starts in a line."""
_SMI = lazy_pattern(rf"{_START}nvidia-smi\b")
_GRES = lazy_pattern(
    r"^#SBATCH\s.*--(?:gres|gpus)\S*[= ]\S*(?:gpu|\d)"
    r"|(?<!\S)--gres[= ]gpu\b|\b(?:srun|sbatch|salloc)\b.*\s--gpus[\w-]*[= ]\d"
)
_ALLOTTED = lazy_pattern(rf"\$(?:{{(?:{SLURM_GPUS.pattern})}}|(?:{SLURM_GPUS.pattern})\b)")
"""Not if the script has a default for when it is not set: `${SLURM_GPUS_ON_NODE:-8}`."""
_LSF = lazy_pattern(r"\bbsub\b.*\s-gpu\s")
_MODULE = lazy_pattern(
    r"^\s*(?:module|ml)\s+(?:load|add)\s.*\b(?:cuda|cudnn|nccl)\b", re.IGNORECASE
)
_CONTAINER = lazy_pattern(
    r"\bnvidia-docker\s+run\b|=[\"']?nvidia-docker\b|^\s*\w+=[\"'][^\"']*--gpus[= ]"
    r"|\b(?:docker|podman)\s+(?:container\s+)?(?:run|create)\b.*--(?:gpus|runtime[= ]nvidia)\b"
)
_IMAGE = lazy_pattern(
    r"^\s*(?:(?:export|readonly|local)\s+)?\w+=[\"']?(?:\S*\bnvcr\.io/|\S*\bnvidia/cuda:"
    r"|[\w./-]+:[\w.-]*cuda|\S*-cuda\S*-cudnn)"
)
"""An image in a variable of its own."""
_APPTAINER = lazy_pattern(r"\b(?:apptainer|singularity)\s.*\s--nv(?:ccli)?\b")
_TRACER = lazy_pattern(rf"{_START}(?:nsys\s+(?:profile|launch|start)|ncu)\s")
_ENGINE = lazy_pattern(rf"{_START}trtexec\s")
_LIGHTNING = lazy_pattern(
    r"\b(?:lightning|fabric)\s+run\b.*\s--accelerator[= ][\"']?(?:cuda|gpu)\b"
)
_RAY = lazy_pattern(r"\bray\s+start\b.*\s--num-gpus\b(?![= ]0\b)")
_ANY = lazy_pattern(
    r"nvidia|gpu|gres|slurm_|cuda|cudnn|nccl|nvcr|--nv|nsys|ncu|trtexec", re.IGNORECASE
)
"""What each of these contains; most lines contain none."""
_PROSE = lazy_pattern(r"^\s*(?:#|echo\b|printf\b)")


def port(text: str, options: Options) -> tuple[str, LineEdits]:
    """Port a shell script."""
    edits = LineEdits()
    lines = [(n, line) for n, line in numbered(text) if not _PROSE.match(line)]
    starts = [0, *accumulate(len(line) for line in split_lines(text))]
    literal = kept_literally(text)

    def one(number: int, line: str) -> str:
        if not options.npu_only and options.has_accelerator:
            line = asked(line, lambda at: _is_inside(starts[number] + at, literal))
        return command(line, options)

    ported = rewrite(text, lines, one, CODE, edits)
    for number, line in lines:
        without_effect(line, number + 1, CODE, edits)
    remaining = split_lines(ported)
    for number, _ in lines:
        still_cuda(remaining[number], number + 1, CODE, edits, Severity.WORK)
        unfinished(remaining[number], number + 1, CODE, edits)
    surroundings(numbered(text), CODE, edits)
    return ported, edits


def _is_inside(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in spans)


def surroundings(
    lines: Iterable[tuple[int, str]],
    code: str,
    edits: LineEdits,
    severity: Severity = Severity.LIMIT,
) -> None:
    """What a script asks of its machine: cards, tools, containers, installations, kernels."""
    asked = [(n, s) for n, s in lines if not _PROSE.match(s) or s.startswith("#SBATCH")]
    commands = list(_whole_commands(asked))
    for number, line in commands:
        if _ANY.search(line) is None:
            continue
        for pattern, (subject, why, advice) in _ASKED.items():
            if pattern.search(line):
                edits.find(code, number + 1, line, subject, why, advice, severity)
    installs.report(commands, code, edits, severity)
    features.report(asked, code, edits, severity)


def _whole_commands(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Lines that a backslash continues are one, with the number of the first."""
    first, last, whole = 0, -1, ""
    for number, line in lines:
        if not whole or number != last + 1:
            if whole:
                yield first, whole
            first, whole = number, ""
        last = number
        bare = line.rstrip()
        if bare.endswith("\\"):
            whole += f"{bare[:-1]} "
            continue
        yield first, whole + line
        whole = ""
    if whole:
        yield first, whole


_ASKED = {
    _SMI: (
        "nvidia-smi",
        Words("nvidia-smi only sees NVIDIA cards.", "nvidia-smi 只能查看 NVIDIA 卡。"),
        Words("on NPUs use: npu-smi info", "在 NPU 上请使用 npu-smi info"),
    ),
    _GRES: (
        "--gres=gpu",
        Words("This requests GPUs from Slurm.", "此处向 Slurm 申请 GPU。"),
        Words(
            "request NPUs by the name that the cluster uses, such as --gres=npu:8",
            "请按集群中 NPU 的资源名申请，例如 --gres=npu:8",
        ),
    ),
    _ALLOTTED: ("SLURM_GPUS", *SLURM_GPUS_WORDS),
    _LSF: (
        "bsub -gpu",
        Words("This requests GPUs from LSF.", "此处向 LSF 申请 GPU。"),
        Words(
            "request NPUs by the resource that the cluster uses, such as -R 'rusage[npu=1]'",
            "请按集群中 NPU 的资源名申请，例如 -R 'rusage[npu=1]'",
        ),
    ),
    _MODULE: (
        "module load cuda",
        Words("This loads CUDA's libraries.", "此处加载 CUDA 库。"),
        Words(
            "load CANN instead: source its set_env.sh",
            "请改为加载 CANN：source set_env.sh",
        ),
    ),
    _CONTAINER: (
        "docker --gpus",
        Words("This passes NVIDIA cards to a container.", "此处为容器挂载 NVIDIA 卡。"),
        Words(
            "use Ascend Docker Runtime with -e ASCEND_VISIBLE_DEVICES=0, or --device /dev/davinci0",
            "请使用 Ascend Docker Runtime 并设置 -e ASCEND_VISIBLE_DEVICES=0，或 --device /dev/davinci0",
        ),
    ),
    _IMAGE: (
        "CUDA image",
        Words("This image is built on CUDA.", "该镜像基于 CUDA。"),
        Words(
            "start from an image with CANN and torch_npu, such as ascend/torch-npu",
            "请使用带 CANN 与 torch_npu 的镜像，例如 ascend/torch-npu",
        ),
    ),
    _RAY: (
        "ray start --num-gpus",
        Words("This offers GPUs to ray.", "此处向 ray 声明 GPU。"),
        Words(
            "leave it out on NPUs, which ray counts itself as the resource NPU",
            "在 NPU 上请去掉该选项，ray 会自动将 NPU 计为资源 NPU",
        ),
    ),
    _APPTAINER: (
        "apptainer --nv",
        Words("This passes NVIDIA cards to a container.", "此处为容器挂载 NVIDIA 卡。"),
        Words(
            "without --nv, bind the NPUs and their driver: --bind /dev/davinci0,/dev/davinci_manager,"
            "/dev/devmm_svm,/dev/hisi_hdc,/usr/local/Ascend/driver",
            "请去掉 --nv，并挂载 NPU 与驱动：--bind /dev/davinci0,/dev/davinci_manager,"
            "/dev/devmm_svm,/dev/hisi_hdc,/usr/local/Ascend/driver",
        ),
    ),
    _TRACER: (
        "nsys",
        Words("This profiler only sees NVIDIA cards.", "该性能分析工具只支持 NVIDIA 卡。"),
        Words(
            "on NPUs use msprof, or torch_npu.profiler",
            "在 NPU 上请使用 msprof 或 torch_npu.profiler",
        ),
    ),
    _ENGINE: (
        "trtexec",
        Words("TensorRT runs on NVIDIA cards only.", "TensorRT 只支持 NVIDIA 卡。"),
        Words("convert the model with ATC", "请用 ATC 转换模型"),
    ),
    _LIGHTNING: ("accelerator: gpu", *ACCELERATOR_WORDS),
}
