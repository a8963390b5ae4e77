"""Folder to folder, in the kernel; many files on all cores.

Python threads would block each other here (a small file is just a dozen system calls), so many files
are divided among plain processes that run only `filecopy.py`."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from jumar.errors import JumarError
from jumar.store import filecopy
from jumar.store.errors import TransferFailed
from jumar.store.filecopy import copy_file
from jumar.store.folder import explained
from jumar.store.transfer.records import Progress

_WORTH_PROCESSES = 400
_MOST_PROCESSES = 8
# Files of one folder that go to one process: two that make files in one folder wait for each other.
_DEALT_AT_ONCE = 400
Failed = Callable[[str, JumarError], None]


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """From one folder of this machine to another."""

    source: str
    target: str
    progress: Progress
    failed: Failed
    link: bool
    within: tuple[str, ...] = ()

    def many(self, keys: Iterable[str]) -> None:
        """Copy the files `keys`, under the same keys, while they are found."""
        try:
            os.makedirs(self.target, exist_ok=True)
        except OSError as error:
            raise explained(error, self.target) from error
        left = iter(keys)
        first = list(islice(left, _WORTH_PROCESSES))
        if len(first) == _WORTH_PROCESSES:
            self._share_out(chain(first, left))
            return
        for key in first:
            if self.progress.stop.is_set():
                return
            self.one(key, key)

    def one(self, key: str, to: str) -> None:
        """Copy one file, possibly to another key."""
        place = f"{self.target}/{to}"
        try:
            size = copy_file(f"{self.source}/{key}", place, link=self.link, within=self.within)
        except OSError as error:
            self.failed(key, explained(error, place))
            return
        self.progress.add_file(size)

    def _share_out(self, keys: Iterator[str]) -> None:
        how = "link" if self.link else "copy"
        program = str(Path(filecopy.__file__))
        command = [sys.executable, "-I", "-S", program, self.source, self.target, how, *self.within]
        stop = self.progress.stop
        workers: list[_Worker] = []
        try:
            for _ in range(min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)):
                workers.append(_Worker(command, self.progress, self._fail))
            for some in _by_folder(keys):
                if stop.is_set():
                    return
                min(workers, key=lambda worker: worker.waiting).give(some)
            for worker in workers:
                worker.finish()
        finally:
            for worker in workers:
                worker.end()
        codes = [worker.process.returncode for worker in workers]
        if any(codes) and not stop.is_set():
            raise TransferFailed(f"a copying process failed with exit code {max(codes, key=abs)}")

    def _fail(self, key: str, number: int) -> None:
        error = OSError(number, os.strerror(number))
        self.failed(key, explained(error, f"{self.target}/{key}"))


def _by_folder(keys: Iterator[str]) -> Iterator[list[str]]:
    """Lists of keys, of one folder or of several small ones."""
    some: list[str] = []
    folder = ""
    for key in keys:
        before, folder = folder, key.rpartition("/")[0]
        if len(some) >= _DEALT_AT_ONCE or (len(some) >= _DEALT_AT_ONCE // 4 and folder != before):
            yield some
            some = []
        some.append(key)
    yield some


class _Worker:
    """A process that copies, and the thread that hears what it says."""

    def __init__(
        self, command: list[str], progress: Progress, fail: Callable[[str, int], None]
    ) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._progress = progress
        self._fail = fail
        self._given = self._told = 0
        self._thread = threading.Thread(target=self._hear, name="jumar-copies", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many it was given and has not told of."""
        return self._given - self._told

    def give(self, keys: list[str]) -> None:
        """Have it copy these; one that has died is told of at the end."""
        self._given += len(keys)
        data = memoryview(os.fsencode("".join(f"{key}\0" for key in keys)))
        try:
            while data:
                data = data[os.write(cast("IO[bytes]", self.process.stdin).fileno(), data) :]
        except BrokenPipeError:
            return

    def finish(self) -> None:
        """There is no more to come."""
        cast("IO[bytes]", self.process.stdin).close()

    def end(self) -> None:
        """Wait for the last words of one that was finished; kill one that was not."""
        stdin = cast("IO[bytes]", self.process.stdin)
        if not stdin.closed:
            self.process.kill()
            stdin.close()
        self._thread.join()
        self.process.wait()

    def _hear(self) -> None:
        left, answers = b"", cast("IO[bytes]", self.process.stdout)
        with answers:
            while data := os.read(answers.fileno(), 1 << 16):
                *words, left = (left + data).split(b"\0")
                whole = len(words) // 2 * 2
                for what, number in zip(words[:whole:2], words[1:whole:2], strict=True):
                    self._note(what, int(number))
                left = b"\0".join([*words[whole:], left])
                if self._progress.stop.is_set():
                    self.process.kill()

    def _note(self, what: bytes, number: int) -> None:
        if what.startswith(b"+"):
            self._told += int(what)
            self._progress.add_files(int(what), number)
        else:
            self._told += 1
            self._fail(os.fsdecode(what[1:]), number)
