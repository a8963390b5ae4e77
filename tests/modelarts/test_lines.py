"""Lines of a log by number, as ModelArts' clients ask for them: of one of 2 TB too, and while it grows."""

import os
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from jumar.server.edge.site import Site
from jumar.server.modelarts import logs
from jumar.spec.records import LogFile


class Served:
    """A server with one log."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def site(self) -> Site:
        return cast("Site", SimpleNamespace(service=self))

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        assert job == "a"
        return (LogFile(node=0, rank=0, size=self.path.stat().st_size),)

    def open_log(self, job: str, node: int, rank: int) -> FileIO:
        assert (job, node, rank) == ("a", 0, 0)
        return FileIO(self.path)

    def ask(self, base: str, *, newest_first: bool, count: int = 3) -> tuple[str, int, int]:
        """The text, and the numbers of its first and last line."""
        told = logs.lines_of(self.site, "a", 0, base=base, count=count, newest_first=newest_first)
        return told["content"], int(told["start_line"]), int(told["end_line"])


def test_the_last_lines_of_two_terabytes_come_soon(tmp_path: Path) -> None:
    served = Served(tmp_path / "rank0.log")
    with served.path.open("wb") as file:
        file.truncate(1 << 41)
        file.seek(0, os.SEEK_END)
        file.write(b"\nx\ny\nz\n")
    text, first, last = served.ask("", newest_first=True)
    assert text == "x\ny\nz\n"
    assert served.ask(str(first - 1), newest_first=False) == (text, first, last)
    assert served.ask(str(last), newest_first=True, count=2) == ("x\ny\n", first, last - 1)
    assert served.ask("7", newest_first=True)[0] == ""


def test_who_reads_on_while_a_log_grows_misses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_NUMBERED_BYTES", 64)
    served = Served(tmp_path / "rank0.log")
    base, seen, numbers = "0", list[str](), list[int]()
    for number in range(200):
        with served.path.open("a") as file:
            # Empty ones too: a line may be no longer than its end.
            file.write(f"{number}\n" if number % 3 else f"{number}\n\n\n")
        text, first, last = served.ask(base, newest_first=False, count=50)
        seen += text.split()
        numbers += [first, last]
        base = str(last)
    assert sorted(set(seen), key=int) == [str(number) for number in range(200)]
    assert seen[:8] == [str(number) for number in range(8)]
    assert numbers == sorted(numbers)
