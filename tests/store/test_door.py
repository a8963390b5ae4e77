"""The S3 door: other people's clients read what jumar wrote, and the reverse."""

import os
import subprocess
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jumar.errors import BadInput, Conflict, NotAllowed
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.store.accounts import (
    Account,
    StoreConfig,
    accounts_path,
    load_config,
    obs_account,
    save_account,
    validate,
)
from jumar.store.door import Door, Keys, user_keys
from jumar.store.layout import FOLDERS, is_public, make_layout, publish
from jumar.store.migrate import migrate_to_door, migrate_to_folder
from jumar.store.places import buckets, make_bucket, open_place
from jumar.store.transfer.records import MIB, Options
from jumar.store.transfer.run import transfer
from jumar.store.url import parse_url
from jumar.store.users import UserStores

KEY = "深 度/learning #1.bin"


@pytest.fixture
def written(door_config: StoreConfig, door_bucket: str, tmp_path: Path) -> bytes:
    """An object that jumar sent in parts."""
    data = os.urandom(66 * MIB)
    (tmp_path / "big").write_bytes(data)
    place = open_place(f"obs://{door_bucket}/{KEY}", door_config)
    transfer(open_place(str(tmp_path / "big"), door_config), place, Options(), state=tmp_path)
    return data


def test_boto3_reads_and_writes(
    door: Door, door_config: StoreConfig, door_bucket: str, written: bytes
) -> None:
    boto3: Any = import_module("boto3")
    account = door.account
    client = boto3.client(
        "s3",
        endpoint_url=account.endpoint,
        aws_access_key_id=account.access_key,
        aws_secret_access_key=account.secret_key,
        region_name="us-east-1",
    )
    try:
        assert client.get_object(Bucket=door_bucket, Key=KEY)["Body"].read() == written
        client.put_object(Bucket=door_bucket, Key="from boto3/x", Body=b"hello")
        url = client.generate_presigned_url("get_object", {"Bucket": door_bucket, "Key": KEY})
        assert url.startswith(account.endpoint)
    finally:
        client.close()
    assert open_place(f"obs://{door_bucket}/", door_config).store.read("from boto3/x") == b"hello"


def test_s5cmd_reads_and_writes(
    door: Door, door_config: StoreConfig, door_bucket: str, written: bytes, tmp_path: Path
) -> None:
    import shutil
    import sysconfig

    program = shutil.which("s5cmd", path=sysconfig.get_path("scripts"))
    assert program is not None, "s5cmd is in requirements/dev.txt"
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": door.account.access_key,
        "AWS_SECRET_ACCESS_KEY": door.account.secret_key,
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT_URL": door.account.endpoint,
    }

    def s5cmd(*arguments: str) -> None:
        subprocess.run([program, *arguments], env=environment, check=True, timeout=60)

    s5cmd("cp", f"s3://{door_bucket}/{KEY}", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == written
    s5cmd("cp", str(tmp_path / "got"), f"s3://{door_bucket}/from-s5cmd")
    target = tmp_path / "back"
    transfer(
        open_place(f"obs://{door_bucket}/from-s5cmd", door_config),
        open_place(str(target), door_config),
        Options(),
        state=tmp_path,
    )
    assert target.read_bytes() == written


def test_the_sdk_of_obs_reads_and_writes(
    door: Door, door_config: StoreConfig, door_bucket: str
) -> None:
    script = """
import sys
from obs import ObsClient
ak, sk, server, bucket = sys.argv[1:]
client = ObsClient(access_key_id=ak, secret_access_key=sk, server=server, signature="v4")
answer = client.getObject(bucket, "from/jumar", loadStreamInMemory=True)
assert answer.status < 300 and answer.body.buffer == b"hello sdk", answer
assert client.putContent(bucket, "from/sdk", "hello jumar").status < 300
"""
    import sys

    store = open_place(f"obs://{door_bucket}/", door_config).store
    store.write("from/jumar", b"hello sdk")
    account = door.account
    arguments = [account.access_key, account.secret_key, account.endpoint, door_bucket]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments], check=True, timeout=60
    )
    assert store.read("from/sdk") == b"hello jumar"


def test_users_come_in_with_their_own_keys_and_only_those(door: Door, door_bucket: str) -> None:
    ann = user_keys(door.home.parent, "ann")
    assert user_keys(door.home.parent, "ann") == ann
    door.set_users({"ann": ann})
    account = replace(door.account, access_key=ann.access_key, secret_key=ann.secret_key)
    client = S3(account.wire())
    for _ in range(50):
        try:
            client.put(door_bucket, "anns", b"1", 1)
            break
        except S3Error:
            import time

            time.sleep(0.1)
    assert client.head(door_bucket, "anns").size == 1
    with pytest.raises(NotAllowed):
        validate(replace(account, secret_key="wrong"))
    assert ann.secret_key not in repr(ann)
    assert (door.home / "users.json").stat().st_mode & 0o077 == 0


def test_a_second_door_takes_over_and_a_taken_port_is_told(door: Door, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be used"):
        Door(tmp_path, door.port).start({"ann": Keys("A", "B")})
    assert door.healthy()


def test_the_store_moves_behind_the_door_and_back(
    door: Door, home: Path, folder_config: StoreConfig
) -> None:
    bucket = f"move{os.getpid()}"
    make_bucket("obs", bucket, folder_config)
    store = open_place(f"obs://{bucket}/", folder_config).store
    for number in range(30):
        store.write(f"a/{number}.txt", str(number).encode())
    report = migrate_to_door(home, door.account)
    assert report.copied == 30
    moved = load_config(home, {})
    assert open_place(f"obs://{bucket}/", moved).store.read("a/7.txt") == b"7"
    open_place(f"obs://{bucket}/", moved).store.write("a/new.txt", b"new")
    with pytest.raises(Conflict):
        migrate_to_door(home, door.account)
    migrate_to_folder(home)
    assert load_config(home, {}).obs is None
    assert store.read("a/new.txt") == b"new"


def test_the_layout_of_the_recipes_and_public_reading(
    door: Door, door_config: StoreConfig, folder_config: StoreConfig
) -> None:
    bucket = f"layout{os.getpid()}"
    for config in (folder_config, door_config):
        make_layout(parse_url(f"obs://{bucket}"), config)
        place = open_place(f"obs://{bucket}/dataset/", config)
        assert set(place.store.level().folders) == {
            "dataset/",
            "dataset_unzip/",
            "dataset_unzip_mini/",
            "free_train/",
        }
        assert len(place.store.level("free_train/").folders) == 5
        place.store.write("dataset/open.txt", b"open")
        place.store.write("free_train/closed.txt", b"closed")
        publish(place, config)
    assert len(FOLDERS) == 8
    assert is_public(folder_config.builtin, bucket, "dataset/open.txt")
    assert not is_public(folder_config.builtin, bucket, "free_train/closed.txt")
    anyone = S3(Account(door.account.endpoint).wire())
    with anyone.get(bucket, "dataset/open.txt") as reading:
        assert reading.read() == b"open"
    with pytest.raises(S3Error):
        anyone.head(bucket, "free_train/closed.txt")


def test_accounts_are_private_and_regions_are_checked(home: Path, door: Door) -> None:
    account = obs_account("cn-north-4", "AK", "SK")
    assert account.endpoint == "https://obs.cn-north-4.myhuaweicloud.com"
    with pytest.raises(BadInput):
        obs_account("nowhere/../x", "AK", "SK")
    save_account(accounts_path(home, "ann"), "obs", account)
    assert accounts_path(home, "ann").stat().st_mode & 0o777 == 0o600
    assert UserStores(home, owner="root").job_config("ann").obs == account
    assert load_config(home, {}).obs is None
    with pytest.raises(BadInput):
        accounts_path(home, "../ann")
    assert validate(door.account) == buckets("obs", StoreConfig(home, home, obs=door.account))


def test_login_obs_says_valid_and_keeps_nothing_wrong(home: Path, door: Door) -> None:
    import sys

    def login(secret: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(sys.executable, "-c", "from jumar.cli.login_obs import command; command()"),
                *("--endpoint", door.account.endpoint),
            ],
            env={**os.environ, "JUMAR_HOME": str(home)},
            input=f"{door.account.access_key}\n{secret}\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    wrong = login("wrong-secret")
    assert wrong.returncode != 0
    assert not (home / "store.json").exists()
    good = login(door.account.secret_key)
    assert good.returncode == 0, good.stderr
    assert "credential is valid" in good.stderr
    assert door.account.secret_key not in good.stdout + good.stderr
    assert (home / "store.json").stat().st_mode & 0o777 == 0o600
