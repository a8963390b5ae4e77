"""A big object from one server to another: cut in the middle, it goes on where it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.parts import copy
from tests.store.proxy import proxied
from tests.store.served import run_jumar
from tests.waiting import wait_for

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.inject.moxing_path.jumar_s3.parts import MIB, PART_BYTES
from jumar.store.credentials import StoreConfig, save_credential
from jumar.store.transfer.records import Progress

SIZE = 52 * MIB + 3


@pytest.fixture
def big(door_config: StoreConfig, door_bucket: str, tmp_path: Path) -> bytes:
    """What is at `from/big` of the bucket."""
    data = os.urandom(SIZE)
    (tmp_path / "big").write_bytes(data)
    copy(tmp_path / "big", f"obs://{door_bucket}/from/big", door_config)
    return data


def test_a_client_killed_in_the_middle_sends_no_part_twice(
    door_config: StoreConfig, door_bucket: str, big: bytes, home: Path, tmp_path: Path
) -> None:
    words = ("data", "cp", f"s3://{door_bucket}/from/big", f"obs://{door_bucket}/to/big")
    words += ("--workers", "4")
    with proxied(door_config) as (proxy, config):
        save_credential(home / "store.json", "s3", door_config.obs)
        save_credential(home / "store.json", "obs", config.obs)
        proxy.stalls_after = 48 * MIB
        killed = subprocess.Popen(
            [str(Path(sys.executable).parent / "jumar"), *words],
            env={**os.environ, "JUMAR_HOME": str(home)},
        )
        wait_for(proxy.stalled.is_set)
        killed.send_signal(signal.SIGKILL)
        killed.wait(180)
        proxy.release()
        run_jumar(home, *words)
        # At most the parts that were on their way are sent again, and a few headers.
        assert proxy.sent_bytes < SIZE + 4 * PART_BYTES + MIB
    copy(f"obs://{door_bucket}/to/big", tmp_path / "back", door_config)
    assert (tmp_path / "back").read_bytes() == big
    assert list((home / "transfers").iterdir()) == []


def test_an_object_that_is_replaced_meanwhile_is_not_mixed_with_the_new_one(
    door_config: StoreConfig, door_bucket: str, big: bytes
) -> None:
    assert door_config.obs is not None
    client, progress = S3(door_config.obs.wire()), Progress()
    add_bytes = progress.add_bytes

    def replace_then_add(count: int) -> None:
        client.put(door_bucket, "from/big", bytes(SIZE), SIZE)
        add_bytes(count)

    progress.add_bytes = replace_then_add
    with proxied(door_config) as (_, config):
        both = StoreConfig(config.builtin, config.state, obs=config.obs, s3=door_config.obs)
        place = f"obs://{door_bucket}/to/big"
        report = copy(f"s3://{door_bucket}/from/big", place, both, progress=progress)
        assert "was replaced during the copy" in report.failed[0].reason
        assert copy(f"s3://{door_bucket}/from/big", place, both).copied == 1
    assert client.head(door_bucket, "to/big").size == SIZE
    with client.get(door_bucket, "to/big") as reading:
        assert reading.read() == bytes(SIZE)
