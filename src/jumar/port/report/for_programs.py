"""The report for programs: as JSON (stable names, one object per finding and one per decision), and as SARIF
2.1.0, which code review and editors show next to the source."""

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jumar.port.catalogue import State
from jumar.port.records import Change, Finding, Severity
from jumar.port.report.summary import Report
from jumar.port.rules import titles

if TYPE_CHECKING:
    from jumar.port.proof import Certificate

FORMAT = 1
_LEVELS = {Severity.WORK: "error", Severity.LIMIT: "warning", Severity.INFO: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(report: Report) -> str:
    """The whole report as one JSON document."""
    return json.dumps(document(report), ensure_ascii=False, indent=1)


def document(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    options = report.options
    return {
        "format": FORMAT,
        "name": report.name,
        "verdict": report.verdict._asdict(),
        "how_to_prove": report.how_to_prove or None,
        "summary": {
            "files": report.files,
            "python_files": len(report.python),
            "changed_files": report.changed_files,
            "changes": report.changes,
            "findings": {str(s): report.counts[s] for s in Severity},
            "findings_in_tests": report.in_tests,
            "work_outside_tests": report.work_outside_tests,
            "apis": {str(s): sum(r.api.state is s for r in report.apis) for s in State},
            "seconds": round(report.seconds, 3),
        },
        "options": {
            "mode": str(options.mode),
            "torch": f"{options.torch[0]}.{options.torch[1]}",
            "chip": options.chip,
        },
        "decisions": decisions(report),
        "files": [
            {
                "path": result.path,
                "changed": result.ported is not None,
                "changes": [_change(c) for c in result.changes],
                "findings": [_finding(f) for f in result.findings],
            }
            for result in report.results
            if result.changes or result.findings
        ],
        "apis": [
            {
                "name": r.api.name,
                "state": str(r.api.state),
                "count": r.times,
                "file": r.file,
                "line": r.line,
            }
            for r in report.apis
        ],
        "states_from": report.source_of_states,
        "proof": _proof(report.proof) if report.proof else None,
        "trial": asdict(report.trial) if report.trial else None,
    }


def decisions(report: Report) -> list[dict[str, Any]]:
    """The findings grouped by decision, as plain data; `files` has each finding in full."""
    return [
        {
            "title": one.title._asdict(),
            "severity": str(one.severity),
            "effort": str(one.effort),
            "in_tests": one.in_tests,
            "why": one.lead.why._asdict(),
            "advice": one.lead.advice._asdict(),
            "places": [
                {
                    "file": place.path,
                    "line": place.finding.line,
                    "code": place.finding.code,
                    "severity": str(place.finding.severity),
                    "in_tests": place.in_tests,
                }
                for place in one.places
            ],
        }
        for one in report.decisions
    ]


def _proof(proof: "Certificate") -> dict[str, Any]:
    # JSON has no NaN or infinity; a loss may be either.
    losses = [
        {name: v if math.isfinite(v) else repr(v) for name, v in asdict(pair).items()}
        for pair in proof.losses
    ]
    largest = proof.largest if math.isfinite(proof.largest) else repr(proof.largest)
    return {**asdict(proof), "equal": proof.equal, "losses": losses, "largest": largest}


def _change(change: Change) -> dict[str, Any]:
    return {
        "code": change.code,
        "line": change.line,
        "end_line": change.end_line,
        "operation": change.operation,
        "before": change.before,
        "after": change.after,
    }


def _finding(found: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    return {
        "code": found.code,
        "severity": str(found.severity),
        "effort": str(found.effort),
        "kind": str(found.kind),
        "line": found.line,
        "end_line": found.end_line,
        "column": found.column,
        "subject": found.subject,
        "source": found.source,
        "why": found.why._asdict(),
        "advice": found.advice._asdict(),
    }


def as_sarif(report: Report) -> str:
    """The findings as one SARIF run."""
    findings = report.findings
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
        "results": [_sarif_result(path, found, codes.index(found.code)) for path, found in findings]
        + [{**result, "ruleIndex": codes.index(result["ruleId"])} for result in seen],
    }
    return json.dumps({"version": "2.1.0", "$schema": _SCHEMA, "runs": [run]}, indent=1)


def _sarif_result(path: str, found: Finding, rule_index: int) -> dict[str, Any]:
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
