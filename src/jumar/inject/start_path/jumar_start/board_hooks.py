"""TensorBoard's writers, of torch and of tensorboardX: where they write outside of the job's folder, which
the platform does not look into, their scalars are noted; elsewhere they only write soon."""

import os
import time
from types import ModuleType
from typing import Any, Dict

from jumar_start.beside import follow, quietly
from jumar_start.run_notes import RunNotes

_FLUSH_S = 1.0
_notes: Dict[str, RunNotes] = {}
_flushed: Dict[int, float] = {}


@quietly
def install(module: ModuleType) -> None:
    """`module`: the one that has `SummaryWriter`."""
    follow(module.SummaryWriter, "add_scalar", _note_scalar)
    follow(module.SummaryWriter, "add_scalars", _note_scalars)


def _note_scalar(
    writer: Any, tag: Any, value: Any = None, global_step: Any = None, *_: Any, **named: Any
) -> None:
    _note(writer, {str(tag): named.get("scalar_value", value)}, global_step)


def _note_scalars(
    writer: Any, main_tag: Any, values: Any = None, global_step: Any = None, *_: Any, **named: Any
) -> None:
    found = named.get("tag_scalar_dict", values)
    _note(writer, {f"{main_tag}/{tag}": value for tag, value in found.items()}, global_step)


def _note(writer: Any, values: Dict[str, Any], step: Any) -> None:
    folder = os.path.realpath(getattr(writer, "log_dir", None) or writer.logdir)
    job = os.path.realpath(os.environ.get("JUMAR_JOB_DIR", ""))
    if os.path.commonpath([folder, job]) == job:
        now = time.monotonic()
        if now - _flushed.get(id(writer), 0.0) > _FLUSH_S:
            _flushed[id(writer)] = now
            writer.flush()
        return
    if folder not in _notes:
        _notes[folder] = RunNotes(f"board {folder}", os.path.basename(folder))
    _notes[folder].log(values, step)
