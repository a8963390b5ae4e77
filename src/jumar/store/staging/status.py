"""The progress of staging: a small file, replaced atomically, that can be read at any time."""

import json
import logging
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from jumar.launch.jobdir.safefile import (
    Unusable,
    object_of,
    optional_text,
    optional_time,
    read_object,
    text,
)
from jumar.spec.records import Carried, StagingRecord
from jumar.spec.text import storable
from jumar.spec.wire import encode
from jumar.store.errors import store_away
from jumar.store.parallel import meanwhile
from jumar.store.transfer.records import Progress
from jumar.wholefile import write_whole

logger = logging.getLogger(__name__)
_TELL_EVERY_S = 1.0
Side = Literal["inputs", "outputs"]


_PHASES = frozenset({"bringing", "brought", "running", "sending", "done", "not-uploaded", "failed"})
_MOST_BYTES = 65536


def read_status(path: Path, top: str = "") -> StagingRecord | None:
    """The progress of staging; None before it began. The job can write there: invalid content, or what is not
    in the folder `top`, counts as results not uploaded, so that they are sent again."""
    try:
        return _record(read_object(str(path), _MOST_BYTES, top))
    except FileNotFoundError:
        return None
    except Unusable as error:
        return _unreadable(error)


def status_of(data: bytes) -> StagingRecord:
    """The same from a file that was read already."""
    try:
        return _record(object_of(data, "the status"))
    except Unusable as error:
        return _unreadable(error)


def _unreadable(error: Unusable) -> StagingRecord:
    return StagingRecord(phase="not-uploaded", error=f"not a staging status: {error}")


def _record(values: dict[str, Any]) -> StagingRecord:
    phase = text(values, "phase")
    if phase not in _PHASES:
        raise Unusable(f"{phase[:40]!r} is not a phase")
    error = optional_text(values, "error")
    return StagingRecord(
        phase=phase,
        inputs=_carried(values.get("inputs")),
        outputs=_carried(values.get("outputs")),
        sent_at=optional_time(values, "sent_at"),
        error=None if error is None else storable(error),
        updated_at=optional_time(values, "updated_at") or 0.0,
    )


def _carried(values: Any) -> Carried | None:
    if values is None:
        return None
    if not isinstance(values, dict):
        raise Unusable("the progress is not given as numbers")
    counts = cast("dict[str, Any]", values)
    known = {field.name: counts.get(field.name, 0) for field in fields(Carried)}
    if not all(type(count) in (int, float) and 0 <= count < 2**63 for count in known.values()):
        raise Unusable("the progress is not given as numbers")
    return Carried(**known)


class StatusFile:
    """Written by one process at a time; each continues from what the previous one wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def tell(self, **changes: Any) -> None:
        """Change some fields of the record."""
        with self._lock:
            known = read_status(self._path) or StagingRecord(phase="bringing")
            record = replace(known, **changes, updated_at=time.time())
            try:
                write_whole(self._path, json.dumps(encode(record)))
            except OSError as error:
                # The disk is full: results must be sent anyway, and missing status counts as unsent.
                logger.warning("cannot write the staging status: %s", error)

    @contextmanager
    def telling(self, phase: str, side: Side, parts: Sequence[Progress]) -> Generator[None]:
        """Write the combined progress of `parts`, or that their store is away, every second and once more
        at the end."""
        began = time.monotonic()

        def tell_now() -> None:
            carried = _sum(parts, time.monotonic() - began)
            self.tell(phase=phase, error=store_away(), **{side: carried})

        def tell_often(over: threading.Event) -> None:
            while not over.wait(_TELL_EVERY_S):
                tell_now()

        self.tell(phase=phase, error=None)
        try:
            with meanwhile(tell_often, "jumar-status"):
                yield
        finally:
            tell_now()


def _sum(parts: Sequence[Progress], seconds: float) -> Carried:
    parts = tuple(parts)
    carried = sum(part.bytes for part in parts)
    cached = sum(part.resumed_bytes for part in parts)
    return Carried(
        files=sum(part.files for part in parts),
        total_files=sum(part.total_files for part in parts),
        bytes=carried,
        total_bytes=sum(part.total_bytes for part in parts),
        cached_bytes=cached,
        bytes_per_s=max(0, carried - cached) / max(seconds, 0.001),
    )
