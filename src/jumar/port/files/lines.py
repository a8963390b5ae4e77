"""Edits of plain lines: shared by shell, configuration and document porting."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from jumar.port.device_roles import is_device_name
from jumar.port.environment import (
    COMMAND_IN_TEXT,
    COUNTERPARTS,
    EVERY_CARD,
    in_command,
    remark_words,
)
from jumar.port.options import Options
from jumar.port.records import Change, Effort, Finding, Kind, Severity, Words

_VISIBLE = re.compile(
    r"(?P<flag>(?<!\S)(?:-e|--env)[ =])?(?<![\w$\"'{])(?P<name>"
    + "|".join(COUNTERPARTS)
    + r")=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|)`]*)"
)
_PUT_ASIDE = re.compile(
    r"(?P<head>(?<!\S)[A-Za-z_]\w*=[\"'])(?P<name>"
    + "|".join(COUNTERPARTS)
    + r")=(?P<value>[^\s\"';&|)`]*)(?=[\s\"'])"
)
"""Stored in a variable for a later command: `cards="CUDA_VISIBLE_DEVICES=$1"`."""
_REFERENCE = re.compile(r"\$\{?(?P<name>" + "|".join(COUNTERPARTS) + r")\b")
_OPTION = re.compile(
    r"(?<![\w/])(?P<option>--?[A-Za-z][\w.-]*|\+?[A-Za-z_][\w.]*(?==))(?P<joint>[= ]|\s+)"
    r"(?P<quote>[\"']?)(?P<value>cuda(?::\d+(?:[ ,]cuda:\d+)*)?|nccl)(?P=quote)(?![\w./:-])"
)
_NCCL = re.compile(r"(?<![\w$\"'{])(?P<name>(?:TORCH_)?NCCL_[A-Z0-9_]+)=")


@dataclass(slots=True)
class LineEdits:
    """What was done to a text, line by line."""

    changes: list[Change] = field(default_factory=list[Change])
    findings: list[Finding] = field(default_factory=list[Finding])

    def change(self, code: str, line: int, before: str, after: str) -> None:
        """Record one changed line."""
        self.changes.append(Change(code, line, line, before.strip(), after.strip(), "MODIFY"))

    def find(
        self,
        code: str,
        line: int,
        source: str,
        subject: str,
        why: Words,
        advice: Words,
        severity: Severity = Severity.LIMIT,
        effort: Effort = Effort.MINUTES,
        kind: Kind = Kind.DEVICE,
    ) -> None:
        """Record one finding."""
        self.findings.append(
            Finding(
                code,
                severity,
                effort,
                kind,
                line,
                line,
                1,
                subject,
                source.strip()[:200],
                why,
                advice,
            )
        )


def split_lines(text: str) -> list[str]:
    """Lines with their endings, split only at line endings."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)


def rewrite(
    text: str,
    lines: Iterable[tuple[int, str]],
    port: Callable[[str], str],
    code: str,
    edits: LineEdits,
) -> str:
    """Replace the given lines (number from 0, text) with the result of `port`."""
    parts = split_lines(text)
    for number, line in lines:
        ported = port(line)
        if ported != line:
            edits.change(code, number + 1, line, ported)
            parts[number] = ported
    return "".join(parts)


def command(line: str, options: Options) -> str:
    """One shell line with its variables and options ported."""
    for pattern in (_VISIBLE, _PUT_ASIDE):
        line = pattern.sub(partial(_variable, line=line, options=options), line)
    line = EVERY_CARD.sub(r"\g<head>auto", line)
    if not any(f"{target}=" in line for target in COUNTERPARTS.values()):
        line = COMMAND_IN_TEXT.sub(lambda m: in_command(m, npu_only=options.npu_only), line)
    if options.npu_only:
        line = _REFERENCE.sub(lambda m: m[0].replace(m["name"], COUNTERPARTS[m["name"]]), line)
    return _OPTION.sub(_option, line)


def _variable(match: re.Match[str], line: str, options: Options) -> str:
    name, value = match["name"], match["value"]
    target = COUNTERPARTS[name]
    if value.strip("\"'") in ("", "-1") or f"{target}=" in line:
        return match[0]
    parts = match.groupdict()
    flag = parts.get("flag") or ""
    ported = f"{flag}{target}={value}"
    both = f"{flag}{name}={value} {ported}"
    return (parts.get("head") or "") + (ported if options.npu_only else both)


def _option(match: re.Match[str]) -> str:
    key = re.split(r"[.]", match["option"].lstrip("-+"))[-1].replace("-", "_")
    value = match["value"]
    if value == "nccl":
        fits = key.endswith("backend")
        ported = "hccl"
    else:
        fits = is_device_name(key)
        ported = value.replace("cuda", "npu")
    if not fits:
        return match[0]
    quote = match["quote"]
    return f"{match['option']}{match['joint']}{quote}{ported}{quote}"


def without_effect(line: str, number: int, code: str, edits: LineEdits) -> None:
    """Report variables of NCCL that HCCL does not read."""
    for match in _NCCL.finditer(line):
        words = remark_words(match["name"])
        if words is not None and match["name"] not in COUNTERPARTS:
            edits.find(
                code,
                number,
                line,
                match["name"],
                *words,
                severity=Severity.INFO,
                effort=Effort.NONE,
            )


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 0."""
    return enumerate(split_lines(text))
