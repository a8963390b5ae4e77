"""What the supervisors of a job's attempts have noted for people, from its events."""

import json
from contextlib import closing
from typing import Any, cast

from jumar.engine.files import JobFiles
from jumar.errors import EngineFailed, NotFound
from jumar.spec.text import storable

_EVENT = b'"checkpoint"'
_LAST_BYTES = 256 << 10
_MOST = 20
"""Of one attempt."""
_LONGEST = 1000


def checkpoint_notes(files: JobFiles, job_id: str) -> dict[int, tuple[str, ...]]:
    """What became of torn checkpoints, in words, by the number of the attempt that found them."""
    try:
        with closing(files.open_file(job_id, "events.jsonl", elsewhere={})) as file:
            file.seek(max(0, file.seek(0, 2) - _LAST_BYTES))
            data = file.read(_LAST_BYTES) or b""
    except (NotFound, EngineFailed, OSError):
        return {}
    found: dict[int, list[str]] = {}
    for line in data.splitlines():
        if _EVENT in line:
            number, words = _read(line)
            if words and len(found.setdefault(number, [])) < _MOST:
                found[number].append(words)
    return {number: tuple(words) for number, words in found.items()}


def _read(line: bytes) -> tuple[int, str]:
    """The job may have written anything there."""
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError):
        return 0, ""
    event = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    number, words = event.get("attempt"), event.get("words")
    if event.get("event") != "checkpoint" or type(number) is not int or not isinstance(words, str):
        return 0, ""
    return number, " ".join(storable(words[:_LONGEST]).split())
