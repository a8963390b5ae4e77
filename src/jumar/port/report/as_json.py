"""The report as JSON: stable names, one object per finding and one per decision."""

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jumar.port.catalogue import State
from jumar.port.records import Change, Finding, Severity
from jumar.port.report.summary import Report

if TYPE_CHECKING:
    from jumar.port.proof import Certificate

FORMAT = 1


def render(report: Report) -> str:
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
            "python_files": report.python_files,
            "changed_files": report.changed_files,
            "changes": report.changes,
            "findings": {str(s): report.count(s) for s in Severity},
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
                "findings": [finding(f) for f in result.findings],
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


def finding(found: Finding) -> dict[str, Any]:
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
