"""Checksums of big objects: which one is used, and that a wrong one is never taken."""

import hashlib
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.inject.moxing_path.jumar_s3.checksum import Crc32, joined_crc32
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.inject.moxing_path.jumar_s3.ranged import STEP_BYTES
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.errors import Damaged
from jumar.store.filecopy import copy_file, reserve
from jumar.store.objects import ObjectStore
from jumar.store.places import make_bucket, open_place
from jumar.store.transfer.records import Options
from jumar.store.transfer.run import transfer


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_checksums_of_ranges_are_joined_to_that_of_the_whole(pieces: list[bytes]) -> None:
    digests: list[tuple[bytes, int]] = []
    for piece in pieces:
        digest = Crc32()
        digest.update(piece)
        digests.append((digest.digest(), len(piece)))
    assert joined_crc32(digests) == zlib.crc32(b"".join(pieces)).to_bytes(4, "big")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(70 * MIB + 5))
    return path


def copy(source: str | Path, target: str | Path, config: StoreConfig) -> None:
    places = (open_place(str(source), config), open_place(str(target), config))
    report = transfer(*places, Options(), state=config.state)
    assert (report.copied, report.failed) == (1, ())


def test_a_server_that_keeps_crc32_is_given_it(
    door_config: StoreConfig, door_bucket: str, big: Path
) -> None:
    assert door_config.obs is not None
    copy(big, f"obs://{door_bucket}/big", door_config)
    kept = S3(door_config.obs.wire()).kept(door_bucket, "big").crc32
    assert kept == zlib.crc32(big.read_bytes()).to_bytes(4, "big")


def test_bytes_that_a_power_cut_took_are_fetched_again(
    door_config: StoreConfig, door_bucket: str, big: Path, tmp_path: Path
) -> None:
    """The list of an earlier try names two steps; of the second the file has zeros."""
    copy(big, f"obs://{door_bucket}/big", door_config)
    place = open_place(f"obs://{door_bucket}/big", door_config)
    data, target = big.read_bytes(), tmp_path / "back"
    lines = [repr(f"{place.url} {place.store.stat('big').etag} {len(data)} {STEP_BYTES} crc32")]
    for number in range(2):
        crc = zlib.crc32(data[number * STEP_BYTES : (number + 1) * STEP_BYTES])
        lines.append(f"{number} {crc:08x}")
    aside = f".jumar-{hashlib.sha256(os.fsencode(target)).hexdigest()[:24]}"
    (tmp_path / f"{aside}.done").write_text("\n".join([*lines, ""]))
    (tmp_path / f"{aside}.part").write_bytes(data[:STEP_BYTES] + bytes(STEP_BYTES))
    report = transfer(
        place, open_place(str(target), door_config), Options(), state=door_config.state
    )
    assert report.resumed_bytes == STEP_BYTES
    assert target.read_bytes() == data


def test_a_part_with_another_checksum_is_refused(
    door_config: StoreConfig, door_bucket: str
) -> None:
    credential = door_config.obs
    assert credential is not None
    store = ObjectStore(credential.wire(), door_bucket, "")
    begun = store.s3.create_upload(door_bucket, "k", crc32=True)
    assert begun.crc32
    wrong = zlib.crc32(b"other").to_bytes(4, "big")
    place = (door_bucket, "k", begun.id, 1)
    with pytest.raises(Damaged):
        store.call("k", lambda: store.s3.put_part(*place, b"bytes", 5, wrong))


def _in_parts(credential: Credential, bucket: str, data: bytes, part_bytes: int) -> None:
    """As tools that send no CRC-32 do it."""
    s3 = S3(credential.wire())
    begun = s3.create_upload(bucket, "big")
    assert not begun.crc32
    pieces = [data[at : at + part_bytes] for at in range(0, len(data), part_bytes)]
    etags = [
        s3.put_part(bucket, "big", begun.id, number, piece, len(piece))
        for number, piece in enumerate(pieces, 1)
    ]
    s3.complete_upload(bucket, "big", begun.id, etags)


@pytest.mark.parametrize("server", ["door", "moto"])
def test_objects_of_other_tools_come_by_the_tag_of_their_parts(
    server: str, request: pytest.FixtureRequest, home: Path, big: Path, tmp_path: Path
) -> None:
    credential: Credential = (
        request.getfixturevalue("door").credential
        if server == "door"
        else request.getfixturevalue("moto_credential")
    )
    config = StoreConfig(home / "store", home / "transfers", obs=credential)
    bucket = f"parts{os.getpid()}"
    make_bucket("obs", bucket, config)
    _in_parts(credential, bucket, big.read_bytes(), 10 * MIB)
    copy(f"obs://{bucket}/big", tmp_path / "back", config)
    assert (tmp_path / "back").read_bytes() == big.read_bytes()


def test_a_big_copy_is_the_same_and_too_big_a_one_is_refused_at_once(
    big: Path, tmp_path: Path
) -> None:
    assert copy_file(str(big), str(tmp_path / "copy")) == big.stat().st_size
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()
    with (tmp_path / "other").open("wb") as file, pytest.raises(OSError, match=r"large|space"):
        reserve(file.fileno(), 1 << 60)
