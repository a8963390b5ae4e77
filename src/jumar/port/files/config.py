"""YAML, TOML, INI and JSON: `device: cuda` if the key says that it is a device.

A configuration names one device, so it becomes `npu` in either mode. Values under other keys
(`impl: cuda`, `name: cuda`) and commands that are not training commands stay."""

import re

from jumar.port.device_roles import is_device_name
from jumar.port.environment import COUNTERPARTS
from jumar.port.files import features
from jumar.port.files.lines import LineEdits, command, numbered, rewrite
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
_COMMENT = re.compile(r"^\s*(?:#|//|;)")


def port(text: str, options: Options, suffix: str) -> tuple[str, LineEdits]:
    """Port a configuration file."""
    edits = LineEdits()
    lines = [(n, line) for n, line in numbered(text) if not _COMMENT.match(line)]
    known = any(target in text for target in COUNTERPARTS.values())

    def one(line: str) -> str:
        line = _ACCELERATE.sub(r"\g<head>MULTI_NPU", _ENTRY.sub(_value, line))
        if _LAUNCH.search(line) and suffix != ".json":
            return command(line, options)
        return line if known else _variable(line, options, suffix)

    ported = rewrite(text, lines, one, CODE, edits)
    for number, line in lines:
        for pattern, (subject, why, advice) in _ASKED.items():
            if pattern.search(line):
                edits.find(CODE, number + 1, line, subject, why, advice, severity=Severity.WORK)
    features.report(lines, CODE, edits)
    return ported, edits


_ASKED = {
    re.compile(r"^\s*-?\s*[\"']?nvidia\.com/gpu[\w.-]*[\"']?\s*:"): (
        "nvidia.com/gpu",
        Words("This requests GPUs from Kubernetes.", "此处向 Kubernetes 申请 GPU。"),
        Words(
            "request NPUs by the name of the device plug-in, such as huawei.com/Ascend910",
            "请按设备插件的资源名申请 NPU，例如 huawei.com/Ascend910",
        ),
    ),
    re.compile(r"^\s*-?\s*(?:driver|runtime)\s*:\s*[\"']?nvidia\b"): (
        "nvidia",
        Words("This passes NVIDIA cards to a container.", "此处为容器挂载 NVIDIA 卡。"),
        Words(
            "use Ascend Docker Runtime with ASCEND_VISIBLE_DEVICES",
            "请使用 Ascend Docker Runtime 与 ASCEND_VISIBLE_DEVICES",
        ),
    ),
    re.compile(r"^\s*_target_\s*:\s*[\"']?(?:pytorch_)?lightning\.(?:\w+\.)*Trainer\b"): (
        "lightning.Trainer",
        *ACCELERATOR_WORDS,
    ),
    re.compile(r"^\s*accelerator\s*:\s*[\"']?(?:gpu|cuda)\b"): (
        "accelerator: gpu",
        *ACCELERATOR_WORDS,
    ),
}


def _value(match: re.Match[str]) -> str:
    key = match["key"].rpartition(".")[2].replace("-", "_")
    value = match["value"]
    if value == "nccl":
        fits, ported = key.endswith("backend"), "hccl"
    else:
        fits, ported = is_device_name(key), value.replace("cuda", "npu")
    return f"{match['head']}{match['vq']}{ported}{match['vq']}" if fits else match[0]


def _variable(line: str, options: Options, suffix: str) -> str:
    stripped = line.rstrip("\r\n")
    match = _VARIABLE.match(stripped)
    if match is None or suffix == ".json":
        return line
    target = COUNTERPARTS[match["name"]]
    renamed = f"{match['indent']}{match['q']}{target}{match['q']}{match['rest']}"
    end = line[len(stripped) :]
    return renamed + end if options.npu_only else line + renamed + (end or "")
