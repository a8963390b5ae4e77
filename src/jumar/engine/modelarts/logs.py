"""The logs of an attempt on ModelArts, byte for byte in its folder here, however long nobody could look."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.engine.modelarts.memory import Memory
from jumar.launch.jobdir.files import JobDir
from jumar.modelarts.service import Service, count_of, dig

Ask = Callable[[Callable[[Service], Any]], Any]


class Logs:
    """Written by one thread."""

    def __init__(self, directory: JobDir, memory: Memory) -> None:
        self._directory = directory
        self._memory = memory

    def fetch(self, ask: Ask, path: str, task: str) -> None:
        """Append what has come. `ask` has patience, with each question by itself; `path`: of the job; `task`: of
        one of its nodes."""
        place = f"{path}/tasks/{task}/logs"
        told = ask(lambda service: service.send("GET", f"{place}/preview"))
        file, written = self._standing(task)
        missing = count_of(told, "full_size") - written
        if missing <= 0:
            return
        content = str(dig(told, "content") or "").encode()
        # The preview is the end of the log, and as text: not all bytes of a log are.
        if missing <= len(content) == count_of(told, "current_size"):
            _append(file, content[-missing:])
            return
        link = dig(ask(lambda service: service.send("GET", f"{place}/url")), "obs_url")
        if not isinstance(link, str):
            _append(file, content[-missing:])
            return
        while part := self._part(ask, link, written):
            _append(file, part)
            written += len(part)

    def _part(self, ask: Ask, link: str, start: int) -> bytes:
        return ask(lambda service: service.fetch(link, start))

    def say(self, words: str) -> None:
        """A line of our own, at the end."""
        _append(self._standing("worker-0")[0], f"jumar: {words}\n".encode())

    def _standing(self, task: str) -> tuple[Path, int]:
        """The file here, and how much of the task's log it has."""
        number = task.rpartition("-")[2]
        node = int(number) if number.isascii() and number.isdecimal() else 0
        file = Path(self._directory.log(node, node))
        file.parent.mkdir(parents=True, exist_ok=True)
        # Attempts append to one log: where this one began is kept.
        size = file.stat().st_size if file.exists() else 0
        start = int(self._memory.add(**{f"log{node}": size})[f"log{node}"])
        return file, size - start


def _append(file: Path, data: bytes) -> None:
    with file.open("ab") as log:
        log.write(data)
