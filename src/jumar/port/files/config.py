"""YAML, TOML, INI and JSON: `device: cuda` if the key says that it is a device.

Such a file names one device and cannot ask for the machine's. Under `--npu-only` it becomes `npu`;
in portable code it stays, since GPUs need it, and is reported. Values under other keys (`impl: cuda`,
`name: cuda`), commands that are not training commands and the tables of build servers stay."""

import re
from typing import NamedTuple

from jumar.port.device_names import is_device_name
from jumar.port.environment import COUNTERPARTS
from jumar.port.files import features
from jumar.port.files.docker import CARDS_WORDS
from jumar.port.files.lines import LineEdits, command, names_cuda, numbered, rewrite, still_cuda
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity, Words
from jumar.port.rules.jp111_lightning import ACCELERATOR_WORDS

CODE = "JP503"
_ENTRY = lazy_pattern(
    r"(?P<head>(?:^|[\s{,\[-])(?P<q>[\"']?)(?P<key>[A-Za-z_][\w.-]*)(?P=q)\s*[:=]\s*)"
    r"(?P<vq>[\"']?)(?P<value>cuda(?::\d+)?|nccl)(?P=vq)(?=\s*(?:[,}\]#;]|$))"
)
_VARIABLE = lazy_pattern(
    r"^(?P<indent>\s*)(?P<q>[\"']?)(?P<name>"
    + "|".join(COUNTERPARTS)
    + r")(?P=q)(?P<rest>\s*[:=]\s*\S.*)$"
)
_CALLED = lazy_pattern(
    r"(?:!(?:apply|new|name):|\b_target_\s*:\s*[\"']?)(?P<name>torch\.cuda\.[\w.]+)"
)
"""What hyperpyyaml or hydra calls by its name."""
_ACCELERATE = lazy_pattern(r"(?P<head>^\s*[\"']?distributed_type[\"']?\s*:\s*[\"']?)MULTI_GPU\b")
_LAUNCH = lazy_pattern(r"\b(?:python3?|torchrun|accelerate|deepspeed)\b")
_AROUND = " \t{,[-"
_COMMENT = lazy_pattern(r"^\s*(?:#|//|;)")


class Surroundings(NamedTuple):
    """What is known about a configuration file from elsewhere."""

    is_for_builds: bool = False
    """A build server's file: `device: cuda` names a job there, not a device."""
    uses_lightning: bool = True
    backends_read: frozenset[str] | None = None
    """The settings for a backend that some code reads; None if that is not known."""


def port(
    text: str, options: Options, suffix: str, known_as: Surroundings | None = None
) -> tuple[str, LineEdits]:
    """Port a configuration file."""
    around = known_as or Surroundings()
    is_for_builds = around.is_for_builds
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
            severity = Severity.WORK if _is_read(match, around) else Severity.INFO
            names_cuda(line, number + 1, CODE, edits, told, on_npu, severity)
        for match in _CALLED.finditer(line):
            told, on_npu = match["name"], match["name"].replace("cuda", "npu")
            names_cuda(line, number + 1, CODE, edits, told, on_npu, Severity.WORK)
        if _LAUNCH.search(line):
            still_cuda(line, number + 1, CODE, edits, Severity.WORK)
    _tell_of_tools(lines, around, edits)
    features.report(lines, CODE, edits)
    return ported, edits


def _tell_of_tools(lines: list[tuple[int, str]], around: Surroundings, edits: LineEdits) -> None:
    """Report what other tools read from the file: cards for containers, accelerators."""
    for number, line in lines:
        for pattern, (subject, why, advice) in _ASKED.items():
            if pattern.match(line):
                edits.find(CODE, number + 1, line, subject, why, advice, severity=Severity.WORK)
        if around.uses_lightning and _LIGHTNING.search(line):
            edits.find(
                CODE, number + 1, line, "accelerator: gpu", *ACCELERATOR_WORDS, Severity.WORK
            )


_ASKED = {
    lazy_pattern(r"\s*-?\s*[\"']?nvidia\.com/gpu[\w.-]*[\"']?\s*:"): (
        "nvidia.com/gpu",
        Words("This requests GPUs from Kubernetes.", "此处向 Kubernetes 申请 GPU。"),
        Words(
            "request NPUs by the name of the device plug-in, such as huawei.com/Ascend910",
            "请按设备插件的资源名申请 NPU，例如 huawei.com/Ascend910",
        ),
    ),
    lazy_pattern(r"\s*-?\s*(?:driver|runtime)\s*:\s*[\"']?nvidia\b"): ("nvidia", *CARDS_WORDS),
    lazy_pattern(r"\s*-?\s*[\"']?NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES)[\"']?\s*[:=]"): (
        "NVIDIA_VISIBLE_DEVICES",
        *CARDS_WORDS,
    ),
    lazy_pattern(r"\s*-\s*[\"']?/dev/nvidia\w*:"): ("/dev/nvidia", *CARDS_WORDS),
    lazy_pattern(r"\s*_target_\s*:\s*[\"']?(?:pytorch_)?lightning\.(?:\w+\.)*Trainer\b"): (
        "lightning.Trainer",
        *ACCELERATOR_WORDS,
    ),
}
_LIGHTNING = lazy_pattern(r"^\s*accelerator\s*:\s*[\"']?(?:gpu|cuda)\b")


def _is_read(match: re.Match[str], around: Surroundings) -> bool:
    """Whether some code may read the setting."""
    key = match["key"].rpartition(".")[2].replace("-", "_")
    return match["value"] != "nccl" or around.backends_read is None or key in around.backends_read


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
