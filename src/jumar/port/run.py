"""One port from the folder to the reports: what the command line and other rooms call.

If an earlier run wrote the same source with the same options into the same folder, and nothing has
changed since on either side, the run ends after checking the files' times."""

import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jumar.errors import BadInput
from jumar.port.options import Options, project_settings
from jumar.port.records import Words
from jumar.port.scan import REPORT_FOLDER, Found, scan

if TYPE_CHECKING:
    from jumar.port.report.summary import Evidence, Report
    from jumar.port.tree import TreeResult

Progress = Callable[[int, int], None]
RULES_EDITION = 22
"""Raised whenever a rule or its texts change, so that earlier results are not reused."""
Witness = Callable[["TreeResult"], "Evidence"]
"""Tries a port before it is written, and returns the result."""


class Target(NamedTuple):
    """Where the port goes: a new folder, the source itself, or nowhere."""

    folder: Path | None
    in_place: bool = False


class Outcome(NamedTuple):
    """What a run returns to its caller."""

    verdict: Words
    changes: int
    changed_files: int
    work: int
    seconds: float
    report_dir: Path | None
    report: "Report | None"
    """None if an earlier result was reused."""
    earlier: str = ""
    """The earlier result's report, as JSON."""
    how_to_prove: str = ""
    """The command that would prove the port."""

    @property
    def json(self) -> str:
        """The whole report as one JSON document."""
        from jumar.port.report.for_programs import as_json

        return self.earlier if self.report is None else as_json(self.report)

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """The findings grouped by decision, as in the JSON document."""
        from jumar.port.report import for_programs

        if self.report is None:
            return json.loads(self.earlier)["decisions"]
        return for_programs.decisions(self.report)

    @property
    def needs_attention(self) -> bool:
        """Whether any places outside tests still need manual work."""
        return self.work > 0


class _PausedCollection:
    """Neither modules nor syntax trees have cycles worth collecting; the collector would visit them all
    again and again."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        # What is kept is not visited later either, nor at the end of the process.
        gc.freeze()
        if self._was_on:
            gc.enable()


def port_repository(
    source: Path,
    options: Options,
    *,
    target: Target,
    report_dir: Path | None = None,
    progress: Progress | None = None,
    witness: Witness | None = None,
) -> Outcome:
    """Port a repository and write what was asked for; a witness's evidence goes into the reports."""
    started = time.perf_counter()
    asked, options = options, _with_project_file(source, options)
    found = scan(source, options.exclude)
    reports, key = report_dir, ""
    # Imported here and below: a check writes nothing, and reusing a result needs no rules.
    if target.folder is not None:
        from jumar.port import write

        write.check_target(source, target.folder)
        reports = report_dir or target.folder / REPORT_FOLDER
        key = _key(source, options, found)
        if report_dir is None and witness is None:
            earlier = _reused(target.folder, key, started)
            if earlier is not None:
                return earlier
    with _PausedCollection():
        from jumar.port.report.summary import make
        from jumar.port.tree import port_tree

        result = _adapted(port_tree(source, options, files=found, progress=progress))
    seconds = time.perf_counter() - started
    evidence = witness(result) if witness is not None else None
    report = make(result, seconds, evidence, _again(source, asked, target, report_dir))
    _write(result, report, target, reports, report_dir, key)
    return Outcome(
        Words(report.verdict.en, report.verdict.zh),
        report.changes,
        report.changed_files,
        report.work_outside_tests,
        report.seconds,
        reports,
        report,
        how_to_prove=report.how_to_prove,
    )


def _adapted(result: "TreeResult") -> "TreeResult":
    options = result.options
    if not (options.distributed or options.modelarts or options.xihe):
        return result
    from jumar.port.adapt import apply

    return apply(result)


def _again(
    source: Path, options: Options, target: Target, report_dir: Path | None
) -> tuple[str, ...]:
    """The words of the command that makes this port."""
    words = ["jumar", "port", str(source)]
    if target.folder is not None:
        words += ["-o", str(target.folder)]
    else:
        words.append("--in-place" if target.in_place else "--check")
    if report_dir is not None:
        words += ["--report", str(report_dir)]
    return (*words, *options.as_words())


def _with_project_file(source: Path, options: Options) -> Options:
    settings = project_settings(source)
    options = replace(
        options,
        select=options.select or settings.select,
        ignore=(*options.ignore, *settings.ignore),
        exclude=(*options.exclude, *settings.exclude),
        own_rules=(*options.own_rules, *settings.rules),
    )
    if options.select or options.ignore:
        _refuse_unknown_codes(options)
    return options


def _refuse_unknown_codes(options: Options) -> None:
    from jumar.port.rules import titles

    known = (*titles(), *(rule.code for rule in options.own_rules))
    for wanted in (*options.select, *options.ignore):
        if not any(code.startswith(wanted) for code in known):
            raise BadInput(
                f"no rule starts with {wanted!r}",
                hint="use a code such as JP101, or JP7 for a group",
            )


def _write(
    result: "TreeResult",
    report: "Report",
    target: Target,
    reports: Path | None,
    report_dir: Path | None,
    key: str,
) -> None:
    if target.folder is None and not target.in_place and reports is None:
        return
    from jumar.port import write

    if target.folder is not None:
        manifest: dict[str, Any] = {"key": key, "source": str(result.root.resolve())}
        inside = list(_report_files(report))
        write.write_tree(result, target.folder, inside if report_dir is None else [], manifest)
        if report_dir is not None:
            write.write_reports(report_dir, inside)
        return
    # The reports read the source, so they are made before it is changed.
    texts = list(_report_files(report)) if reports is not None else []
    if target.in_place:
        write.write_in_place(result)
    if reports is not None:
        write.write_reports(reports, texts)


def _report_files(report: "Report") -> Iterator[tuple[str, str]]:
    """Name and text of each file of the report."""
    from jumar.port.report import as_html, as_patch, for_programs, vendor

    yield "report.html", as_html.render(report)
    yield "report.json", for_programs.as_json(report)
    yield "report.sarif", for_programs.as_sarif(report)
    yield "port.patch", as_patch.render(report)
    yield from vendor.files(report)


def _key(source: Path, options: Options, found: list[Found]) -> str:
    import hashlib

    digest = hashlib.sha256(f"{RULES_EDITION} {source.resolve()} {options!r}".encode())
    for one in found:
        digest.update(
            f"\0{one.path}\0{one.size}\0{one.mtime_ns}".encode("utf-8", "surrogateescape")
        )
    return digest.hexdigest()


def _reused(folder: Path, key: str, started: float) -> Outcome | None:
    from jumar.port import write

    manifest = write.read_manifest(folder / REPORT_FOLDER)
    if manifest is None or manifest.get("key") != key:
        return None
    if len(manifest["written"]) == 0 or any(
        not (folder / path).exists() and not (folder / path).is_symlink()
        for path in manifest["written"]
    ):
        return None
    try:
        text = (folder / REPORT_FOLDER / "report.json").read_text("utf-8")
        document = json.loads(text)
    except (OSError, ValueError):
        return None
    summary = document["summary"]
    return Outcome(
        Words(document["verdict"]["en"], document["verdict"]["zh"]),
        summary["changes"],
        summary["changed_files"],
        summary["work_outside_tests"],
        time.perf_counter() - started,
        folder / REPORT_FOLDER,
        None,
        text,
        document["how_to_prove"] or "",
    )
