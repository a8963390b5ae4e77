"""The report as one self-contained page, in both languages: verdict, what to do, what was done."""

from collections.abc import Iterator
from pathlib import Path

from markupsafe import escape

from jumar.port.catalogue import State
from jumar.port.records import Effort, FileResult, Severity, Words
from jumar.port.report.as_patch import Block, blocks
from jumar.port.report.decisions import Decision, Place
from jumar.port.report.html_page import both, page, say, tile
from jumar.port.report.summary import Code, Report

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


def render(report: Report) -> str:
    """The page about a port."""
    options = report.options
    torch = f"torch {options.torch[0]}.{options.torch[1]}"
    made_with = f"jumar port · {options.mode} · {torch} · {escape(options.chip)}"
    return page(
        report.name,
        _parts(report),
        title=f"{report.name}: {report.verdict.en}",
        subtitle=f"<span class='soft'>{made_with}</span>",
        summary="".join(_summary(report)),
        filters="".join(
            f"<button type='button' data-severity='{severity}' aria-pressed='true'>{both(words)}</button>\n"
            for severity, words in _SEVERITIES.items()
        ),
    )


def _summary(report: Report) -> Iterator[str]:
    verdict = say(report.verdict.en, report.verdict.zh)
    yield f"<p class='verdict {_mood(report)}'>{verdict}</p>\n"
    if report.how_to_prove:
        how = say("To prove it: ", "证明方法：")
        yield f"<p>{how}<code>{escape(report.how_to_prove)}</code></p>\n"
    yield "<div class='tiles'>\n"
    yield tile(report.changes, say("edits", "处修改"))
    yield tile(report.changed_files, say("files changed", "个文件被修改"))
    yield tile(report.files, say("files", "个文件"))
    for severity, words in _SEVERITIES.items():
        yield tile(report.count_outside_tests(severity), both(words))
    if report.in_tests:
        yield tile(report.in_tests, say("in tests", "测试中"))
    yield "</div>\n"


def _mood(report: Report) -> str:
    """The colour of the headline; a proven port is never shown as broken."""
    code, is_proven = report.verdict.code, report.proof is not None and report.proof.equal
    if code is Code.NEEDS_WORK:
        return "limit" if is_proven else "work"
    return "ready" if code is Code.READY and not report.count(Severity.LIMIT) else "ported"


def _parts(report: Report) -> Iterator[str]:
    # Imported here and below: most runs neither prove nor try the port.
    if report.proof is not None:
        from jumar.port.report.evidence_html import proof

        yield from proof(report.proof)
    yield from _decisions(report.decisions)
    yield f"<h2>{say('What was changed', '修改内容')}</h2>\n"
    for result in report.results:
        if result.ported is not None:
            yield from _changed_file(report.root, result, result.ported)
    if report.trial is not None:
        from jumar.port.report.evidence_html import trial

        yield from trial(report.trial)
    yield from _apis(report)


def _decisions(every: list[Decision]) -> Iterator[str]:
    yield f"<h2>{say('What to look at', '需要关注')}</h2>\n"
    outside = [one for one in every if not one.in_tests]
    for one in outside:
        yield from _decision(one)
    if not outside:
        yield f"<p class='soft'>{say('Nothing.', '无。')}</p>\n"
    if len(outside) < len(every):
        yield f"<h2>{say('Only in tests', '仅涉及测试')}</h2>\n"
    for one in every:
        if one.in_tests:
            yield from _decision(one)


def _decision(one: Decision) -> Iterator[str]:
    lead, count = one.lead, len(one.places)
    text = f"{one.title.en} {one.title.zh} {lead.why.en} {lead.why.zh} " + "".join(
        f"{p.finding.code} {p.path}:{p.finding.line} {p.finding.subject} {p.finding.source} "
        for p in one.places
    )
    yield f"<article class='{one.severity}' data-severity='{one.severity}' data-text=\"{escape(text)}\">\n"
    yield f"<span class='tag'>{both(_SEVERITIES[one.severity])}</span> <b>{both(one.title)}</b>\n"
    places = say("1 place" if count == 1 else f"{count} places", f"{count} 处")
    yield f"<span class='soft'>{places} · {both(_EFFORTS[one.effort])}</span>\n"
    yield f"<div>{both(lead.why)}</div><div><b>→</b> {both(lead.advice)}</div>\n"
    if count == 1:
        yield _place(one.places[0])
    else:
        yield f"<details><summary>{say('places', '位置')}</summary>\n"
        yield from (_place(place) for place in one.places)
        yield "</details>\n"
    yield "</article>\n"


def _place(place: Place) -> str:
    found = place.finding
    in_tests = f" · {say('in tests', '测试')}" if place.in_tests else ""
    source = f"<pre>{escape(found.source)}</pre>\n" if found.source else ""
    return (
        f"<div class='place'><code>{escape(place.path)}:{found.line}</code> "
        f"<span class='soft'>{found.code}{in_tests}</span>\n{source}</div>\n"
    )


def _changed_file(root: Path, result: FileResult, ported: bytes) -> Iterator[str]:
    path, count = escape(result.path), len(result.changes)
    codes = " ".join(sorted({change.code for change in result.changes}))
    replaced = " ".join(change.before for change in result.changes)
    yield f'<details data-text="{path} {codes} {escape(replaced)}">\n'
    yield f"<summary><code>{path}</code> <span class='soft'>{count} · {codes}</span></summary>\n"
    yield "<table class='diff'><colgroup><col class='n'><col><col class='n'><col></colgroup>\n"
    before = _lines((root / result.path).read_bytes())
    after = _lines(ported)
    shown = 0
    for block in blocks(before, after):
        between = block.a1 - shown
        if between > _CONTEXT:
            yield "<tr class='gap'><td colspan='4'>⋯</td></tr>\n"
        yield from _rows(before, after, block, min(between, _CONTEXT))
        shown = block.a2
    yield "</table></details>\n"


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").splitlines()


def _rows(before: list[str], after: list[str], block: Block, context: int) -> Iterator[str]:
    """Lines next to those that replace them, below some that stayed."""
    for back in range(context, 0, -1):
        old = _side(before, block.a1 - back, block.a1, "")
        yield f"<tr>{old}\n{_side(after, block.b1 - back, block.b1, '')}</tr>\n"
    for step in range(max(block.a2 - block.a1, block.b2 - block.b1)):
        old = _side(before, block.a1 + step, block.a2, " del")
        yield f"<tr>{old}\n{_side(after, block.b1 + step, block.b2, ' add')}</tr>\n"


def _side(lines: list[str], index: int, end: int, mark: str) -> str:
    if not 0 <= index < end:
        return "<td class='n'></td><td class='code'></td>"
    return f"<td class='n'>{index + 1}</td><td class='code{mark}'>{escape(lines[index])}</td>"


def _apis(report: Report) -> Iterator[str]:
    every = len(report.apis)
    doubtful = [row for row in report.apis if row.api.state is not State.SUPPORTED]
    yield f"<h2>{say('torch APIs in use', '使用的 torch 接口')}</h2>\n"
    source = escape(report.source_of_states)
    yield f"<p class='soft'>{say('States from ', '状态来源：')}{source}</p>\n"
    counted = say(
        f"{every} names, {len(doubtful)} not fully supported",
        f"共 {every} 个接口，其中 {len(doubtful)} 个非完全支持",
    )
    yield f"<details><summary>{counted}</summary>\n<table class='list'>\n"
    for row in doubtful:
        kinds = escape(", ".join(row.api.dtypes))
        dtypes = f"<span class='soft'>{kinds}</span>" if kinds else ""
        state = both(_STATES[row.api.state])
        yield f"<tr data-text=''><td><code>{escape(row.api.name)}</code></td><td>{state}</td>\n"
        yield f"<td>{dtypes}</td><td class='soft'>{escape(row.file)}:{row.line} × {row.times}</td></tr>\n"
    yield "</table></details>\n"
