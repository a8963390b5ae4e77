"""A job's spec as rows of words, in the order people ask for them; defaults are left out."""

import shlex
from dataclasses import dataclass
from typing import Any, cast

from jumar.spec.records import JobRecord


@dataclass(frozen=True, slots=True)
class Row:
    """One line: its label's key in the catalogue, and what stands there."""

    label: str
    text: str = ""
    words: tuple[str, ...] = ()
    """Keys of the catalogue, shown before the text."""
    pairs: tuple[tuple[str, str], ...] = ()
    is_code: bool = False


_PLAIN = ("workdir", "framework", "image", "time_limit", "requirements", "ckpt")
_PAIRS = ("inputs", "outputs", "environment")


def spec_rows(job: JobRecord) -> list[Row]:
    """What there is to say."""
    spec = job.spec
    command: Any = spec["command"]
    text = command if isinstance(command, str) else _shell(cast("list[str]", command))
    rows = [Row("job.command", text, is_code=True)]
    rows += _code_row(spec.get("code"))
    rows += [Row(f"job.{name}", str(spec[name]), is_code=True) for name in _PLAIN if spec.get(name)]
    rows += _shape_rows(spec)
    for name in _PAIRS:
        pairs = cast("dict[str, str]", spec.get(name) or {})
        if pairs:
            rows.append(Row(f"job.{name}", pairs=tuple(pairs.items())))
    return rows


def _shell(command: list[str]) -> str:
    return " ".join(
        # The shell's own way to put a single quote into single quotes is hard to read.
        f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)
        for word in command
    )


def _code_row(code: Any) -> list[Row]:
    if not code:
        return []
    if isinstance(code, str):
        return [Row("job.code", code, is_code=True)]
    if "archive" in code:
        return [Row("job.code", str(code["archive"])[:12], ("job.uploaded",), is_code=True)]
    return [Row("job.code", f"{code['git']} @ {str(code['commit'])[:12]}", is_code=True)]


def _shape_rows(spec: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    if spec.get("type") == "distributed":
        rows.append(Row("job.type", words=("job.distributed",)))
    if spec.get("ranks") == "device":
        rows.append(Row("job.ranks", words=("job.ranks_device",)))
    if spec.get("auto_port"):
        rows.append(Row("job.auto_port", words=("job.auto_port_yes",)))
    if spec.get("deterministic"):
        rows.append(Row("job.deterministic", words=("job.deterministic_yes",)))
    if spec.get("preemptible"):
        rows.append(Row("job.preemptible", words=("job.preemptible_yes",)))
    if spec.get("segments", 1) != 1:
        rows.append(Row("job.segments", str(spec["segments"])))
    if spec.get("retries"):
        rows.append(Row("job.retries", str(spec["retries"])))
    rows += [Row(f"job.{name}", str(spec[name])) for name in ("cpus", "memory") if spec.get(name)]
    if spec.get("after"):
        rows.append(Row("job.after", ", ".join(cast("list[str]", spec["after"]))))
    if spec.get("endpoints"):
        rows.append(Row("job.endpoints", ", ".join(cast("list[str]", spec["endpoints"]))))
    return rows
