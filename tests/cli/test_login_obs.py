"""`jumar login obs`: where the key goes."""

import json
from pathlib import Path

from tests.cli.conftest import Jumar
from tests.store.conftest import moto_account as moto_account

from jumar.store.accounts import Account

KEYS = "AKLAB\nsk-of-the-lab\n"


def test_a_key_goes_to_the_server_that_is_in_use(
    fresh_jumar: Jumar, fresh_home: Path, live_home: Path, moto_account: Account
) -> None:
    client = json.loads((live_home / "client.json").read_text())
    server = {"JUMAR_SERVER": client["url"], "JUMAR_TOKEN": client["token"]}
    words = ("login", "obs", "--s3", "--endpoint", moto_account.endpoint)
    said = fresh_jumar(*words, text=KEYS, **server).stderr
    assert "the credential is valid" in said
    assert f"on {client['url']}" in said
    assert not (fresh_home / "store.json").exists()
    # The user is the owner of the server's home: the key is the home's.
    kept = live_home / "store.json"
    assert json.loads(kept.read_text())["s3"]["access_key"] == "AKLAB"
    assert kept.stat().st_mode & 0o777 == 0o600
    fresh_jumar("login", "obs", "--s3", "--forget", **server)
    assert "s3" not in json.loads(kept.read_text())
    assert str(fresh_home) in fresh_jumar(*words, "--local", text=KEYS, **server).stderr
    assert json.loads((fresh_home / "store.json").read_text())["s3"]["access_key"] == "AKLAB"
