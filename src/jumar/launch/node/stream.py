"""One stream of what all ranks of this node write, line by line, each with its rank in front.

Reads the log files, so a slow reader of the stream never slows a rank, and a killed launcher
loses nothing of the logs."""

import ctypes
import os
import re
import select
from typing import Dict, FrozenSet, List, NamedTuple, Optional

_IN_MODIFY, _IN_CREATE = 0x2, 0x100
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_BLOCK = 65536
_MOST_BLOCKS = 16
_LINE_END = re.compile(rb"(?<=\n)|(?<=\r)(?!\n)")


class Logs(NamedTuple):
    """The log files of this node: known once the nodes have met, to another process than the one
    that prints."""

    folder: str
    first_rank: int
    """The number of local rank 0."""
    older: Dict[str, int]
    """Bytes that each log has from earlier runs."""

    @classmethod
    def of(cls, folder: str, first_rank: int) -> "Logs":
        """Before any rank of this run writes."""
        sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in _logs(folder)}
        return cls(folder, first_rank, sizes)


class _Source(NamedTuple):
    descriptor: int
    prefix: bytes
    rank: Optional[int]


class Stream:
    """Follows the `*.log` files of one folder and writes them to a descriptor."""

    def __init__(self, logs: Logs, output: Optional[int], shown: Optional[FrozenSet[int]]) -> None:
        """`shown`: the local ranks whose lines are printed; None: all, and what is no rank."""
        self._folder = logs.folder
        self._output = output
        self._local = shown
        self._shown = self._numbers(logs)
        self._older = logs.older
        self._sources: Dict[str, _Source] = {}
        self._begun: Dict[str, List[bytes]] = {}
        """Pieces of a line that has not ended yet; joined once, when it does."""
        self.notices = watch_folder(logs.folder)
        """A descriptor that can be read when a log grew; None: look now and then."""

    def renumber(self, logs: Logs) -> None:
        """The ranks of a new round have other numbers; all of the last one has been written."""
        while self.pump(flush=True):
            pass
        before, self._shown, self._older = self._shown, self._numbers(logs), logs.older
        for name, source in self._sources.items():
            if before is not None and source.rank not in before:
                # What it wrote while it was not shown stays so.
                os.lseek(source.descriptor, logs.older.get(name, 0), os.SEEK_SET)

    def _numbers(self, logs: Logs) -> Optional[FrozenSet[int]]:
        if self._local is None:
            return None
        return frozenset(logs.first_rank + local for local in self._local)

    def pump(self, flush: bool = False) -> bool:
        """Pass on what is new; True when there is more already."""
        if self.notices is not None:
            _drain(self.notices)
        for name in _logs(self._folder):
            if name not in self._sources:
                self._open(name)
        more = False
        for name in list(self._sources):
            more = self._pump_one(name, flush) or more
        return more

    def _open(self, name: str) -> None:
        descriptor = os.open(os.path.join(self._folder, name), os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(descriptor, self._older.get(name, 0), os.SEEK_SET)
        match = re.fullmatch(r"rank(\d+)\.log", name)
        rank = int(match[1]) if match else None
        label = name[: -len(".log")] if rank is None else f"rank {rank}"
        self._sources[name] = _Source(descriptor, f"[{label}] ".encode(), rank)

    def _pump_one(self, name: str, flush: bool) -> bool:
        source = self._sources[name]
        if self._shown is not None and source.rank not in self._shown:
            return False
        for _ in range(_MOST_BLOCKS):
            block = os.read(source.descriptor, _BLOCK)
            self._write(source.prefix, self._lines(name, block, flush and not block))
            if len(block) < _BLOCK and not (flush and self._begun.get(name)):
                return False
        return True

    def _lines(self, name: str, block: bytes, is_last: bool) -> List[bytes]:
        """The lines that are whole now."""
        first, *others = _LINE_END.split(block)
        begun = self._begun.pop(name, [])
        if first:
            begun.append(first)
        if others:
            lines = [b"".join(begun), *others[:-1]]
            begun = [others[-1]] if others[-1] else []
        else:
            lines = [b"".join(begun)] if is_last and begun else []
            begun = [] if is_last else begun
        if begun:
            self._begun[name] = begun
        return lines

    def _write(self, prefix: bytes, lines: List[bytes]) -> None:
        data = b"".join(prefix + line.rstrip(b"\r\n") + b"\n" for line in lines)
        view = memoryview(data)
        while view and self._output is not None:
            try:
                view = view[os.write(self._output, view) :]
            except BlockingIOError:
                # Somebody with whom the terminal is shared has made it so.
                select.select([], [self._output], [])
            except OSError:
                # Whoever read along has left, or the disk is full; the ranks go on.
                self._output = None


def watch_folder(folder: str) -> Optional[int]:
    """An inotify descriptor for files that appear or grow in a folder; None without inotify."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(_NONBLOCK | _CLOEXEC))
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _IN_MODIFY | _IN_CREATE) < 0:
        os.close(descriptor)
        return None
    return descriptor


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, _BLOCK):
            pass
    except BlockingIOError:
        return


def _logs(folder: str) -> List[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".log"))
