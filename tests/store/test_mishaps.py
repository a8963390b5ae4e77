"""Servers, disks, keys, clocks and files that misbehave: nothing is lost, and it is told clearly."""

import logging
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.ports import free_port
from tests.store.parts import copy, tree
from tests.waiting import wait_for

from jumar.errors import NotAllowed, StorageFull
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.inject.moxing_path.jumar_s3.retry import Patience, Retry
from jumar.launch.processes.process import send
from jumar.store.base import Entry
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.door import Door
from jumar.store.errors import StoreAway, patiently, store_away, trouble_of
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.parallel import affordable, in_threads
from jumar.store.places import make_bucket, open_place
from jumar.store.transfer.plan import Copy
from jumar.store.transfer.quick import fetch_small
from jumar.store.transfer.records import Options, Progress, Report
from jumar.store.transfer.run import LISTING_PATIENCE_S


def test_the_server_killed_in_the_middle_and_back_later(tmp_path: Path, home: Path) -> None:
    own = Door(tmp_path / "own", free_port())
    own.start()
    try:
        config = StoreConfig(home / "store", home / "transfers", obs=own.credential)
        make_bucket("obs", "lab", config)
        folder = tmp_path / "from"
        folder.mkdir()
        for number in range(300):
            (folder / str(number)).write_bytes(os.urandom(5000))
        (folder / "big").write_bytes(os.urandom(80 * MIB))
        progress = Progress()
        reports: list[Report] = []
        worker = threading.Thread(
            target=lambda: reports.append(
                copy(
                    folder,
                    "obs://lab/x",
                    config,
                    options=Options(patience=Patience(limit_s=280)),
                    progress=progress,
                )
            )
        )
        worker.start()
        wait_for(lambda: progress.bytes > 10 * MIB)
        away_until = time.monotonic() + 6
        while time.monotonic() < away_until:
            # The door starts it again, again and again.
            if own.pid:
                send(own.pid, signal.SIGKILL)
            time.sleep(0.5)
        worker.join(300)
        assert not worker.is_alive()
        assert reports[0].failed == ()
        assert reports[0].copied == 301
        back = copy("obs://lab/x", tmp_path / "back", config)
        assert back.copied == 301
        for path in folder.iterdir():
            assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()
    finally:
        own.stop()


def test_small_objects_that_were_never_asked_for_are_left_to_do(home: Path, tmp_path: Path) -> None:
    gone = Credential(f"http://127.0.0.1:{free_port()}", access_key="x", secret_key="y")
    config = StoreConfig(home / "store", home / "transfers", obs=gone)
    source, target = open_place("obs://lab/x", config), open_place(str(tmp_path), config)
    assert isinstance(source.store, ObjectStore)
    assert isinstance(target.store, FolderStore)
    listed = [Copy(Entry(f"x/{number}", 5, 1.0, ""), str(number)) for number in range(100)]
    left = fetch_small(source.store, target.store, iter(listed), Options(), Progress())
    assert left == listed


def test_a_key_that_is_listed_twice_is_fetched_once(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    for number in range(70):
        (tmp_path / "from" / str(number)).parent.mkdir(exist_ok=True)
        (tmp_path / "from" / str(number)).write_text("bytes")
    copy(tmp_path / "from", f"obs://{door_bucket}/x", door_config)
    source, target = (
        open_place(f"obs://{door_bucket}/x", door_config),
        open_place(str(tmp_path / "to"), door_config),
    )
    assert isinstance(source.store, ObjectStore)
    assert isinstance(target.store, FolderStore)
    listed = [Copy(one, f"{target.prefix}{one.key}") for one in source.store.walk(source.prefix)]
    twice = [one for entry in listed for one in (entry, entry)]
    progress = Progress()
    assert not fetch_small(source.store, target.store, iter(twice), Options(), progress)
    assert progress.files == 70


def test_a_server_away_for_good_is_told(home: Path, tmp_path: Path) -> None:
    gone = Credential(f"http://127.0.0.1:{free_port()}", access_key="x", secret_key="y")
    config = StoreConfig(home / "store", home / "transfers", obs=gone)
    (tmp_path / "f").write_text("x")
    with pytest.raises(StoreAway, match="did not answer"):
        copy(tmp_path / "f", "obs://lab/f", config, options=Options(patience=Patience(limit_s=1)))


def test_a_full_disk_is_told_and_leaves_nothing(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "from").mkdir()
    for number in range(10):
        (tmp_path / "from" / str(number)).write_bytes(os.urandom(900_000))
    copy(tmp_path / "from", f"obs://{door_bucket}/x", door_config)
    for source in (f"obs://{door_bucket}/x", tmp_path / "from"):
        with pytest.raises(StorageFull, match=r"no space left|not enough space"):
            copy(source, small_disk / "to", door_config)
        for path in small_disk.rglob("*"):
            assert path.is_dir() or path.stat().st_size == 900_000
        subprocess.run(["rm", "-rf", str(small_disk / "to")], check=True, timeout=180)


def test_a_big_object_that_does_not_fit_leaves_nothing(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "big").write_bytes(bytes(17 << 20))
    copy(tmp_path / "big", f"obs://{door_bucket}/big", door_config)
    with pytest.raises(StorageFull, match="not enough space"):
        copy(f"obs://{door_bucket}/big", small_disk / "big", door_config)
    assert not [path for path in small_disk.rglob("*") if path.is_file()]


def test_a_full_home_is_told_when_an_upload_is_to_be_remembered(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "big").write_bytes(os.urandom(20 * MIB))
    fill(small_disk)
    config = replace(door_config, state=small_disk / "transfers")
    with pytest.raises(StorageFull, match=r"transfers/upload-.*: no space left"):
        copy(tmp_path / "big", f"obs://{door_bucket}/big", config)


@pytest.mark.parametrize("size", [3, 2 * MIB, 20 * MIB])
def test_a_download_below_a_file_is_named_as_failed(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, size: int
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    copy(tmp_path / "f", f"obs://{door_bucket}/x/f", door_config)
    (tmp_path / "file").write_text("mine")
    report = copy(f"obs://{door_bucket}/x", tmp_path / "file" / "to", door_config)
    assert report.copied == 0
    assert "a file is where a folder should be" in report.failed[0].reason
    assert (tmp_path / "file").read_text() == "mine"


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_wrong_keys_are_refused_in_words_without_the_secret(
    door: Door, door_bucket: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("x")
    for wrong in (
        replace(door.credential, access_key="NOBODY"),
        replace(door.credential, secret_key="s3cr3t-wrong"),
    ):
        config = StoreConfig(home / "store", home / "transfers", obs=wrong)
        with pytest.raises(NotAllowed, match="refused") as caught:
            copy(tmp_path / "f", f"obs://{door_bucket}/f", config)
        assert "login obs" in str(caught.value.hint)
        assert wrong.secret_key not in f"{caught.value}{wrong!r}{config!r}"


def test_a_clock_twenty_minutes_off_is_told(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("x")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1200)
    with pytest.raises(NotAllowed, match="clock is 20 minutes ahead of the server"):
        copy(tmp_path / "f", f"obs://{door_bucket}/f", door_config)


def test_a_file_that_grows_is_sent_as_it_was_and_told(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"line\n" * 400_000)
    progress = Progress()
    add_bytes = progress.add_bytes

    def grow_then_add(count: int) -> None:
        with log.open("ab") as file:
            file.write(b"line\n" * 100)
        add_bytes(count)

    progress.add_bytes = grow_then_add
    report = copy(log, f"obs://{door_bucket}/train.log", door_config, progress=progress)
    assert "changed during the copy" in report.notes[0]
    place = open_place(f"obs://{door_bucket}/train.log", door_config)
    data = place.store.read(place.key)
    assert len(data) >= 2_000_000
    assert log.read_bytes().startswith(data)
    copy(log, f"obs://{door_bucket}/train.log", door_config)
    assert place.store.read(place.key) == log.read_bytes()


def test_links_that_loop_are_left_out(folder_config: StoreConfig, tmp_path: Path) -> None:
    folder = tmp_path / "from"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "real").write_text("real")
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "nothing").symlink_to(folder / "gone")
    (folder / "link").symlink_to(folder / "sub" / "real")
    report = copy(folder, "obs://lab/x", folder_config)
    assert report.copied == 2
    assert (folder_config.builtin / "lab/x/link").read_text() == "real"


def test_a_copy_never_finds_itself(folder_config: StoreConfig, tmp_path: Path) -> None:
    """A link in the source leads to where the new folder grows while others are copied."""
    folder, there = tmp_path / "from", tmp_path / "there"
    for number in range(900):
        path = folder / f"{number % 3}" / f"{number} 名"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    there.mkdir()
    (folder / "z").symlink_to(there)
    (there / "own").write_text("own")
    wanted = {**tree(folder), "z/own": b"own"}
    report = copy(folder, there / "new", folder_config)
    assert (report.copied, report.failed) == (901, ())
    assert tree(there / "new") == wanted


def test_keys_that_cannot_be_paths_are_told_and_the_others_come(
    moto_credential: Credential, home: Path, tmp_path: Path
) -> None:
    from jumar.inject.moxing_path.jumar_s3 import S3

    bucket = f"odd{os.getpid()}"
    client = S3(moto_credential.wire())
    client.create_bucket(bucket)
    for key in ("x/../../escape", "x//double", "x/good 名.txt"):
        client.put(bucket, key, b"!", 1)
    config = StoreConfig(home / "store", home / "transfers", obs=moto_credential)
    report = copy(f"obs://{bucket}/x", tmp_path / "deep" / "to", config)
    assert report.copied == 1
    assert {failure.key for failure in report.failed} == {"x/../../escape", "x//double"}
    assert all("cannot be a path" in failure.reason for failure in report.failed)
    assert [path.name for path in (tmp_path / "deep").rglob("*") if path.is_file()] == [
        "good 名.txt"
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 4 MiB, where the machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
        timeout=180,
    )
    if done.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=180)


def test_many_who_wait_for_one_server_say_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=list[float]().append)
    monkeypatch.setattr("jumar.inject.moxing_path.jumar_s3.retry.time", clock)
    patiently = Retry(trouble_of, logging.getLogger())
    asked = set[int]()

    def ask(number: int) -> None:
        if number not in asked:
            asked.add(number)
            raise StoreAway("the store did not answer")

    def ask_together(numbers: range) -> None:
        in_threads(lambda number: patiently(lambda: ask(number), Patience()), numbers, 16)

    said = "the store did not answer; trying again for up to 120 s"
    with caplog.at_level("INFO"):
        ask_together(range(16))
        assert caplog.text.count(said) == 1
        assert caplog.text.count("answers again") == 1
        # It is away for every other request: told once a minute.
        now[0] = 50
        ask_together(range(16, 32))
        assert caplog.text.count(said) == 1
        now[0] = 61
        ask_together(range(32, 48))
        assert caplog.text.count(said) == 2


def test_a_store_is_waited_for_once_though_patience_is_within_patience() -> None:
    tried: list[int] = []
    patience = Patience(limit_s=0.3, first_s=0.1, longest_s=0.1)

    def ask() -> None:
        raise StoreAway("gone")

    def fetch() -> None:
        tried.append(1)
        patiently(ask, patience)

    with pytest.raises(StoreAway):
        patiently(fetch, Patience(limit_s=60, first_s=0.1))
    assert tried == [1]


def test_a_store_that_stays_away_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr("jumar.inject.moxing_path.jumar_s3.retry.time", clock)
    patiently = Retry(trouble_of, logging.getLogger())

    def ask(until_s: float) -> None:
        if now[0] < until_s:
            raise StoreAway("the store did not answer")

    with caplog.at_level("INFO"):
        patiently(lambda: ask(100), Patience())
        assert caplog.text.count("the store did not answer") == 1
        assert caplog.text.count("the store answers again after 1") == 1


def test_twenty_seconds_away_are_within_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr("jumar.inject.moxing_path.jumar_s3.retry.time", clock)

    def ask() -> str:
        if now[0] < 20:
            raise StoreAway("the store did not answer")
        assert store_away() == "the store did not answer"
        return "back"

    for limit_s in (Options().patience.limit_s, LISTING_PATIENCE_S):
        now[0] = 0.0
        assert patiently(ask, Patience(limit_s=limit_s)) == "back"
        assert store_away() is None


NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "refused", "many"),
    [
        ((NO_LIMIT, NO_LIMIT), None, 128),
        ((40, NO_LIMIT), None, 128),
        ((40, 100), None, 44),
        ((40, 100), ValueError("not allowed to raise maximum limit"), 14),
        ((40, 40), None, 14),
    ],
)
def test_as_many_at_a_time_as_files_may_be_opened(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    refused: Exception | None,
    many: int,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", Mock(return_value=limits))
    monkeypatch.setattr(resource, "setrlimit", Mock(side_effect=refused))
    assert affordable(128) == many
