"""The S3 door itself, the layout of buckets behind it, and credentials for it."""

import os
import subprocess
from pathlib import Path

import pytest

from jumar.errors import BadInput, Conflict
from jumar.store.credentials import (
    StoreConfig,
    credentials_path,
    load_config,
    obs_credential,
    save_credential,
    validate,
)
from jumar.store.door import Door
from jumar.store.layout import FOLDERS, make_layout
from jumar.store.places import buckets, open_place, parse_url
from jumar.store.users import UserStores


def test_one_home_has_one_door_and_a_taken_port_is_told(door: Door, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be used"):
        Door(tmp_path, door.port).start()
    with pytest.raises(Conflict, match="another process is running the S3 door"):
        Door(door.home, door.port + 1).start()
    assert door.healthy()


def test_the_layout_of_the_recipes(door_config: StoreConfig, folder_config: StoreConfig) -> None:
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
    assert len(FOLDERS) == 8


def test_accounts_are_private_and_regions_are_checked(home: Path, door: Door) -> None:
    credential = obs_credential("cn-north-4", "AK", "SK")
    assert credential.endpoint == "https://obs.cn-north-4.myhuaweicloud.com"
    with pytest.raises(BadInput):
        obs_credential("nowhere/../x", "AK", "SK")
    save_credential(credentials_path(home, "ann"), "obs", credential)
    assert credentials_path(home, "ann").stat().st_mode & 0o777 == 0o600
    assert UserStores(home, owner="root").job_config("ann").obs == credential
    assert load_config(home, {}).obs is None
    with pytest.raises(BadInput):
        credentials_path(home, "../ann")
    assert validate(door.credential) == buckets("obs", StoreConfig(home, home, obs=door.credential))


def test_login_obs_says_valid_and_keeps_nothing_wrong(home: Path, door: Door) -> None:
    import sys

    def login(secret: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(sys.executable, "-c", "from jumar.cli.login_obs import command; command()"),
                *("--endpoint", door.credential.endpoint),
            ],
            env={**os.environ, "JUMAR_HOME": str(home)},
            input=f"{door.credential.access_key}\n{secret}\n",
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    wrong = login("wrong-secret")
    assert wrong.returncode != 0
    assert not (home / "store.json").exists()
    good = login(door.credential.secret_key)
    assert good.returncode == 0, good.stderr
    assert "credential is valid" in good.stderr
    assert door.credential.secret_key not in good.stdout + good.stderr
    assert (home / "store.json").stat().st_mode & 0o777 == 0o600
