"""Broken connections and killed clients, through a proxy that misbehaves on purpose."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.parts import copy, tree
from tests.store.proxy import proxied
from tests.waiting import wait_for

from jumar.inject.moxing_path.jumar_s3.parts import MIB, PART_BYTES
from jumar.store.credentials import StoreConfig, save_credential
from jumar.store.errors import Damaged
from jumar.store.places import open_place


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(72 * MIB + 3))
    return path


def test_an_upload_killed_in_the_middle_sends_no_part_twice(
    door_config: StoreConfig, door_bucket: str, big: Path, home: Path, tmp_path: Path
) -> None:
    with proxied(door_config) as (proxy, config):
        save_credential(home / "store.json", "obs", config.obs)
        proxy.stalls_after = 40 * MIB
        words = ("push", str(big), f"obs://{door_bucket}/big", "--workers", "3")
        killed = _spawn(home, *words)
        wait_for(proxy.stalled.is_set)
        killed.send_signal(signal.SIGKILL)
        killed.wait(180)
        proxy.release()
        assert _run(home, *words) == 0
        # At most the part that each stream was sending is sent again, and a few headers.
        assert proxy.sent_bytes < big.stat().st_size + 3 * PART_BYTES + MIB
    copy(f"obs://{door_bucket}/big", tmp_path / "back", door_config)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()


def test_a_download_killed_in_the_middle_fetches_no_part_twice(
    door_config: StoreConfig, door_bucket: str, big: Path, home: Path, tmp_path: Path
) -> None:
    copy(big, f"obs://{door_bucket}/big", door_config)
    target = tmp_path / "to" / "back"
    with proxied(door_config) as (proxy, config):
        save_credential(home / "store.json", "obs", config.obs)
        proxy.stalls_after = 60 * MIB
        killed = _spawn(home, "pull", f"obs://{door_bucket}/big", str(target))
        wait_for(proxy.stalled.is_set)
        killed.send_signal(signal.SIGKILL)
        killed.wait(180)
        proxy.release()
        assert not target.exists()
        assert _run(home, "pull", f"obs://{door_bucket}/big", str(target)) == 0
        # At most the step that each stream was writing, and what it had not read from the wire:
        # a socket of a starved machine holds up to 6 MB.
        assert proxy.received_bytes < big.stat().st_size + 40 * MIB
    assert target.read_bytes() == big.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["back"]


@pytest.mark.parametrize("way", ["push", "pull"])
def test_ctrl_c_ends_a_copy_whose_store_does_not_answer(
    door_config: StoreConfig, door_bucket: str, big: Path, home: Path, tmp_path: Path, way: str
) -> None:
    """Though its threads wait for an answer, for a minute each."""
    copy(big, f"obs://{door_bucket}/big", door_config)
    target = tmp_path / "to" / "back"
    words = {
        "push": ("push", "--again", str(big), f"obs://{door_bucket}/again"),
        "pull": ("pull", f"obs://{door_bucket}/big", str(target)),
    }[way]
    with proxied(door_config) as (proxy, config):
        save_credential(home / "store.json", "obs", config.obs)
        proxy.stalls_after = 40 * MIB
        child = _spawn(home, *words)
        wait_for(proxy.stalled.is_set)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.wait(180) == 128 + signal.SIGINT
        assert time.monotonic() - began < 30
        proxy.release()
        assert not target.exists()
        assert _run(home, *words) == 0


@pytest.mark.parametrize("way", ["push", "pull"])
@pytest.mark.parametrize("count", [1, 3, 200])
def test_few_open_files_are_enough(
    door_config: StoreConfig, door_bucket: str, home: Path, tmp_path: Path, way: str, count: int
) -> None:
    save_credential(home / "store.json", "obs", door_config.obs)
    size = 20 * MIB if count == 3 else 50_000
    (tmp_path / "from").mkdir()
    for number in range(count):
        (tmp_path / "from" / str(number)).write_bytes(os.urandom(size))
    url = f"obs://{door_bucket}/few-{count}"
    if way == "pull":
        copy(tmp_path / "from", url, door_config)
    words = (
        ("push", str(tmp_path / "from"), url)
        if way == "push"
        else ("pull", url, str(tmp_path / "to"))
    )
    assert _run(home, *words, most_files=32) == 0
    if way == "push":
        copy(url, tmp_path / "to", door_config)
    assert tree(tmp_path / "to") == tree(tmp_path / "from")


@pytest.mark.parametrize("size", [300_000, 3 * MIB, 72 * MIB])
def test_a_truncated_answer_is_fetched_again(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, size: int
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    copy(tmp_path / "f", f"obs://{door_bucket}/f", door_config)
    cuts = [3]

    def cut(data: bytes, before: int) -> bytes | None:
        if before > 100_000 and cuts[0] > 0:
            cuts[0] -= 1
            return None
        return data

    with proxied(door_config, cut) as (_, config):
        copy(f"obs://{door_bucket}/f", tmp_path / "back", config)
    assert cuts[0] == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "f").read_bytes()


def flip(data: bytes, _: int) -> bytes:
    """Change one byte of each large piece, past what may be a header."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at > 10_000 else data


@pytest.mark.parametrize("size", [300_000, 3 * MIB, 72 * MIB])
def test_a_changed_byte_is_never_accepted(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path, size: int
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(size))
    copy(tmp_path / "f", f"obs://{door_bucket}/f", door_config)
    (tmp_path / "to").mkdir()
    with proxied(door_config, flip) as (_, config):
        report_or_error: str
        try:
            report = copy(f"obs://{door_bucket}/f", tmp_path / "to" / "back", config)
            report_or_error = report.failed[0].reason
        except Damaged as error:
            report_or_error = error.message
    assert "checksum" in report_or_error
    assert not (tmp_path / "to" / "back").exists()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from jumar.cli import main; main()", "data", *arguments]


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "JUMAR_HOME": str(home)}


def _spawn(home: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(_command(*arguments), env=_environment(home), stdout=subprocess.DEVNULL)


def _run(home: Path, *arguments: str, most_files: int = 0) -> int:
    limit = ["prlimit", f"--nofile={most_files}:{most_files}"] if most_files else []
    return subprocess.run(
        [*limit, *_command(*arguments)], env=_environment(home), timeout=300, check=False
    ).returncode


def test_small_objects_come_all_though_answers_are_cut(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    folder = tmp_path / "from"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number} 名").write_bytes(os.urandom(20_000))
    copy(folder, f"obs://{door_bucket}/many", door_config)
    # No path here can have this name: it is told, and the others come.
    open_place(f"obs://{door_bucket}/", door_config).store.write("many/.jumar-b", b"odd")
    seen: list[int] = []

    def cut(data: bytes, before: int) -> bytes | None:
        seen.append(before)
        return None if len(seen) in (60, 90, 200) else data

    with proxied(door_config, cut) as (_, config):
        report = copy(f"obs://{door_bucket}/many", tmp_path / "to", config)
    assert [failure.key for failure in report.failed] == ["many/.jumar-b"]
    assert report.copied == 300
    assert report.bytes == 300 * 20_000
    for path in folder.iterdir():
        assert (tmp_path / "to" / path.name).read_bytes() == path.read_bytes()
