"""Aim itself, with what its runs track noted for the job's page."""

import functools
from types import ModuleType
from typing import Any

from jumar_start.run_notes import RunNotes

_NOTES = "_jumar_notes"


def install(module: ModuleType) -> None:
    """`module`: aim.sdk.run. Aim does its own work first, so what it refuses is not noted."""
    run: Any = module.Run
    track, set_item = run.track, run.__setitem__

    @functools.wraps(track)
    def noted_track(self: Any, value: Any, *args: Any, **named: Any) -> Any:
        done = track(self, value, *args, **named)
        _notes_of(self).track(value, *args, **named)
        return done

    @functools.wraps(set_item)
    def noted_set_item(self: Any, key: Any, value: Any) -> None:
        set_item(self, key, value)
        # Aim itself sets others, some before the run has a name.
        if isinstance(key, str) and not key.startswith("__"):
            _notes_of(self).parameter(key, value)

    run.track, run.__setitem__ = noted_track, noted_set_item


def _notes_of(run: Any) -> RunNotes:
    found = vars(run).get(_NOTES)
    if found is None:
        found = RunNotes(str(run.hash), str(run.experiment or ""))
        vars(run)[_NOTES] = found
    return found
