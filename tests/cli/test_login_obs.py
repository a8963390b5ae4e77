"""`jumar login obs`: where the key goes."""

import json
from pathlib import Path

from tests.cli.conftest import Jumar
from tests.store.conftest import moto_credential as moto_credential

from jumar.store.credentials import Credential

KEYS = "AKLAB\nsk-of-the-lab\n"


def test_a_key_goes_to_the_server_that_is_in_use(
    fresh_jumar: Jumar, fresh_home: Path, live_home: Path, moto_credential: Credential
) -> None:
    client = json.loads((live_home / "client.json").read_text())
    server = {"JUMAR_SERVER": client["url"], "JUMAR_TOKEN": client["token"]}
    words = ("login", "obs", "--s3", "--endpoint", moto_credential.endpoint)
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


def test_keys_are_read_from_stdin_without_a_word_of_getpass(
    fresh_jumar: Jumar, moto_credential: Credential
) -> None:
    words = ("login", "obs", "--local", "--endpoint", moto_credential.endpoint)
    said = fresh_jumar(*words, text=KEYS).stderr
    assert said.startswith("the credential is valid")
    for text, missing in (("", "Access Key ID (AK)"), ("AKLAB\n", "Secret Access Key (SK)")):
        assert f"error: {missing} is missing" in fresh_jumar(*words, text=text, rc=2).stderr


def test_a_wrong_address_is_told_before_the_keys_are_asked_for(fresh_jumar: Jumar) -> None:
    for words in (
        ("--endpoint", "trainer:7480"),
        ("--endpoint", "http://trainer:99999"),
        ("--region", "北京四"),
    ):
        said = fresh_jumar("login", "obs", "--local", *words, rc=2).stderr
        assert words[1] in said
        assert "hint: for example" in said
