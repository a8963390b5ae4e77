"""`jumar logs --rank all`: lines of each rank, and of a log without ends of lines what there is."""

from collections.abc import Iterator
from typing import cast

import pytest

from jumar.cli.all_ranks import print_all
from jumar.client import Client
from jumar.spec.records import LogFile

PIECE = 256 * 1024


class Endless:
    """A server with one log that is all zeros; it looks at what was printed of it by then."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        assert job == "big"
        return (LogFile(node=0, rank=0, size=1 << 41),)

    def logs(self, job: str, *, tail: int | None, node: int, rank: int) -> Iterator[bytes]:
        assert (job, tail, node, rank) == ("big", None, 0, 0)
        yield b"hi\n"
        for _ in range(3):
            yield bytes(PIECE)
            shown = self._capsys.readouterr().out
            assert shown.count("\0") > PIECE // 2, "it is held until its line ends"
        yield b"\nlast"


def test_a_line_without_an_end_is_not_held(capsys: pytest.CaptureFixture[str]) -> None:
    print_all(cast("Client", Endless(capsys)), "big", tail=None, as_json=False)
    assert capsys.readouterr().out.endswith("\0\n[rank 0] last\n")
