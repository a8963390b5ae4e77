"""What running the port has shown, as parts of a page: the proof, and the trial on simulated NPUs."""

from collections.abc import Iterator

from markupsafe import escape

from jumar.port.proof import Certificate
from jumar.port.records import Words
from jumar.port.report import proof_text
from jumar.port.report.html_page import both, page, say, tile
from jumar.port.trial_report import EventKind, TrialReport

_MOST_ROWS = 40
_EVENTS = {
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
    mood = "info" if found.equal else "work" if found.is_the_ports_fault else "limit"
    yield f"<h2>{say('Proof', '一致性证明')}</h2>\n<article class='{mood}' data-text='proof'>\n"
    yield f"<b>{both(proof_text.headline(found))}</b>\n"
    yield f"<p class='soft'>{both(proof_text.setting(found))}</p>\n"
    for words in proof_text.details(found):
        yield f"<p>{both(words)}</p>\n"
    for place in (found.origin, found.difference):
        if place is not None and place.source:
            yield f"<pre>{escape(place.where)}  {escape(place.source)}</pre>\n"
    for side, failure in proof_text.failures(found):
        yield f"<p class='soft'>{both(side)}</p>\n"
        if failure.source:
            yield f"<pre>{escape(failure.where)}  {escape(failure.source)}</pre>"
        if failure.tail:
            yield f"<pre>{escape(failure.tail)}</pre>"
    yield from _losses(found)
    yield "</article>\n"


def _losses(found: Certificate) -> Iterator[str]:
    if not found.losses:
        return
    sides = say("step", "步"), say(found.original, found.original), say(found.ported, "模拟 NPU")
    head = "".join(f"<th>{side}</th>" for side in sides)
    yield f"<details><summary>{say('losses', '损失')}</summary><table class='list'>\n<tr>{head}</tr>\n"
    for pair in found.losses[:_MOST_ROWS]:
        yield f"<tr><td>{pair.step}</td><td>{pair.original!r}</td><td>{pair.ported!r}</td></tr>\n"
    yield "</table></details>\n"


def trial_page(name: str, found: TrialReport) -> str:
    """The page about a trial of code that was not ported."""
    return page(name, trial(found))


def trial(found: TrialReport) -> Iterator[str]:
    """What a run on simulated NPUs did that matters on a real card."""
    ran = say(f"mode {found.mode}, {found.steps} steps", f"模式 {found.mode}，{found.steps} 步")
    yield f"<h2>{say('Trial on simulated NPUs', '模拟 NPU 试运行')}</h2>\n"
    yield f"<p class='soft'>{escape(found.chip)} · torch_npu {escape(found.release)} · {ran}</p>\n"
    if not any(event.kind in _GRAVE for event in found.events):
        nothing = say(
            "The run did nothing that a real NPU would refuse or move to the CPU.",
            "没有发现真实 NPU 会拒绝或回退到 CPU 的操作。",
        )
        yield f"<p>{nothing}</p>\n"
    for kind, words in _EVENTS.items():
        yield from _events(found, kind, words)
    yield from _figures(found)


def _events(found: TrialReport, kind: EventKind, words: Words) -> Iterator[str]:
    rows = found.of(kind)
    if not rows:
        return
    moved = found.bytes_moved.get(kind)
    amount = f" · {_size(moved)}" if moved else ""
    is_open = " open" if kind in _GRAVE else ""
    yield f"<details{is_open}><summary>{both(words)} ({len(rows)}{amount})</summary>\n"
    yield "<table class='list'>\n"
    for row in rows[:_MOST_ROWS]:
        yield f"<tr data-text=''><td><code>{escape(row.what)}</code></td>"
        yield f"<td class='soft'>{escape(row.file)}:{row.line} × {row.count}</td></tr>\n"
    yield "</table></details>\n"


def _figures(found: TrialReport) -> Iterator[str]:
    yield "<div class='tiles'>\n"
    for memory in found.memory:
        card = f"npu:{memory.device}"
        yield tile(_size(memory.peak), say(f"peak memory of {card}", f"{card} 峰值显存"))
    yield tile(len(found.operators), say("operators", "种算子")) + "</div>\n"
    yield f"<details><summary>{say('operators in use', '使用的算子')}</summary>\n"
    yield "<table class='list'>\n"
    for name, count in found.operators.items():
        yield f"<tr data-text=''><td><code>{escape(name)}</code></td>"
        yield f"<td class='soft'>{count}</td></tr>\n"
    yield "</table></details>\n"
    yield f"<p class='soft'>dtype: {escape(', '.join(found.dtypes))}</p>\n"


def _size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{amount:.4g} GiB"
