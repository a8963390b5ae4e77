"""YAML, TOML, INI and JSON: `device: cuda` where the key says that it is a device.

A configuration names one device, so it becomes `npu` in either form. Values under other keys
(`impl: cuda`, `name: cuda`) and commands that are not training commands stay."""

import re

from jumar.port.environment import COUNTERPARTS
from jumar.port.files.lines import LineEdits, command, numbered, rewrite
from jumar.port.options import Options
from jumar.port.places import is_device_name

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
_LAUNCH = re.compile(r"\b(?:python3?|torchrun|accelerate|deepspeed)\b")
_COMMENT = re.compile(r"^\s*(?:#|//|;)")


def port(text: str, options: Options, suffix: str) -> tuple[str, LineEdits]:
    """Port a configuration file."""
    edits = LineEdits()
    lines = [(n, line) for n, line in numbered(text) if not _COMMENT.match(line)]
    known = any(target in text for target in COUNTERPARTS.values())

    def one(line: str) -> str:
        line = _ENTRY.sub(_value, line)
        if _LAUNCH.search(line) and suffix != ".json":
            return command(line, options)
        return line if known else _variable(line, options, suffix)

    return rewrite(text, lines, one, CODE, edits), edits


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
