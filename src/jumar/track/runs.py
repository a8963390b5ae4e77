"""Runs that a script tracks itself: the notes of one (`jumar_start/run_notes.py`) to curves.

A job can write anything into its notes: lines that are none are left out."""

import json
import math
from typing import cast

from jumar.track.lines import MOST_LENGTH, WORDS, Reading
from jumar.track.reading import LineReader

Parameters = dict[str, float | str]
MOST_PARAMETERS = 500
_MOST_TEXT = 200


class RunReader(LineReader):
    """The curves, the name and the parameters of one run."""

    def __init__(self) -> None:
        super().__init__()
        self.experiment = ""
        self.parameters: Parameters = {}

    def _lines(self, text: bytes) -> None:
        for line in text.split(b"\n"):
            self._line(line)

    def _line(self, line: bytes) -> None:
        if len(line) > MOST_LENGTH:
            return
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict):
            return
        note = cast("dict[str, object]", said)
        if "metrics" in note:
            self._metrics(note)
        elif "metric" in note:
            name = curve_name(str(note["metric"]), note.get("context"))
            self._add({name: note.get("value")}, note)
        elif "parameter" in note:
            self._parameter(str(note["parameter"]), note.get("value"))
        elif "experiment" in note:
            self.experiment = str(note["experiment"])[:_MOST_TEXT]

    def _metrics(self, note: dict[str, object]) -> None:
        values = note["metrics"]
        if isinstance(values, dict):
            self._add(
                {
                    name[:_MOST_TEXT]: value
                    for name, value in cast("dict[str, object]", values).items()
                },
                note,
            )

    def _add(self, values: dict[str, object], note: dict[str, object]) -> None:
        found = {
            name: number
            for name, value in values.items()
            # Steps are what the others stand over.
            if name.rpartition("/")[2] not in WORDS.steps and (number := _number(value)) is not None
        }
        step, epoch = _place(note.get("step")), _place(note.get("epoch"))
        time = _place(note.get("time"))
        reading = Reading(found, step, epoch if step is None else None)
        self.curves.add(reading, math.nan if time is None else time)

    def _parameter(self, name: str, value: object, depth: int = 0) -> None:
        if isinstance(value, dict) and depth < 4:
            for inner, what in cast("dict[str, object]", value).items():
                self._parameter(f"{name}.{inner}", what, depth + 1)
        elif len(self.parameters) < MOST_PARAMETERS or name in self.parameters:
            number = None if isinstance(value, bool) else _number(cast("object", value))
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self.parameters[name[:_MOST_TEXT]] = text[:_MOST_TEXT] if number is None else number


def curve_name(metric: str, context: object) -> str:
    """`train/loss` for `loss` in the context `{"subset": "train"}`."""
    words = list(cast("dict[str, object]", context).values()) if isinstance(context, dict) else []
    return "/".join([*(str(word) for word in words), metric])[:_MOST_TEXT]


def _number(value: object) -> float | None:
    """A number, NaN and infinity among them."""
    if isinstance(value, int) and abs(value) > 1e300:
        return None
    return float(value) if isinstance(value, int | float) else None


def _place(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and math.isfinite(number) else None
