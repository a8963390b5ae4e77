"""The port as one patch, to read, to send, or to apply with git."""

from pathlib import Path

from jumar.port.linediff import added, unified
from jumar.port.records import FileResult
from jumar.port.report.summary import Report


def render(report: Report) -> str:
    """A patch of every changed file, helper files included."""
    parts = [_one(report.root, result) for result in report.results if result.ported is not None]
    parts += [
        added(path, _text(data)) for path, data in report.added if not (report.root / path).exists()
    ]
    return "".join(parts)


def _one(root: Path, result: FileResult) -> str:
    assert result.ported is not None
    before = (root / result.path).read_bytes()
    return unified(result.path, _text(before), _text(result.ported))


def _text(data: bytes) -> str:
    # Surrogates preserve any bytes, so that the patch works for files in every encoding.
    return data.decode("utf-8", errors="surrogateescape")
