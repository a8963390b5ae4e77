"""Uploads in parts: listed while unfinished, aborted when given up, copied inside a server; and who
carries them."""

import os
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.store.dialects import Dialect, speaking
from tests.store.parts import copy

from jumar.errors import JumarError
from jumar.inject.moxing_path.jumar_s3 import S3, Crew, Patience, S3Error, Stopped, crew, inside
from jumar.store.credentials import StoreConfig
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.transfer.records import Options
from jumar.store.transfer.run import copy_entry

MIB = 1 << 20
SIZE = 20 * MIB


@pytest.fixture
def dialect() -> Generator[Dialect]:
    with speaking(Dialect("2")) as made:
        yield made


@pytest.fixture
def s3(dialect: Dialect) -> S3:
    return S3(dialect.credential.wire())


def test_all_unfinished_uploads_below_a_prefix_are_listed_however_many_a_page_has(
    dialect: Dialect, s3: S3
) -> None:
    dialect.most_uploads = 2
    keys = ["a/1", "a/1", "a/2 ü+&", "b/3", "b/4"]
    begun = {s3.create_upload("lab", key).id: key for key in keys}
    found = list(s3.unfinished_uploads("lab"))
    assert {one.upload_id: one.key for one in found} == begun
    assert found[0].begun_at == 1767323045.0
    assert [one.key for one in s3.unfinished_uploads("lab", "a/")] == ["a/1", "a/1", "a/2 ü+&"]
    for one in found:
        s3.abort_upload("lab", one.key, one.upload_id)
    assert list(s3.unfinished_uploads("lab")) == []


def test_a_list_of_uploads_that_does_not_end_is_an_error(dialect: Dialect, s3: S3) -> None:
    dialect.repeats_uploads = True
    s3.create_upload("lab", "a")
    with pytest.raises(S3Error, match="does not end"):
        list(s3.unfinished_uploads("lab"))


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_object_too_big_for_one_copy_is_copied_in_parts_inside_the_server(
    dialect: Dialect, s3: S3, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    monkeypatch.setattr(inside, "MOST_AT_ONCE_BYTES", SIZE - 1)
    monkeypatch.setattr(inside, "_STEP_BYTES", 6 * MIB)
    data = os.urandom(SIZE)
    dialect.put("from/big", data)
    store = ObjectStore(dialect.credential.wire(), "lab", "s3://lab/")
    entry = store.stat("from/big")
    if is_replaced:
        dialect.put("from/big", os.urandom(SIZE))
        with pytest.raises(JumarError, match="PreconditionFailed"):
            copy_entry(store, entry, store, "to/big")
        assert "to/big" not in dialect.objects
    else:
        copy_entry(store, entry, store, "to/big")
        assert dialect.objects["to/big"].data == data
        assert dialect.objects["to/big"].etag.endswith("-3")
    assert not any(one.startswith("GET /lab/from") for one in dialect.asked)
    assert dialect.uploads == {}


def test_an_upload_that_is_not_resumed_leaves_no_parts_behind(
    dialect: Dialect, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(os.urandom(SIZE))
    folder, store = (
        FolderStore(str(tmp_path), "here/"),
        ObjectStore(dialect.credential.wire(), "lab", "s3://lab/"),
    )
    dialect.tag = "0" * 32
    options = Options(patience=Patience(damaged_tries=1))
    with pytest.raises(JumarError, match="wrong checksum"):
        copy_entry(folder, folder.stat("big"), store, "big", options=options)
    assert dialect.uploads == {}
    assert any(one.startswith("DELETE /lab/big?uploadId") for one in dialect.asked)


def test_the_upload_of_a_file_that_has_changed_since_is_given_up(
    dialect: Dialect, tmp_path: Path
) -> None:
    config = StoreConfig(tmp_path / "store", tmp_path / "state", obs=dialect.credential)
    big = tmp_path / "big"
    big.write_bytes(os.urandom(SIZE))
    options = Options(patience=Patience(limit_s=0.1, first_s=0.05))
    dialect.refuses_completion = True
    with pytest.raises(JumarError, match="503"):
        copy(big, "obs://lab/big", config, options=options)
    assert len(dialect.uploads) == 1
    dialect.refuses_completion = False
    big.write_bytes(os.urandom(SIZE + 1))
    assert copy(big, "obs://lab/big", config).copied == 1
    assert dialect.uploads == {}
    assert dialect.objects["big"].data == big.read_bytes()


@pytest.mark.parametrize(
    ("lanes", "most", "width"),
    [(1, 32, 16), (12, 32, 32), (100, 32, 32), (100, 12, 12), (100, 1, 1)],
)
def test_a_crew_grows_while_that_pays_and_never_beyond_its_limit(
    monkeypatch: pytest.MonkeyPatch, lanes: int, most: int, width: int
) -> None:
    """A line with so many lanes carries one MiB a second in each."""
    now = [1.0]
    monkeypatch.setattr(crew.time, "monotonic", lambda: now[0])
    made = Crew(most)
    for _ in range(2000):
        now[0] += 1 / min(lanes, made.width)
        made.carried(MIB)
    assert made.width == width


def test_parts_that_arrive_together_are_no_sign_of_a_full_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts sent at the same time arrive at the same time, one second later: the first four say
    nothing about the rate, and neither does what was under way when there became more."""
    now = [1.0]
    monkeypatch.setattr(crew.time, "monotonic", lambda: now[0])
    made = Crew(32)
    for _ in range(20):
        now[0] += 1
        for _ in range(made.width):
            now[0] += 0.001
            made.carried(8 * MIB)
    assert made.width == 32


def test_a_crew_begins_nothing_after_an_error_or_a_stop_and_works_on_for_others() -> None:
    few, begun, stop = Crew(4), list[int](), threading.Event()

    def fail(number: int) -> int:
        begun.append(number)
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError):
        few.each(fail, range(1000))
    assert len(begun) <= 4
    assert few.each(lambda number: number * 2, range(50)) == list(range(0, 100, 2))
    assert few.each(str, ()) == []
    stop.set()
    with pytest.raises(Stopped):
        few.each(str, range(5), stop)
    mine: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: mine.append(few.each(lambda n: n, range(40))))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert mine == [list(range(40))] * 6
