"""The card of a model that a training made: where it comes from, in words and in the head that the
Hugging Face libraries read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

MARK = "<!-- written by jumar; it is replaced when this model is published again -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """How good it became."""

    name: str
    best: float | None
    last: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What made a model."""

    job: str
    name: str
    user: str
    state: str
    command: str
    code: str
    """Repository and commit, or what else is known."""
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    """Inputs, at a revision where they have one."""
    parameters: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    metrics: Sequence[Metric] = ()
    proof: Mapping[str, Any] | None = None
    """Of the port that its code is, as the port's report has it."""


def model_card(title: str, origin: Origin) -> str:
    """A README for the repository."""
    sections = [
        _list("Training", _training(origin)),
        _list("Data", origin.data),
        _table(
            "Parameters", ("name", "value"), [(n, str(v)) for n, v in origin.parameters.items()]
        ),
        _list("Environment", origin.environment),
        _table(
            "Metrics",
            ("metric", "best", "last"),
            [(one.name, _number(one.best), _number(one.last)) for one in origin.metrics],
        ),
        _proof(origin.proof),
    ]
    body = "\n\n".join(section for section in sections if section)
    return f"{_head(title, origin)}\n{MARK}\n\n# {_plain(title)}\n\n{body}\n"


def _head(title: str, origin: Origin) -> str:
    values: dict[str, Any] = {"tags": ["jumar"]}
    used = [text for text in origin.data.values() if text.startswith("hub://dataset/")]
    if used:
        values["datasets"] = sorted({text.split("/", 3)[3].split("@")[0] for text in used})
    results = [
        {"type": one.name, "name": one.name, "value": one.best}
        for one in origin.metrics
        if one.best is not None
    ]
    if results:
        task = {"type": "other"}
        dataset = {"type": "other", "name": ", ".join(origin.data.values()) or "unknown"}
        result = {"task": task, "dataset": dataset, "metrics": results}
        values["model-index"] = [{"name": title, "results": [result]}]
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}---"


def _training(origin: Origin) -> dict[str, str]:
    return {
        "job": f"{origin.name} ({origin.job}), {origin.state}, of {origin.user}",
        "code": origin.code,
        "command": origin.command,
    }


def _list(title: str, values: Mapping[str, str]) -> str:
    lines = [f"- {_plain(name)}: {_code(value)}" for name, value in values.items() if value]
    return "\n".join([f"## {title}", "", *lines]) if lines else ""


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [_row(header), _row(["---"] * len(header)), *(_row(map(_plain, row)) for row in rows)]
    return "\n".join([f"## {title}", "", *lines])


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _proof(proof: Mapping[str, Any] | None) -> str:
    if proof is None:
        return ""
    words = "the port computes the same as the original" if proof.get("equal") else "not proven"
    told = {
        "verdict": f"{proof.get('verdict')}: {words}",
        "steps compared": str(proof.get("steps", "")),
        "largest difference": json.dumps(proof.get("largest")),
        "equal to the last bit": "yes" if proof.get("bitwise") else "no",
    }
    return _list("Proof of the port", told)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _plain(text: str) -> str:
    """One line that is no markup: names come from logs and command lines."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)[:500]
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in line)


def _code(text: str) -> str:
    line = "".join(letter if letter.isprintable() else " " for letter in text)[:2000]
    fence = "`" * (1 + max((len(run) for run in _runs(line)), default=0))
    return f"{fence} {line} {fence}"


def _runs(line: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in line).split() if run]
