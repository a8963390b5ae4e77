"""What running the port has shown, as parts of the page: the proof, and the trial."""

from collections.abc import Iterator
from html import escape

from jumar.port.proof import Certificate, Verdict
from jumar.port.records import Words
from jumar.port.report import proof_text
from jumar.port.report.html_page import LANGUAGE_BUTTON, both, page, say, search_bar
from jumar.port.trial import EventKind, TrialReport

_MOST_ROWS = 40
_KINDS = {
    EventKind.REFUSED: Words("a real NPU would refuse", "真实 NPU 会拒绝"),
    EventKind.HOST_OPERATOR: Words("no NPU kernel: runs on the CPU", "无 NPU 算子，回退到 CPU"),
    EventKind.COPY_TO_DEVICE: Words("copies to the device", "主机到设备拷贝"),
    EventKind.COPY_TO_HOST: Words("copies to the host", "设备到主机拷贝"),
    EventKind.COPY_BETWEEN_DEVICES: Words("copies between devices", "设备间拷贝"),
    EventKind.WAIT: Words("the host waits for the device", "主机等待设备"),
}
_GRAVE = (EventKind.REFUSED, EventKind.HOST_OPERATOR)


def proof(found: Certificate) -> Iterator[str]:
    """The certificate, or the first difference with its line."""
    grave = found.verdict in (Verdict.DIFFERS, Verdict.PORT_FAILED)
    tone = "info" if found.equal else "work" if grave else "limit"
    yield f"<h2>{both('Proof', '一致性证明')}</h2>"
    yield f"<article class='{tone}' data-text='proof'><b>{say(proof_text.headline(found))}</b>"
    yield f"<p class='soft'>{say(proof_text.setting(found))}</p>"
    yield from (f"<p>{say(words)}</p>" for words in proof_text.details(found))
    for place in (found.origin, found.difference, found.failure):
        if place is not None and place.source:
            yield f"<pre>{escape(place.where)}  {escape(place.source)}</pre>"
    if found.failure is not None and found.failure.tail:
        yield f"<pre>{escape(found.failure.tail)}</pre>"
    yield from _losses(found)
    yield "</article>"


def _losses(found: Certificate) -> Iterator[str]:
    if not found.losses:
        return
    yield f"<details><summary>{both('losses', '损失')}</summary><table class='list'><tr>"
    for words in (("step", "步"), (found.original, found.original), (found.ported, "模拟 NPU")):
        yield f"<th>{both(*words)}</th>"
    yield "</tr>"
    for pair in found.losses[:_MOST_ROWS]:
        yield f"<tr><td>{pair.step}</td><td>{pair.original!r}</td><td>{pair.ported!r}</td></tr>"
    yield "</table></details>"


def trial_page(name: str, found: TrialReport) -> str:
    """A page about a trial of code that was not ported."""
    head = f"<header><h1>{escape(name)}</h1>{LANGUAGE_BUTTON}</header>"
    return page(name, [head, search_bar(), *trial(found)])


def trial(found: TrialReport) -> Iterator[str]:
    """What the run did that matters on a real card."""
    yield f"<h2>{both('Trial on simulated NPUs', '模拟 NPU 试运行')}</h2>"
    yield f"<p class='soft'>{escape(found.chip)} · torch_npu {escape(found.release)} · "
    yield both(f"mode {found.mode}, {found.steps} steps", f"模式 {found.mode}，{found.steps} 步")
    yield "</p>"
    if not any(event.kind in _GRAVE for event in found.events):
        yield "<p>" + both(
            "Nothing that a real NPU would refuse or run on the CPU was seen.",
            "没有发现真实 NPU 会拒绝或回退到 CPU 的操作。",
        )
        yield "</p>"
    for kind, title in _KINDS.items():
        yield from _events(found, kind, title)
    yield from _figures(found)


def _events(found: TrialReport, kind: EventKind, title: Words) -> Iterator[str]:
    rows = found.of(kind)
    if not rows:
        return
    moved = found.bytes_moved.get(kind)
    amount = f" · {_size(moved)}" if moved else ""
    is_open = " open" if kind in _GRAVE else ""
    yield f"<details{is_open}><summary>{say(title)} ({len(rows)}{amount})</summary>"
    yield "<table class='list'>"
    for row in rows[:_MOST_ROWS]:
        yield f"<tr data-text=''><td><code>{escape(row.what)}</code></td>"
        yield f"<td class='soft'>{escape(row.file)}:{row.line} × {row.count}</td></tr>"
    yield "</table></details>"


def _figures(found: TrialReport) -> Iterator[str]:
    yield "<div class='tiles'>"
    for memory in found.memory:
        yield f"<div class='tile'><b>{_size(memory.peak)}</b>"
        yield (
            both(f"peak memory of npu:{memory.device}", f"npu:{memory.device} 峰值显存") + "</div>"
        )
    yield f"<div class='tile'><b>{len(found.operators)}</b>{both('operators', '种算子')}</div></div>"
    rows = "".join(
        f"<tr data-text=''><td><code>{escape(name)}</code></td><td class='soft'>{count}</td></tr>"
        for name, count in found.operators.items()
    )
    yield f"<details><summary>{both('operators in use', '使用的算子')}</summary>"
    yield f"<table class='list'>{rows}</table></details>"
    yield f"<p class='soft'>dtype: {escape(', '.join(found.dtypes))}</p>"


def _size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} GiB"
