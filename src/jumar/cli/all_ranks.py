"""The logs of all ranks at once, each line with its rank before it.

A log has no times in it: followed, lines come in the order in which they were written; of what is
written already, one rank comes after the other."""

import codecs
import sys
import threading
import time
from collections.abc import Callable, Iterator

from jumar.cli.output import LogFilter, json_text
from jumar.client import Client, LogChunk
from jumar.errors import JumarError
from jumar.spec.records import LogFile

_LOOK_EVERY_S = 0.5
_LONGEST_LINE = 1 << 16
"""A longer one, or bytes that are no text, is shown in pieces and not held."""


class Printer:
    """Prints whole lines, from any thread."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def of(self, log: LogFile, *, several_nodes: bool) -> "_Lines":
        """For one rank."""
        where = f"node {log.node} " if several_nodes else ""
        return _Lines(self._print, log, f"[{where}rank {log.rank}] ")

    def _print(self, log: LogFile, prefix: str, line: str) -> None:
        said = {"node": log.node, "rank": log.rank, "text": line}
        with self._lock:
            print(json_text(said) if self._as_json else f"{prefix}{line}", flush=True)


class _Lines:
    """Text of one rank as it comes, cut into lines."""

    def __init__(
        self, show: Callable[[LogFile, str, str], None], log: LogFile, prefix: str
    ) -> None:
        self._show = show
        self._log = log
        self._prefix = prefix
        self._rest = ""
        self._filter = LogFilter().feed if sys.stdout.isatty() else str

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + self._filter(text)).split("\n")
        for line in lines:
            self._show(self._log, self._prefix, line)
        while len(self._rest) > _LONGEST_LINE:
            self._show(self._log, self._prefix, self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def close(self) -> None:
        if self._rest:
            self._show(self._log, self._prefix, self._rest)
            self._rest = ""


def print_all(client: Client, job: str, *, tail: int | None, as_json: bool) -> None:
    """What the ranks have written by now."""
    printer, logs = Printer(as_json=as_json), client.log_files(job)
    several = len({log.node for log in logs}) > 1
    for log in logs:
        lines = printer.of(log, several_nodes=several)
        blocks = client.logs(job, tail=tail, node=log.node, rank=log.rank)
        for text in codecs.iterdecode(blocks, "utf-8", "replace"):
            lines.feed(text)
        lines.close()


def follow_all(client: Client, job: str, *, tail: int | None, as_json: bool) -> None:
    """What they write, until the job is over. KeyboardInterrupt comes through."""
    printer = Printer(as_json=as_json)
    followers: dict[tuple[int, int], _Follower] = {}
    for logs in _appearing(client, job):
        several = len({log.node for log in logs}) > 1
        for log in logs:
            if (log.node, log.rank) not in followers:
                lines = printer.of(log, several_nodes=several)
                followers[log.node, log.rank] = _Follower(client, job, tail, log, lines)
    for follower in followers.values():
        follower.join()


class _Follower:
    """One rank, in a thread of its own that ends with the program."""

    def __init__(
        self, client: Client, job: str, tail: int | None, log: LogFile, lines: _Lines
    ) -> None:
        self._events = client.follow(job, tail=tail, node=log.node, rank=log.rank)
        self._lines = lines
        self._trouble: JumarError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                if isinstance(event, LogChunk):
                    self._lines.feed(event.text)
        except JumarError as error:
            self._trouble = error
        self._lines.close()

    def join(self) -> None:
        """Until the rank's log is over."""
        self._thread.join()
        if self._trouble is not None:
            raise self._trouble


def _appearing(client: Client, job: str) -> Iterator[tuple[LogFile, ...]]:
    """The logs there are, again and again; the last time when the job is over."""
    while True:
        is_over = client.get(job).state.is_final
        yield client.log_files(job)
        if is_over:
            return
        time.sleep(_LOOK_EVERY_S)
