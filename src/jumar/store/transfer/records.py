"""What a transfer should do, what it did, and its progress."""

import threading
from dataclasses import dataclass, field

from jumar.inject.moxing_path.jumar_s3 import Crew, Patience

SMALL_BYTES = 1 << 18
"""Objects up to this size are copied through memory."""
PARTS_AT_A_TIME = 32
FILES_AT_FIRST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to copy."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    delete: bool = False
    """Delete files from the target that the source does not have."""
    dry_run: bool = False
    link: bool = False
    """Hard links instead of copies, between folders of one file system."""
    again: bool = False
    """Also copy what the target already has."""
    settled_s: float = 0.0
    """Skip files modified within the last so many seconds."""
    workers: int = 128
    """At most so many files or parts at a time; fewer where more are no faster."""
    patience: Patience = field(default_factory=Patience)
    within: tuple[str, ...] = ()
    """Where files of a folder may really be, however many links lead elsewhere; empty: anywhere."""


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
    """How many of `bytes` an earlier try had already copied."""
    failed: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Progress:
    """The progress of a transfer; updated by many threads, read by whoever displays it."""

    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    resumed_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    _crew: Crew | None = None
    _most_parts: int = PARTS_AT_A_TIME
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def crew(self) -> Crew:
        """Carries the parts of all big files."""
        with self._lock:
            if self._crew is None:
                self._crew = Crew(self._most_parts)
            return self._crew

    def limit_parts(self, most: int) -> None:
        """Never carry more than this many parts at the same time."""
        self._most_parts = min(PARTS_AT_A_TIME, most)
        if self._crew is not None:
            self._crew.limit(self._most_parts)

    def unseen(self) -> "Progress":
        """One for bytes that are counted already; it stops with this one."""
        return Progress(stop=self.stop, _crew=self.crew)

    def plan(self, files: int, size: int) -> None:
        """Add the work of a transfer to what earlier transfers with this progress did."""
        self.total_files, self.total_bytes = self.files + files, self.bytes + size

    def add_bytes(self, count: int) -> None:
        """Some bytes were copied; negative if they must be copied again."""
        with self._lock:
            self.bytes += count

    def resume(self, count: int) -> None:
        """Some bytes were already there from an earlier try."""
        with self._lock:
            self.bytes += count
            self.resumed_bytes += count

    def found(self, size: int) -> None:
        """One more file is to be copied, found while others are."""
        self.total_files += 1
        self.total_bytes += size

    def add_file(self, size: int = 0) -> None:
        """One file is done; `size` adds bytes that were not counted before."""
        self.add_files(1, size)

    def add_files(self, count: int, size: int) -> None:
        """Some files are done."""
        with self._lock:
            self.files += count
            self.bytes += size
