"""Every file of a report folder."""

from collections.abc import Iterator

from jumar.port.report import as_html, as_json, as_patch, as_sarif, vendor
from jumar.port.report.summary import Report


def every(report: Report) -> Iterator[tuple[str, str]]:
    """Name and text of each file of the report."""
    yield "report.html", as_html.render(report)
    yield "report.json", as_json.render(report)
    yield "report.sarif", as_sarif.render(report)
    yield "port.patch", as_patch.render(report)
    yield from vendor.files(report)
