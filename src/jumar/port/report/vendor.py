"""The file set of the vendor's own tool, for scripts that read it.

The same names and columns; the log is split at 1 MB, and ten files are kept."""

import csv
import io
from collections.abc import Iterable, Iterator

from jumar.port.catalogue import State
from jumar.port.records import Kind
from jumar.port.report.summary import Report

LOG_NAME = "msFmkTranspltlog.txt"
LOG_BYTES = 1_000_000
LOG_FILES = 10
_PLACE = ("File", "Start Line", "End Line")


def files(report: Report) -> Iterator[tuple[str, str]]:
    """Every file of the set: name and text."""
    yield "change_list.csv", _table((*_PLACE, "Operation Type", "Message"), _changes(report))
    yield "unsupported_api.csv", _advice(report, Kind.UNSUPPORTED, Kind.PACKAGE)
    yield "unknown_api.csv", _table((*_PLACE, "OP", "Tips"), _unknown(report))
    yield "cuda_op_list.csv", _table(("File", "Api"), _cuda_uses(report))
    yield "api_precision_advice.csv", _advice(report, Kind.PRECISION)
    yield "api_performance_advice.csv", _advice(report, Kind.PERFORMANCE)
    yield from _log(report)


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def _changes(report: Report) -> Iterator[tuple[object, ...]]:
    for result in report.results:
        for c in result.changes:
            message = (
                f"{c.code}: {c.before!r} -> {c.after!r}" if c.before else f"{c.code}: {c.after!r}"
            )
            yield result.path, c.line, c.end_line, c.operation, message


def _advice(report: Report, *kinds: Kind) -> str:
    rows = (
        (path, f.line, f.end_line, f.subject, f"{f.code}: {f.advice.en}")
        for path, f in sorted(report.findings, key=lambda pf: (pf[0], pf[1].line))
        if f.kind in kinds
    )
    return _table((*_PLACE, "OP", "Tips"), rows)


def _unknown(report: Report) -> Iterator[tuple[object, ...]]:
    for row in report.apis:
        if row.api.state is State.NOT_VERIFIED:
            yield row.file, row.line, row.line, row.api.name, "not listed: not verified on NPUs"
    for path, f in report.findings:
        if f.kind is Kind.UNKNOWN:
            yield path, f.line, f.end_line, f.subject, f.why.en


def _cuda_uses(report: Report) -> Iterator[tuple[object, ...]]:
    for result in report.results:
        for use in result.uses:
            if use.name.startswith("torch.cuda."):
                yield result.path, use.name


def _log(report: Report) -> Iterator[tuple[str, str]]:
    """The newest part has no number; older parts are numbered."""
    parts: list[list[str]] = [[]]
    size = 0
    for line in _log_lines(report):
        if size + len(line) > LOG_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += len(line)
    for age, part in enumerate(reversed(parts[-LOG_FILES:])):
        yield LOG_NAME if age == 0 else f"{LOG_NAME}.{age}", "".join(part)


def _log_lines(report: Report) -> Iterator[str]:
    yield f"INFO port {report.name}: {report.files} files, {len(report.python)} Python\n"
    for result in report.results:
        for c in result.changes:
            yield f"INFO {result.path}:{c.line} {c.code} {c.operation}\n"
        for f in result.findings:
            yield f"WARNING {result.path}:{f.line} {f.code} {f.subject}: {f.why.en}\n"
    yield f"INFO {report.verdict.en}\n"
