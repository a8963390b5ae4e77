"""Curves and parameters of a training, told by the script itself: they are on the page of its job.

    import jumar_track
    jumar_track.log(step, loss=0.12, accuracy=0.97)
    jumar_track.parameters(lr=0.1)

Outside of a job, and with JUMAR_TRACK=off, nothing is done. A training never fails because of it."""

import os
from typing import Any, Mapping, Optional

from jumar_start.beside import quietly
from jumar_start.run_notes import RunNotes
from jumar_start.stopping import rank

_notes: Optional[RunNotes] = None


def log(step: Any = None, values: Optional[Mapping[str, Any]] = None, **metrics: Any) -> None:
    """Values of metrics at a step; as a dictionary where a name is no word of Python: {"val/loss": 1}."""
    notes = _of_this_rank()
    if notes is not None:
        quietly(notes.log)({**(values or {}), **metrics}, step)


def parameters(values: Optional[Mapping[str, Any]] = None, **named: Any) -> None:
    """What the training was given."""
    notes = _of_this_rank()
    if notes is not None:
        quietly(notes.parameters)({**(values or {}), **named})


def _of_this_rank() -> Optional[RunNotes]:
    global _notes
    if _notes is None and os.environ.get("JUMAR_TRACK") != "off":
        # The job's own curves are those of the first rank.
        number = rank(os.environ)
        _notes = RunNotes(f"track-rank{number}", f"rank {number}" if number else "")
    return _notes
