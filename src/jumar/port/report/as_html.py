"""The report as one self-contained page, in both languages: verdict, what to do, what was done."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from jumar.port.catalogue import State
from jumar.port.records import Change, Effort, FileResult, Severity, Words
from jumar.port.report.as_patch import Block, blocks
from jumar.port.report.summary import Code, Report

if TYPE_CHECKING:
    from jumar.port.trial_report import TrialReport

_CONTEXT = 2
_SEVERITIES = {
    Severity.WORK: Words("needs work", "需处理"),
    Severity.LIMIT: Words("limit", "有限制"),
    Severity.INFO: Words("note", "提示"),
}
_EFFORTS = {
    Effort.NONE: Words("nothing to do", "无需处理"),
    Effort.MINUTES: Words("minutes", "分钟级"),
    Effort.HOURS: Words("hours", "小时级"),
    Effort.REWRITE: Words("a rewrite", "需重写"),
}
_STATES = {
    State.SUPPORTED: Words("supported", "支持"),
    State.LIMITED: Words("supported with limits", "支持（有限制）"),
    State.UNSUPPORTED: Words("unsupported", "不支持"),
    State.NOT_VERIFIED: Words("not verified", "未验证"),
    State.NOT_TORCH: Words("not a torch API", "非 torch 接口"),
    State.NEUTRAL: Words("neutral", "无关"),
}


class _Row(NamedTuple):
    """A line next to the line that replaces it; a missing side is empty."""

    old_line: int | str
    old: str
    new_line: int | str
    new: str
    is_change: bool


class _ChangedFile(NamedTuple):
    path: str
    changes: tuple[Change, ...]
    codes: list[str]
    rows: Iterator[_Row | None]
    """Lines side by side; None where unchanged lines are left out."""


def render(report: Report) -> str:
    """The page about a port."""
    page = _templates().get_template("report.html")
    return page.render(
        name=report.name,
        report=report,
        options=report.options,
        mood=_mood(report),
        counts=report.outside_tests,
        decisions=report.decisions,
        changed=_changed_files(report),
        doubtful=[row for row in report.apis if row.api.state is not State.SUPPORTED],
        **_of_runs(report.proof, report.trial),
    )


def _of_runs(*found: object) -> dict[str, object]:
    """What templates about proofs and trials need; most ports have neither, and loading it takes a while."""
    if not any(found):
        return {}
    from jumar.port.report import evidence

    return evidence.WORDS


def _mood(report: Report) -> str:
    """The colour of the headline; a proven port is never shown as broken."""
    code, is_proven = report.verdict.code, report.proof is not None and report.proof.equal
    if code is Code.NEEDS_WORK:
        return "limit" if is_proven else "work"
    return "ready" if code is Code.READY and not report.counts[Severity.LIMIT] else "ported"


def trial_page(name: str, found: "TrialReport") -> str:
    """The page about a trial of code that was not ported."""
    page = _templates().get_template("trial_page.html")
    return page.render(name=name, found=found, **_of_runs(found))


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, in a folder that only this user may write: compiling them takes longer than a small port."""

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except Exception:  # noqa: BLE001  one that is cut or damaged may raise anything, and is made anew
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    try:
        # Python's last resort for temporary files is the folder of the user's own work.
        return _Compiled() if tempfile.gettempdir() != os.getcwd() else None
    except (OSError, RuntimeError):  # no folder for temporary files, or one that is somebody else's
        return None


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("jumar.port.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=_compiled(),
    )
    environment.filters["size"] = _size
    cast("dict[str, Any]", environment.globals).update(
        severities=_SEVERITIES,
        efforts=_EFFORTS,
        states=_STATES,
        both=_both,
    )
    return environment


def _both(en: str, zh: str) -> Markup:
    """A sentence in both languages, of which the page shows one."""
    return Markup('<span class="en">{}</span><span class="zh">{}</span>').format(en, zh)


def _changed_files(report: Report) -> Iterator[_ChangedFile]:
    for result in report.results:
        if result.ported is not None:
            codes = sorted({change.code for change in result.changes})
            rows = _rows(report.root, result, result.ported)
            yield _ChangedFile(result.path, result.changes, codes, rows)


def _rows(root: Path, result: FileResult, ported: bytes) -> Iterator[_Row | None]:
    before = _lines((root / result.path).read_bytes())
    after = _lines(ported)
    shown = 0
    for block in blocks(before, after):
        between = block.a1 - shown
        if between > _CONTEXT:
            yield None
        yield from _block_rows(before, after, block, min(between, _CONTEXT))
        shown = block.a2


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").splitlines()


def _block_rows(before: list[str], after: list[str], block: Block, context: int) -> Iterator[_Row]:
    for back in range(context, 0, -1):
        old, new = _side(before, block.a1 - back, block.a1), _side(after, block.b1 - back, block.b1)
        yield _Row(*old, *new, is_change=False)
    for step in range(max(block.a2 - block.a1, block.b2 - block.b1)):
        old = _side(before, block.a1 + step, block.a2)
        new = _side(after, block.b1 + step, block.b2)
        yield _Row(*old, *new, is_change=True)


def _side(lines: list[str], index: int, end: int) -> tuple[int | str, str]:
    return (index + 1, lines[index]) if 0 <= index < end else ("", "")


def _size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} GiB"
