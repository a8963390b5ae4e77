"""What libraries and launchers say is known by the class of what they say."""

from pathlib import Path

import pytest

from jumar.why.events import events_of
from jumar.why.knowledge import Level, causes
from jumar.why.line import read_closer
from jumar.why.reading import lines_of

_OWN = 'Traceback (most recent call last):\n  File "/u/train.py", line 3, in f\n    x()\n'
_ABOVE = {
    "E": _OWN + '  File "/opt/lib/python3.11/site-packages/lib/x.py", line 3, in x\n    y()\n',
    "S": _OWN,
    "L": "",
}


def _known_as(kind: str, message: str) -> str:
    text = _ABOVE[kind] + message.replace("\\n", "\n").replace("\\t", "\t") + "\n"
    found = events_of(lines_of(0, text.encode(), 2026))
    told = [event for event in found if event.level is not Level.WARNING]
    for event in told:
        read_closer(event)
    return min(told, key=lambda event: event.level).cause.name if told else "nothing"


def _rows() -> list[list[str]]:
    lines = Path(__file__).with_name("messages.tsv").read_text("utf-8").splitlines()
    return [line.split("\t", 2) for line in lines if not line.startswith(("#", "cause\t"))]


def test_each_message_is_known() -> None:
    wrong = [
        (cause, known, message)
        for cause, kind, message in _rows()
        if (known := _known_as(kind, message)) != cause
    ]
    assert not wrong


@pytest.mark.parametrize("tail", ["", " and more words of no meaning", ": 0x7f3a (most recent)"])
def test_what_nobody_knows_stays_unknown(tail: str) -> None:
    known = causes()[_known_as("E", f"FooError: blarg 17 quux{tail}")]
    assert known.whose == "unknown"
