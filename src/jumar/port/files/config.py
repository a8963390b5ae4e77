"""YAML, TOML, INI and JSON: `device: cuda` if the key says that it is a device.

Such a file names one device and cannot ask for the machine's. Under `--npu-only` it becomes `npu`;
in portable code it stays, since GPUs need it, and is reported. Values under other keys (`impl: cuda`,
`name: cuda`), commands that are not training commands and the tables of build servers stay."""

import re

from jumar.port.device_names import is_device_name
from jumar.port.environment import COUNTERPARTS
from jumar.port.files import features
from jumar.port.files.lines import LineEdits, command, names_cuda, numbered, rewrite, still_cuda
from jumar.port.options import Options
from jumar.port.records import Severity, Words
from jumar.port.rules.jp111_lightning import ACCELERATOR_WORDS

CODE = "JP503"
_ENTRY = re.compile(
    r"(?P<head>(?:^|[\s{,\[-])(?P<q>[\"']?)(?P<key>[A-Za-z_][\w.-]*)(?P=q)\s*[:=]\s*)"
    r"(?P<vq>[\"']?)(?P<value>cuda(?::\d+)?|nccl)(?P=vq)(?=\s*(?:[,}\]#;]|$))"
)
_VARIABLE = re.compile(
    r"^(?P<indent>\s*)(?P<q>[\"']?)(?P<name>"
    + "|".join(COUNTERPARTS)
    + r")(?P=q)(?P<rest>\s*[:=]\s*\S.*)$"
)
_ACCELERATE = re.compile(r"(?P<head>^\s*[\"']?distributed_type[\"']?\s*:\s*[\"']?)MULTI_GPU\b")
_LAUNCH = re.compile(r"\b(?:python3?|torchrun|accelerate|deepspeed)\b")
_AROUND = " \t{,[-"
_COMMENT = re.compile(r"^\s*(?:#|//|;)")


def port(
    text: str, options: Options, suffix: str, *, is_for_builds: bool = False
) -> tuple[str, LineEdits]:
    """Port a configuration file; `device: cuda` of a build server's file names a job, not a device."""
    edits = LineEdits()
    lines = [(n, line) for n, line in numbered(text) if not _COMMENT.match(line)]
    known = any(target in text for target in COUNTERPARTS.values())

    def one(_: int, line: str) -> str:
        if options.npu_only and not is_for_builds:
            line = _ACCELERATE.sub(r"\g<head>MULTI_NPU", _ENTRY.sub(_renamed, line))
        if _LAUNCH.search(line) and suffix != ".json":
            return command(line, options)
        return line if known else _variable(line, options, suffix)

    ported = rewrite(text, lines, one, CODE, edits)
    for number, line in lines if not options.npu_only and not is_for_builds else ():
        for match in filter(_is_device, _ENTRY.finditer(line)):
            told, on_npu = match[0].strip(_AROUND), _renamed(match).strip(_AROUND)
            names_cuda(line, number + 1, CODE, edits, told, on_npu, Severity.WORK)
        if _LAUNCH.search(line):
            still_cuda(line, number + 1, CODE, edits, Severity.WORK)
    for number, line in lines:
        for pattern, (subject, why, advice) in _ASKED.items():
            if pattern.match(line):
                edits.find(CODE, number + 1, line, subject, why, advice, severity=Severity.WORK)
    features.report(lines, CODE, edits)
    return ported, edits


_ASKED = {
    re.compile(r"\s*-?\s*[\"']?nvidia\.com/gpu[\w.-]*[\"']?\s*:"): (
        "nvidia.com/gpu",
        Words("This requests GPUs from Kubernetes.", "此处向 Kubernetes 申请 GPU。"),
        Words(
            "request NPUs by the name of the device plug-in, such as huawei.com/Ascend910",
            "请按设备插件的资源名申请 NPU，例如 huawei.com/Ascend910",
        ),
    ),
    re.compile(r"\s*-?\s*(?:driver|runtime)\s*:\s*[\"']?nvidia\b"): (
        "nvidia",
        Words("This passes NVIDIA cards to a container.", "此处为容器挂载 NVIDIA 卡。"),
        Words(
            "use Ascend Docker Runtime with ASCEND_VISIBLE_DEVICES",
            "请使用 Ascend Docker Runtime 与 ASCEND_VISIBLE_DEVICES",
        ),
    ),
    re.compile(r"\s*_target_\s*:\s*[\"']?(?:pytorch_)?lightning\.(?:\w+\.)*Trainer\b"): (
        "lightning.Trainer",
        *ACCELERATOR_WORDS,
    ),
    re.compile(r"\s*accelerator\s*:\s*[\"']?(?:gpu|cuda)\b"): (
        "accelerator: gpu",
        *ACCELERATOR_WORDS,
    ),
}


def _is_device(match: re.Match[str]) -> bool:
    key = match["key"].rpartition(".")[2].replace("-", "_")
    return key.endswith("backend") if match["value"] == "nccl" else is_device_name(key)


def _renamed(match: re.Match[str]) -> str:
    if not _is_device(match):
        return match[0]
    ported = "hccl" if match["value"] == "nccl" else match["value"].replace("cuda", "npu")
    return f"{match['head']}{match['vq']}{ported}{match['vq']}"


def _variable(line: str, options: Options, suffix: str) -> str:
    stripped = line.rstrip("\r\n")
    match = _VARIABLE.match(stripped)
    if match is None or suffix == ".json":
        return line
    target = COUNTERPARTS[match["name"]]
    renamed = f"{match['indent']}{match['q']}{target}{match['q']}{match['rest']}"
    end = line[len(stripped) :]
    return renamed + end if options.npu_only else line + renamed + (end or "")
