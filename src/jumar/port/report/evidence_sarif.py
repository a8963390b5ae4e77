"""What running the port has shown, as SARIF results at lines of the source."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jumar.port.proof import Certificate
from jumar.port.report import proof_text
from jumar.port.report.as_patch import line_before
from jumar.port.report.summary import Report
from jumar.port.trial_report import EventKind

_TRIAL, _PROOF = "JP952", "JP953"
_LEVELS = {EventKind.REFUSED: "warning", EventKind.HOST_OPERATOR: "warning"}


def evidence(report: Report) -> Iterator[dict[str, Any]]:
    """The proof, and what the trial saw."""
    if report.proof is not None:
        yield _proof(report.proof)
    source_line = _Lines(report)
    for event in report.trial.events if report.trial else ():
        if not Path(event.file).is_absolute():
            line = source_line(event.file, event.line)
            text = f"{event.kind} ({event.count} times): {event.what}"
            level = _LEVELS.get(event.kind, "note")
            yield _result(_TRIAL, level, text, f"{event.file}:{line}")


def _proof(proof: Certificate) -> dict[str, Any]:
    words = [proof_text.headline(proof), *proof_text.details(proof)]
    text = " ".join(one.en for one in words)
    if proof.equal:
        return {**_result(_PROOF, "none", text, ""), "kind": "pass"}
    place = proof.origin or proof.difference
    where = place.original_where if place is not None else ""
    return _result(_PROOF, "error" if proof.is_the_ports_fault else "note", text, where)


def _result(code: str, level: str, text: str, where: str) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": code, "level": level, "message": {"text": text}}
    file, _, line = where.rpartition(":")
    if file:
        place = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": int(line)}}
        result["locations"] = [{"physicalLocation": place}]
    return result


class _Lines:
    """From lines of the port to those of the source."""

    def __init__(self, report: Report) -> None:
        self._root = report.root
        self._ported = {r.path: r.ported for r in report.results if r.ported is not None}
        self._texts = cache(self._read)

    def __call__(self, file: str, line: int) -> int:
        if file not in self._ported:
            return line
        return line_before(*self._texts(file), line)

    def _read(self, file: str) -> tuple[list[str], list[str]]:
        before = (self._root / file).read_bytes()
        return _split(before), _split(self._ported[file])


def _split(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\n")
