"""The report as SARIF 2.1.0, which code review and editors show next to the source."""

import json
from typing import Any
from urllib.parse import quote

from jumar.port.records import Finding, Severity
from jumar.port.report.summary import Report
from jumar.port.rules import titles

_LEVELS = {Severity.WORK: "error", Severity.LIMIT: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> str:
    """The findings as one SARIF run."""
    findings = list(report.findings())
    seen: list[dict[str, Any]] = []
    if report.proof is not None or report.trial is not None:
        from jumar.port.report.evidence_sarif import evidence

        seen += evidence(report)
    codes = sorted({f.code for _, f in findings} | {result["ruleId"] for result in seen})
    known = titles()
    rules = [
        {"id": code, "shortDescription": {"text": known[code].en if code in known else code}}
        for code in codes
    ]
    run = {
        "tool": {"driver": {"name": "jumar port", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": report.verdict.code, "summary": report.verdict.en},
        "results": [_result(path, found, codes.index(found.code)) for path, found in findings]
        + [{**result, "ruleIndex": codes.index(result["ruleId"])} for result in seen],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=1)


def _result(path: str, found: Finding, rule_index: int) -> dict[str, Any]:
    return {
        "ruleId": found.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[found.severity],
        "message": {"text": f"{found.why.en} What to do: {found.advice.en}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(path)},
                    "region": {
                        "startLine": found.line,
                        "startColumn": found.column,
                        "endLine": found.end_line,
                    },
                }
            }
        ],
    }
