"""Big objects that come in ranges: what is asked for, and what is left where it goes wrong."""

import errno
import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.store.dialects import Dialect, speaking
from tests.store.parts import copy

from jumar.errors import StorageFull
from jumar.inject.moxing_path.jumar_s3.ranged import RANGE_BYTES, STEP_BYTES
from jumar.store.credentials import StoreConfig
from jumar.store.folder import ASIDE

DATA = os.urandom(2 * RANGE_BYTES + 5)


@pytest.fixture
def dialect() -> Generator[Dialect]:
    with speaking(Dialect("2")) as made:
        made.put("big", DATA)
        yield made


@pytest.fixture
def config(dialect: Dialect, tmp_path: Path) -> StoreConfig:
    return StoreConfig(tmp_path / "store", tmp_path / "transfers", obs=dialect.credential)


def span(start: int, end: int) -> str:
    return f"bytes={start}-{end - 1}"


def test_no_byte_is_asked_for_twice(dialect: Dialect, config: StoreConfig, tmp_path: Path) -> None:
    report = copy("obs://lab/big", tmp_path / "big", config)
    assert (tmp_path / "big").read_bytes() == DATA
    assert report.bytes == len(DATA)
    edges = [0, RANGE_BYTES, 2 * RANGE_BYTES, len(DATA)]
    assert sorted(dialect.ranges) == sorted(map(span, edges, edges[1:]))


def test_a_server_that_ignores_ranges_sends_the_whole(
    dialect: Dialect, config: StoreConfig, tmp_path: Path
) -> None:
    dialect.ignores_ranges = True
    report = copy("obs://lab/big", tmp_path / "to" / "big", config)
    assert (tmp_path / "to" / "big").read_bytes() == DATA
    assert (report.copied, report.bytes, report.failed) == (1, len(DATA), ())
    assert [one for one in os.listdir(tmp_path / "to") if one.startswith(ASIDE)] == []


def test_what_came_before_an_answer_broke_is_not_asked_for_again(
    dialect: Dialect, config: StoreConfig, tmp_path: Path
) -> None:
    dialect.put("big", DATA[: RANGE_BYTES + 1])
    dialect.breaks_after = 2 * STEP_BYTES + 7
    report = copy("obs://lab/big", tmp_path / "big", config)
    assert (tmp_path / "big").read_bytes() == DATA[: RANGE_BYTES + 1]
    assert report.bytes == RANGE_BYTES + 1
    assert span(2 * STEP_BYTES, RANGE_BYTES) in dialect.ranges
    assert len(dialect.ranges) == 3


@pytest.mark.parametrize("what", ["bytes", "list"])
def test_a_full_disk_is_no_fault_of_the_server(
    what: str,
    dialect: Dialect,
    config: StoreConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the bytes do not fit or the list of those that have come: it is told at once."""
    write = os.write

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_room_in_list(file: int, data: bytes) -> int:
        return no_room() if re.fullmatch(rb"\d+ [0-9a-f]{8}\n", data) else write(file, data)

    if what == "bytes":
        monkeypatch.setattr(os, "pwrite", no_room)
    else:
        monkeypatch.setattr(os, "write", no_room_in_list)
    with pytest.raises(StorageFull, match="no space left"):
        copy("obs://lab/big", tmp_path / "big", config)
    assert not (tmp_path / "big").exists()
