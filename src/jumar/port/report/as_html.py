"""The report as one self-contained page: the verdict first, then what to do, then what was done."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from jumar.port.catalogue import State
from jumar.port.linediff import Block, blocks
from jumar.port.records import Effort, FileResult, Finding, Severity, Words
from jumar.port.report import evidence_html
from jumar.port.report.html_page import LANGUAGE_BUTTON, both, page, say, search_bar
from jumar.port.report.summary import Report

_CONTEXT = 2
_SEVERITY = {
    Severity.WORK: Words("needs work", "需处理"),
    Severity.LIMIT: Words("limit", "有限制"),
    Severity.INFO: Words("note", "提示"),
}
_EFFORT = {
    Effort.NONE: Words("nothing to do", "无需处理"),
    Effort.MINUTES: Words("minutes", "分钟级"),
    Effort.HOURS: Words("hours", "小时级"),
    Effort.REWRITE: Words("a rewrite", "需重写"),
}
_STATE = {
    State.SUPPORTED: Words("supported", "支持"),
    State.LIMITED: Words("supported with limits", "支持（有限制）"),
    State.UNSUPPORTED: Words("unsupported", "不支持"),
    State.NOT_VERIFIED: Words("not verified", "未验证"),
    State.NOT_TORCH: Words("not torch's", "非 torch 接口"),
    State.NEUTRAL: Words("neutral", "无关"),
}


def render(report: Report) -> str:
    """The page."""
    parts = [
        *_head(report),
        *(evidence_html.proof(report.proof) if report.proof else ()),
        *_findings(report),
        *_changes(report),
        *(evidence_html.trial(report.trial) if report.trial else ()),
        *_apis(report),
    ]
    return page(f"{report.name}: {report.verdict.en}", parts)


def _head(report: Report) -> Iterator[str]:
    work, limits = report.count(Severity.WORK), report.count(Severity.LIMIT)
    tone = "work" if work else "limit" if limits else "ready"
    options = report.options
    version = f"torch {options.torch[0]}.{options.torch[1]}"
    yield f"<header><h1>{escape(report.name)}</h1><span class='soft'>jumar port · {options.mode} · "
    yield f"{version} · {escape(options.chip)}</span>"
    yield f"{LANGUAGE_BUTTON}</header>"
    yield f"<p class='verdict {tone}'>{say(report.verdict)}</p>"
    yield "<div class='tiles'>"
    for number, words in (
        (report.changes, Words("edits", "处修改")),
        (report.changed_files, Words("files changed", "个文件被修改")),
        (report.files, Words("files", "个文件")),
        (work, _SEVERITY[Severity.WORK]),
        (limits, _SEVERITY[Severity.LIMIT]),
        (report.count(Severity.INFO), _SEVERITY[Severity.INFO]),
    ):
        yield f"<div class='tile'><b>{number}</b>{say(words)}</div>"
    yield "</div>"
    yield search_bar(
        f"<button type='button' data-severity='{severity}' aria-pressed='true'>"
        f"{say(_SEVERITY[severity])}</button>"
        for severity in (Severity.WORK, Severity.LIMIT, Severity.INFO)
    )


def _findings(report: Report) -> Iterator[str]:
    yield f"<h2>{both('What to look at', '需要关注')}</h2>"
    found = list(report.findings())
    if not found:
        yield f"<p class='soft'>{both('Nothing.', '无。')}</p>"
    for path, finding in found:
        yield from _finding(path, finding)


def _finding(path: str, f: Finding) -> Iterator[str]:
    text = escape(
        f"{f.code} {path}:{f.line} {f.subject} {f.source} {f.why.en} {f.why.zh}", quote=True
    )
    yield f"<article class='{f.severity}' data-severity='{f.severity}' data-text=\"{text}\">"
    yield f"<span class='tag'>{say(_SEVERITY[f.severity])}</span> <b>{escape(f.subject)}</b> "
    yield f"<code class='soft'>{escape(path)}:{f.line}</code> <span class='soft'>{f.code} · {say(_EFFORT[f.effort])}</span>"
    if f.source:
        yield f"<pre>{escape(f.source)}</pre>"
    yield f"<div>{say(f.why)}</div><div><b>→</b> {say(f.advice)}</div></article>"


def _changes(report: Report) -> Iterator[str]:
    yield f"<h2>{both('What was changed', '修改内容')}</h2>"
    for result in report.results:
        if result.ported is not None:
            yield from _file(report.root, result)


def _file(root: Path, result: FileResult) -> Iterator[str]:
    assert result.ported is not None
    before = _decode((root / result.path).read_bytes())
    after = _decode(result.ported)
    codes = sorted({c.code for c in result.changes})
    text = escape(" ".join([result.path, *codes, *(c.before for c in result.changes)]), quote=True)
    yield f'<details data-text="{text}"><summary><code>{escape(result.path)}</code> '
    yield f"<span class='soft'>{len(result.changes)} · {' '.join(codes)}</span></summary><table class='diff'>"
    yield "<colgroup><col class='n'><col><col class='n'><col></colgroup>"
    shown = -1
    for block in blocks(before, after):
        if block.a1 > shown + 1:
            yield "<tr class='gap'><td colspan='4'>⋯</td></tr>"
        yield from _rows(before, after, block)
        shown = block.a2
    yield "</table></details>"


def _decode(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").splitlines()


def _rows(before: list[str], after: list[str], block: Block) -> Iterator[str]:
    for step in range(_CONTEXT, 0, -1):
        if block.a1 - step >= 0:
            yield _row(block.a1 - step, before, block.b1 - step, after, "")
    size = max(block.a2 - block.a1, block.b2 - block.b1)
    for step in range(size):
        a = block.a1 + step if block.a1 + step < block.a2 else -1
        b = block.b1 + step if block.b1 + step < block.b2 else -1
        yield _row(a, before, b, after, "changed")


def _row(a: int, before: list[str], b: int, after: list[str], tone: str) -> str:
    left = escape(before[a]) if a >= 0 else ""
    right = escape(after[b]) if b >= 0 else ""
    old = " del" if tone and a >= 0 else ""
    new = " add" if tone and b >= 0 else ""
    return (
        f"<tr><td class='n'>{a + 1 if a >= 0 else ''}</td><td class='code{old}'>{left}</td>"
        f"<td class='n'>{b + 1 if b >= 0 else ''}</td><td class='code{new}'>{right}</td></tr>"
    )


def _apis(report: Report) -> Iterator[str]:
    rows = [r for r in report.apis if r.api.state is not State.SUPPORTED]
    yield f"<h2>{both('torch APIs in use', '使用的 torch 接口')}</h2>"
    yield f"<p class='soft'>{both('States from ', '状态来源：')}{escape(report.source_of_states)}</p>"
    yield "<details><summary>" + both(
        f"{len(report.apis)} names, {len(rows)} not plainly supported",
        f"共 {len(report.apis)} 个接口，其中 {len(rows)} 个非完全支持",
    )
    yield "</summary><table class='list'>"
    for row in rows:
        dtypes = (
            f"<span class='soft'>{escape(', '.join(row.api.dtypes))}</span>"
            if row.api.dtypes
            else ""
        )
        yield f"<tr data-text=''><td><code>{escape(row.api.name)}</code></td><td>{say(_STATE[row.api.state])}</td>"
        yield f"<td>{dtypes}</td><td class='soft'>{escape(row.file)}:{row.line} × {row.count}</td></tr>"
    yield "</table></details>"
