"""What a transfer is asked to do, what it did, how far it is."""

import threading
from dataclasses import dataclass, field

from jumar.store.retry import Patience

MIB = 1 << 20
SMALL_BYTES = MIB
"""Objects up to this size are carried in memory."""
BIG_BYTES = 16 * MIB
"""Objects above this size are carried in parts, several at a time."""
PART_BYTES = 8 * MIB
"""Small, because what is on its way when a client is killed is sent again; whole chunks of SeaweedFS."""
MOST_PARTS = 10_000


def part_bytes(size: int) -> int:
    """The size of the parts of an object: whole MiB, so that there are at most 10,000."""
    needed = -(-size // MOST_PARTS)
    return max(PART_BYTES, -(-needed // MIB) * MIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to copy."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    delete: bool = False
    """Delete in the target what the source does not have."""
    dry_run: bool = False
    link: bool = False
    """Hard links instead of copies, between folders of one file system."""
    again: bool = False
    """Copy also what the target has already."""
    settled_s: float = 0.0
    """Leave for later what was written to within so many seconds."""
    workers: int = 32
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class Failure:
    """One file that was not copied, and why."""

    key: str
    reason: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a transfer did."""

    copied: int = 0
    skipped: int = 0
    deleted: int = 0
    bytes: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    resumed_bytes: int = 0
    """Of `bytes`, what an earlier try had left at the target."""
    failed: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Progress:
    """How far a transfer is; written by many threads, read by whoever draws it."""

    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    resumed_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, files: int, size: int) -> None:
        """What is to be done, beyond what earlier transfers of this progress did."""
        self.total_files, self.total_bytes = self.files + files, self.bytes + size

    def add_bytes(self, count: int) -> None:
        """Some bytes have been carried; less than none when they must be carried again."""
        with self._lock:
            self.bytes += count

    def resume(self, count: int) -> None:
        """Some bytes were there from an earlier try."""
        with self._lock:
            self.bytes += count
            self.resumed_bytes += count

    def add_file(self, size: int = 0) -> None:
        """One file is done, with as many bytes not counted before."""
        with self._lock:
            self.files += 1
            self.bytes += size
