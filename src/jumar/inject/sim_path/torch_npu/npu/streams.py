"""Streams and events: all work is done at once and in order, so these only record it."""

import itertools
import threading
import time
from typing import Any, Dict, Optional, Tuple

import torch

from torch_npu._sim import absent, place, refuse
from torch_npu._sim.place import SETTINGS
from torch_npu._sim.record import RECORD
from torch_npu.npu.devices import device_index

_ids = itertools.count(1)


def _refuse(message: str, what: str) -> None:
    if SETTINGS.checks:
        refuse.refuse(RuntimeError, message, what)


class Stream:
    """A queue of work on a device."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        index = kwargs.get("device_index")
        self.device_index = device_index(device) if index is None else index
        self.device = torch.device("npu", self.device_index)
        self.stream_id: int = kwargs["stream_id"] if "stream_id" in kwargs else next(_ids)
        self.device_type = 20
        self._outer: Optional[Any] = None

    @property
    def priority(self) -> int:
        """Taken when a stream is made, but not told."""
        _refuse("NPU dose not support Stream.get_priority() currently.", "Stream.priority")
        return 0

    @staticmethod
    def priority_range() -> Tuple[int, int]:
        """The least and the greatest priority, which the plug-in does not tell either."""
        _refuse("NPU does not support Stream.priority_range() currently.", "Stream.priority_range")
        return 0, 0

    @property
    def npu_stream(self) -> int:
        """A number that names the stream."""
        return self.stream_id

    def synchronize(self) -> None:
        """Wait until its work is done."""
        if SETTINGS.checks:
            RECORD.event("wait", "Stream.synchronize")

    def wait_stream(self, stream: "Stream") -> None:
        """Make later work wait for the work of another stream."""

    def wait_event(self, event: "Event") -> None:
        """Make later work wait for an event."""

    def record_event(self, event: Optional["Event"] = None) -> "Event":
        """Record the time in an event."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether its work is done."""
        return True

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """A hint to the real scheduler."""

    def __enter__(self) -> "Stream":
        self._outer = StreamContext(self)
        self._outer.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._outer is not None:
            self._outer.__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (self.stream_id, self.device_index) == (other.stream_id, other.device_index)

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device_index))

    def __repr__(self) -> str:
        return f"torch_npu.npu.Stream(device={self.device}, npu_stream={self.npu_stream:#x})"


class SyncLaunchStream(Stream):
    """A stream whose work is launched at once; here every one is."""


class ExternalStream(Stream):
    """A stream made elsewhere."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, stream_id=stream_ptr, **kwargs)


class Event:
    """A moment in a stream."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        **kwargs: Any,
    ) -> None:
        self.enable_timing = enable_timing
        self.npu_event = next(_ids)
        self._time: Optional[float] = None

    def record(self, stream: Optional[Stream] = None) -> None:
        """Record the time."""
        self._time = time.perf_counter()

    def wait(self, stream: Optional[Stream] = None) -> None:
        """Let a stream follow this event."""

    def query(self) -> bool:
        """Whether it has passed."""
        return True

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds between two events."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time - self._time) * 1e3

    def recorded_time(self) -> int:
        """Microseconds at which it was recorded, on the clock of the process."""
        if self._time is None:
            raise RuntimeError("The event must be recorded before reading its time.")
        return int(self._time * 1e6)

    def ipc_handle(self) -> bytes:
        """A handle for other processes."""
        absent.refuse("torch_npu.npu.Event.ipc_handle")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> "Event":
        """An event of another process."""
        absent.refuse("torch_npu.npu.Event.from_ipc_handle")

    def synchronize(self) -> None:
        """Wait until it has passed."""
        if SETTINGS.checks:
            RECORD.event("wait", "Event.synchronize")

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Event {self.npu_event:#x}>"


class ExternalEvent(Event):
    """An event that other code records."""

    def reset(self, stream: Optional[Stream] = None) -> None:
        """Make it fresh again."""
        self._time = None


class _Selected(threading.local):
    def __init__(self) -> None:
        self.streams: Dict[int, Stream] = {}


_selected = _Selected()


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another is selected."""
    return Stream(stream_id=0, device_index=device_index(device))


def current_stream(device: Any = None) -> Stream:
    """The selected stream of a device."""
    index = device_index(device)
    return _selected.streams.get(index) or default_stream(index)


def set_stream(stream: Optional[Stream]) -> None:
    """Select a stream, and its device with it."""
    if stream is not None:
        place.set_current_index(stream.device_index)
        _selected.streams[stream.device_index] = stream


class StreamContext:
    """Selects a stream inside a `with` block; None changes nothing."""

    def __init__(self, stream: Optional[Stream]) -> None:
        self.stream = stream
        self._before: Any = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._before = (place.current_index(), current_stream(self.stream.device_index))
        set_stream(self.stream)

    def __exit__(self, *exception: Any) -> None:
        if self.stream is None:
            return
        index, stream = self._before
        set_stream(stream)
        place.set_current_index(index)


def stream(stream: Optional[Stream]) -> StreamContext:
    """Select a stream inside a `with` block."""
    return StreamContext(stream)
