"""Edits of plain lines: shared by shell, configuration and document porting."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from jumar.port.device_names import is_device_name
from jumar.port.environment import (
    COMMAND_IN_TEXT,
    COUNTERPARTS,
    EVERY_CARD,
    FOR_GPUS,
    in_command,
    on_npus,
    remark_words,
)
from jumar.port.files.words import end_of_word
from jumar.port.options import Options
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Change, Effort, Finding, Kind, Severity, Words

_NAMES = "|".join(COUNTERPARTS)
_VARIABLE = lazy_pattern(rf"(?P<flag>(?<!\S)(?:-e|--env)[ =])?(?<![\w$\"'{{])(?P<name>{_NAMES})=")
_PUT_ASIDE = lazy_pattern(
    rf"(?P<head>(?<!\S)[A-Za-z_]\w*=[\"'])(?P<name>{_NAMES})=(?P<value>[^\s\"';&|)`]*)(?=[\s\"'])"
)
"""Stored in a variable for a later command: `cards="CUDA_VISIBLE_DEVICES=$1"`."""
_REFERENCE = lazy_pattern(rf"\$\{{?(?P<name>{_NAMES})\b")
_WITH_DEFAULT = lazy_pattern(rf"(?<!:-)\$\{{(?P<name>{_NAMES}):?-[^{{}}]*\}}")
"""A variable that may be set from outside: `${CUDA_VISIBLE_DEVICES:-0}`."""
_EXPORT = lazy_pattern(rf"(?P<head>^\s*export\s+(?:\w+\s+)*?)(?P<name>{_NAMES})(?=\s|;|$)(?!\s*=)")
_DECLARES = lazy_pattern(
    r"(?P<word>\b(?:export|declare(?:\s+-\w+)*|typeset|local|readonly)\s+)[^;&|]*$"
)
_TAKES_WORDS = lazy_pattern(r"(?:^|[\s;&|(])env\s[^;&|]*$")
"""The shell expands all words of `env A=$(x) B=$A` before it sets the first."""
_DEVICE_VALUE = r"(?P<value>cuda(?::\d+(?:[ ,]cuda:\d+)*)?|nccl)"
_OPTION = lazy_pattern(
    r"(?<![\w/])(?P<option>--?[A-Za-z][\w.-]*|\+?[A-Za-z_][\w.]*(?==))(?P<joint>[= ]|\s+)"
    r"(?P<quote>[\"']?)(?P<default>\$\{\w+:?[-=])?"
    rf"{_DEVICE_VALUE}(?(default)\}})(?P=quote)(?![\w./:-])"
)
_BUILDS = lazy_pattern(
    r"(?:^|[\s;&|(!])(?:cmake|make|ninja|meson|bazel|nvcc|configure|(?:docker|podman)(?:\s+\w+)*\s+build)\s"
)
_ASKS = "import torch; print({})"
_ACCELERATOR = 'torch.accelerator.current_accelerator() or "cuda"'
"""A machine that only submits the command, perhaps without torch, leaves it as it was."""
_OF_THIS_MACHINE = {
    "cuda": _ASKS.format(_ACCELERATOR),
    "nccl": _ASKS.format(f"torch.distributed.get_default_backend_for_device({_ACCELERATOR})"),
}
_ON_NPU = {"cuda": "npu", "nccl": "hccl"}
_ASKS_PYTHON = lazy_pattern(r"\s-c\s+[\"'].*\bimport torch\b")
_OF_TORCH = lazy_pattern(r"\btorch\.cuda\.(?=(?:device_count|is_available)\(\))")
"""What `python -c 'import torch; print(torch.cuda.device_count())'` asks."""
_NCCL = lazy_pattern(r"(?<![\w$\"'{])(?P<name>(?:TORCH_)?NCCL_[A-Z0-9_]+)=")


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
    port: Callable[[int, str], str],
    code: str,
    edits: LineEdits,
) -> str:
    """Replace the given lines (number from 0, text) with what `port` makes of them."""
    parts = split_lines(text)
    for number, line in lines:
        ported = port(number, line)
        if ported != line:
            edits.change(code, number + 1, line, ported)
            parts[number] = ported
    return "".join(parts)


def command(line: str, options: Options) -> str:
    """One shell line with the variables it sets ported; its options name devices as before."""
    line = _with_counterparts(line, options)
    line = _PUT_ASIDE.sub(partial(_put_aside, line=line, options=options), line)
    line = _EXPORT.sub(partial(_exported, line=line, options=options), line)
    line = EVERY_CARD.sub(r"\g<head>auto", line)
    if _ASKS_PYTHON.search(line) and (options.npu_only or options.has_accelerator):
        line = _OF_TORCH.sub("torch.npu." if options.npu_only else "torch.accelerator.", line)
    if not any(f"{target}=" in line for target in COUNTERPARTS.values()):
        line = COMMAND_IN_TEXT.sub(lambda m: in_command(m, npu_only=options.npu_only), line)
    if not options.npu_only:
        line = _WITH_DEFAULT.sub(lambda m: f"${{{COUNTERPARTS[m['name']]}:-{m[0]}}}", line)
    if options.npu_only:
        line = _REFERENCE.sub(lambda m: m[0].replace(m["name"], COUNTERPARTS[m["name"]]), line)
        line = _OPTION.sub(lambda m: _renamed(m) if _is_device(m) else m[0], line)
    return line


def _with_counterparts(line: str, options: Options) -> str:
    parts: list[str] = []
    done = 0
    for match in _VARIABLE.finditer(line):
        end = end_of_word(line, match.end())
        value = line[match.end() : end]
        target = COUNTERPARTS[match["name"]]
        if end is None or value.strip("\"'") in ("", "-1") or f"{target}=" in line:
            continue
        flag = match["flag"] or ""
        if options.npu_only:
            parts += (line[done : match.start()], f"{flag}{target}={value}")
        else:
            parts += (line[done:end], _second(match, line, value, target))
        done = end
    return "".join((*parts, line[done:]))


def _second(match: re.Match[str], line: str, value: str, target: str) -> str:
    """The counterpart with the same value; a command inside the value runs only once."""
    head = line[: match.start()]
    flag = match["flag"] or ""
    runs = "`" in value or re.search(r"\$\((?!\()", value) is not None
    if not runs or flag or _TAKES_WORDS.search(head):
        return f" {flag}{target}={value}"
    declares = _DECLARES.search(head)
    same = f'{target}="${match["name"]}"'
    return f"; {declares['word']}{same}" if declares else f" {same}"


def _put_aside(match: re.Match[str], line: str, options: Options) -> str:
    name, value = match["name"], match["value"]
    target = COUNTERPARTS[name]
    if value in ("", "-1") or f"{target}=" in line:
        return match[0]
    ported = f"{target}={value}"
    return match["head"] + (ported if options.npu_only else f"{name}={value} {ported}")


def _exported(match: re.Match[str], line: str, options: Options) -> str:
    """`export NAME` of a variable that was set before."""
    target = COUNTERPARTS[match["name"]]
    if re.search(rf"\b{target}\b", line):
        return match[0]
    return match["head"] + (target if options.npu_only else f"{match['name']} {target}")


def _is_device(match: re.Match[str]) -> bool:
    if _BUILDS.search(match.string[: match.start()]):
        return False
    key = re.split(r"[.]", match["option"].lstrip("-+"))[-1].replace("-", "_")
    return key.lower().endswith("backend") if match["value"] == "nccl" else is_device_name(key)


def _renamed(match: re.Match[str]) -> str:
    head, _, tail = match[0].rpartition(match["value"])
    return f"{head}{_ON_NPU.get(match['value']) or match['value'].replace('cuda', 'npu')}{tail}"


def asked(line: str, is_literal: Callable[[int], bool] = lambda _: False) -> str:
    """A shell line whose options ask torch for the device; not where quotes keep the text as it is."""

    def one(match: re.Match[str]) -> str:
        word, colon, rest = match["value"].partition(":")
        if not _is_device(match) or "cuda" in rest or is_literal(match.start()):
            return match[0]
        python = "python3" if re.search(r"\bpython3\b", line) else "python"
        head, _, tail = match[0].rpartition(match["value"])
        if match["quote"] == "'":
            head, tail = f'{head[:-1]}"', '"'
        return f"{head}$({python} -c '{_OF_THIS_MACHINE[word]}' || echo {word}){colon}{rest}{tail}"

    return _OPTION.sub(one, line)


def still_cuda(
    line: str, number: int, code: str, edits: LineEdits, severity: Severity, *, named: str = ""
) -> None:
    """Report options that name CUDA in a line and stay; `named` is how they must start."""
    if "cuda" not in line and "nccl" not in line:
        return
    for match in _OPTION.finditer(line):
        if _is_device(match) and match["option"].startswith(named):
            names_cuda(line, number, code, edits, match[0], _renamed(match), severity)


def unfinished(line: str, number: int, code: str, edits: LineEdits) -> None:
    """Report variables that stay because their value goes on in the next line."""
    for match in _VARIABLE.finditer(line):
        if end_of_word(line, match.end()) is None:
            target = COUNTERPARTS[match["name"]]
            names_cuda(line, number, code, edits, match["name"], target, Severity.WORK)


def names_cuda(
    line: str, number: int, code: str, edits: LineEdits, told: str, on_npu: str, severity: Severity
) -> None:
    """Report a setting for CUDA that stays because GPUs need it."""
    edits.find(
        code,
        number,
        line,
        told,
        FOR_GPUS,
        on_npus(on_npu),
        severity=severity,
    )


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
