"""A download in ranges, whoever remembers it: the one way for everybody who fetches big objects.

The file is made of steps, each with a checksum; one request fetches several. A step that is complete is
not fetched again, neither when its request breaks nor, if it is remembered, by the next try."""

import hashlib
import os
import threading
from functools import partial
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from .answers import Kept
from .checksum import Crc32, Digest, is_damaged, parts_in_tag
from .client import S3
from .crew import Crew
from .parts import PART_BYTES

# Whole parts, as we send them, so that servers that store parts read none of them twice.
RANGE_BYTES = 2 * PART_BYTES
STEP_BYTES = 1 << 20
# Small enough to still be in the CPU cache when it is written.
_BUFFER_BYTES = 1 << 18
# Smaller writes cost more; larger ones request large pages, which are expensive when memory is full of
# cached files.
_WRITE_BYTES = 1 << 17


class NoRanges(Exception):
    """The server sends the whole object, whatever it is asked for."""


class Steps:
    """What is remembered of a download, so that a later try can go on with it; here, nothing."""

    def read(self, identity: str) -> Dict[int, bytes]:
        """The checksums of the steps that an earlier try has fetched of the same object."""
        return {}

    def begin(self, identity: str, digests: Dict[int, bytes]) -> None:
        """Remember these, and no others."""

    def add(self, number: int, digest: bytes) -> None:
        """Remember one more."""

    def forget(self) -> None:
        """What was fetched is of no use."""


class Manner(NamedTuple):
    """How whoever fetches speaks to the server, and what its errors are called there."""

    ask: Callable[[Callable[[], Any]], Any]
    """Makes requests, and again while the server is away; its errors are the caller's."""
    write: Callable[[int, memoryview, int], None]
    """Writes to an open file at a place, as `write_at` does; its errors are the caller's."""
    damaged: Callable[[], Exception]
    """The error for bytes that are not those of the object."""
    replaced: Callable[[], Exception]
    """The error for an object that became another one meanwhile."""
    crew: Crew
    stop: Any = None
    arrived: Callable[[int], None] = lambda _: None
    """Told of bytes that arrived; negative if they must be fetched again."""
    resumed: Callable[[int], None] = lambda _: None
    """Told of bytes that need not be fetched again."""


class Ranged:
    """The download of one object in ranges."""

    def __init__(self, s3: S3, place: Tuple[str, str], manner: Manner, steps: Steps) -> None:
        """Asks the server what it knows of the object."""
        self._s3 = s3
        self._place = place
        self._manner = manner
        self._steps = steps
        self.kept: Kept = manner.ask(lambda: s3.kept(*place))
        # Only the tag of an object in parts needs MD5s of the ranges, of just those parts.
        self._by_parts = self.kept.crc32 is None and parts_in_tag(self.kept.etag) is not None
        self._step_bytes = STEP_BYTES
        if self._by_parts:
            self._step_bytes = manner.ask(lambda: s3.part_bytes(*place)) or PART_BYTES
        self._count = -(-self.kept.size // self._step_bytes)
        # Concurrent writers of one file wait in the kernel, and burn a core while they do.
        self._writing = threading.Lock()

    @property
    def identity(self) -> str:
        """What must be the same to go on with an earlier try."""
        kind = "md5" if self._by_parts else "crc32"
        return f"{self.kept.etag} {self.kept.size} {self._step_bytes} {kind}"

    def earlier(self, file: int) -> Dict[int, bytes]:
        """The steps that an earlier try has left in the open file. After a power failure they may be
        remembered although their bytes are lost: those are left out."""
        listed = self._steps.read(self.identity).items()
        return {n: digest for n, digest in listed if self._digest_at(file, n) == digest}

    def carry(self, file: int, digests: Dict[int, bytes]) -> None:
        """Fetch into an open file all but the steps of `digests`, and check the whole; raises NoRanges if
        that must be fetched in another way."""
        self._manner.resumed(self._bytes_of(digests))
        try:
            self._steps.begin(self.identity, digests)
            missing = (number for number in range(self._count) if number not in digests)
            fetch = partial(self._fetch_run, file, digests)
            self._manner.crew.each(fetch, self._runs(missing), self._manner.stop)
            if self._is_damaged(file, digests):
                self._steps.forget()
                raise self._manner.damaged()
        except BaseException:
            self._manner.arrived(-self._bytes_of(digests))
            raise

    def _bytes_of(self, numbers: Iterable[int]) -> int:
        return sum(self._step(number)[1] for number in numbers)

    def _step(self, number: int) -> Tuple[int, int]:
        """Where a step starts, and its length."""
        start = number * self._step_bytes
        return start, min(self._step_bytes, self.kept.size - start)

    def _runs(self, missing: Iterable[int]) -> List[range]:
        """Consecutive steps, as many as fit into one request."""
        most = max(1, RANGE_BYTES // self._step_bytes)
        runs: List[range] = []
        for number in missing:
            if runs and runs[-1].stop == number and len(runs[-1]) < most:
                runs[-1] = range(runs[-1].start, number + 1)
            else:
                runs.append(range(number, number + 1))
        return runs

    def _fetch_run(self, file: int, digests: Dict[int, bytes], run: range) -> None:
        def fetch() -> None:
            for left in self._runs(number for number in run if number not in digests):
                self._fetch_steps(file, left, digests)

        self._manner.ask(fetch)

    def _fetch_steps(self, file: int, run: range, digests: Dict[int, bytes]) -> None:
        """One request; each step counts as soon as it is complete."""
        manner, at = self._manner, self._step(run.start)[0]
        end = sum(self._step(run[-1]))
        arriving = _Arriving(run.start, self._step, self._new_digest)
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        try:
            with self._s3.get(*self._place, at, end - at) as reading:
                if reading.whole:
                    raise NoRanges
                if reading.etag not in ("", self.kept.etag):
                    raise manner.replaced()
                while at < end:
                    piece = buffer[: reading.readinto(buffer[: end - at])]
                    with self._writing:
                        manner.write(file, piece, at)
                    at += len(piece)
                    manner.arrived(len(piece))
                    for number, digest in arriving.take(piece):
                        self._steps.add(number, digest)
                        digests[number] = digest
                        manner.crew.carried(self._step(number)[1])
        except BaseException:
            manner.arrived(-arriving.unfinished)
            raise

    def _is_damaged(self, file: int, digests: Dict[int, bytes]) -> bool:
        def md5() -> str:
            digest = hashlib.md5()
            _feed(digest, file, 0, self.kept.size)
            return digest.hexdigest()

        ranges = ((digests[n], self._step(n)[1]) for n in range(self._count))
        return is_damaged(self.kept, ranges, md5)

    def _new_digest(self) -> Digest:
        return hashlib.md5() if self._by_parts else Crc32()

    def _digest_at(self, file: int, number: int) -> bytes:
        digest = self._new_digest()
        _feed(digest, file, *self._step(number))
        return digest.digest()


class _Arriving:
    """Consecutive bytes in pieces of any size; yields the checksum of each complete step."""

    def __init__(
        self,
        first: int,
        step: Callable[[int], Tuple[int, int]],
        new_digest: Callable[[], Digest],
    ) -> None:
        self._number = first
        self._step = step
        self._new_digest = new_digest
        self._digest = new_digest()
        self.unfinished = 0
        """Bytes received of the incomplete step."""

    def take(self, data: memoryview) -> Iterator[Tuple[int, bytes]]:
        """Add the next bytes; yields the steps that they complete."""
        while data:
            length = self._step(self._number)[1]
            piece = data[: length - self.unfinished]
            self._digest.update(piece)
            self.unfinished += len(piece)
            data = data[len(piece) :]
            if self.unfinished == length:
                yield self._number, self._digest.digest()
                self._number, self._digest, self.unfinished = (
                    self._number + 1,
                    self._new_digest(),
                    0,
                )


def _feed(digest: Digest, file: int, start: int, length: int) -> None:
    """Add a range of an open file, or as much of it as exists."""
    end = start + length
    while start < end:
        data = os.pread(file, min(_BUFFER_BYTES, end - start), start)
        if not data:
            return
        digest.update(data)
        start += len(data)


def write_at(file: int, data: memoryview, start: int) -> None:
    """Write all of it to an open file, from there on."""
    while data:
        done = os.pwrite(file, data[:_WRITE_BYTES], start)
        data, start = data[done:], start + done
