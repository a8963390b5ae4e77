"""The report of a run on simulated NPUs as data, read from the JSON that the simulation writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from jumar.errors import BadInput


class EventKind(StrEnum):
    """What is expensive or would fail on a real card."""

    HOST_OPERATOR = "host-operator"
    REFUSED = "refused"
    COPY_TO_DEVICE = "copy-to-device"
    COPY_TO_HOST = "copy-to-host"
    COPY_BETWEEN_DEVICES = "copy-between-devices"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class TrialEvent:
    """Something that happened at a line of the script, and how often."""

    kind: EventKind
    what: str
    file: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Peak memory of one device, in bytes."""

    device: int
    peak: int
    limit: int


@dataclass(frozen=True, slots=True)
class TrialReport:
    """What a run on simulated NPUs did that matters on real ones."""

    chip: str
    release: str
    mode: str
    steps: int
    events: tuple[TrialEvent, ...]
    operators: Mapping[str, int]
    dtypes: Mapping[str, int]
    bytes_moved: Mapping[str, int]
    memory: tuple[DeviceMemory, ...]

    def of(self, kind: EventKind) -> list[TrialEvent]:
        """The events of one kind, the most frequent first."""
        return [event for event in self.events if event.kind is kind]


def read(document: Mapping[str, Any], root: Path) -> TrialReport:
    """The report in `document`; files below `root` are named relative to it."""
    try:
        events = [
            _event(EventKind.HOST_OPERATOR, {**row, "what": f"aten::{row['name']}"}, root)
            for row in document["host_operators"]
        ]
        events += [_event(EventKind(row["kind"]), row, root) for row in document["events"]]
        return TrialReport(
            chip=document["chip"],
            release=document["release"],
            mode=document["mode"],
            steps=document["steps"],
            events=tuple(events),
            operators=document["operators"],
            dtypes={name.removeprefix("torch."): n for name, n in document["dtypes"].items()},
            bytes_moved=document["bytes_moved"],
            memory=tuple(
                DeviceMemory(row["device"], row["peak"], row["limit"]) for row in document["memory"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"not a trial report: {error!r}") from error


def _event(kind: EventKind, row: Mapping[str, Any], root: Path) -> TrialEvent:
    path = Path(row["file"])
    file = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    return TrialEvent(kind, row["what"], file, row["line"], row["count"])
