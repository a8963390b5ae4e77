"""Tokens, passwords and names of jobs as people call them: several users of one server."""

import json
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import caller

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
PASSWORD = "correct horse"


@pytest.fixture
def url(live_home: Path) -> str:
    return json.loads((live_home / "client.json").read_text())["url"]


@pytest.fixture
def user() -> str:
    return f"ann-{secrets.token_hex(4)}"


@pytest.fixture
def ann(jumar: Jumar, jumar_program: str, tmp_path: Path, url: str, user: str) -> Jumar:
    """Calls `jumar` as a new member of the shared server, from a home of their own."""
    folder = tmp_path / "ann"
    folder.mkdir()
    call = caller(jumar_program, tmp_path / "ann-home", folder)
    call("login", url, "--user", user, "--register", text=f"{PASSWORD}\n")
    jumar("users", "approve", user)
    return call


def test_tokens_are_made_listed_and_revoked(ann: Jumar, jumar: Jumar, user: str, url: str) -> None:
    made = json.loads(ann("tokens", "create", "ci", "--expires", "90d", "--json").stdout)
    other = ann("tokens", "create", "laptop")
    secret = other.stdout.strip()
    assert secret.startswith("jm_")
    assert "not shown again" in other.stderr
    assert made["expires_at"] == pytest.approx(made["created_at"] + 90 * 86400)
    listed = ann("tokens", "list", "--json")
    assert {token["label"] for token in json.loads(listed.stdout)} == {"ci", "laptop", "sign-in"}
    assert made["token"] not in listed.stdout
    table = ann("tokens").stdout
    assert "sign-in (this one)" in table
    assert "in 90d" in table or "in 89d" in table
    script = {"JUMAR_SERVER": url, "JUMAR_TOKEN": secret}
    assert ann("jobs", **script).stdout is not None
    assert (
        f"revoked laptop ({json.loads(listed.stdout)[0]['id']})"
        in ann("tokens", "revoke", "laptop").stderr
    )
    assert "hint: sign in with: jumar login" in ann("jobs", rc=2, **script).stderr
    # An administrator sees and revokes them too; a member only their own.
    assert "ci" in jumar("tokens", "list", "--user", user).stdout
    jumar("tokens", "revoke", made["id"], "--user", user)
    assert "ci" not in ann("tokens").stdout
    assert "only an administrator" in ann("tokens", "list", "--user", "root", rc=2).stderr
    assert "no token 'ci'" in ann("tokens", "revoke", "ci", rc=2).stderr


def test_two_tokens_of_one_name_are_told_apart_by_their_ids(ann: Jumar) -> None:
    ids = [json.loads(ann("tokens", "create", "ci", "--json").stdout)["id"] for _ in range(2)]
    refused = ann("tokens", "revoke", "ci", rc=2)
    assert all(token_id in refused.stderr for token_id in ids)
    ann("tokens", "revoke", *ids)
    assert "ci" not in ann("tokens").stdout


@pytest.mark.parametrize(
    "arguments", [("create", ""), ("create", "a\x1b[2J"), ("create", "x", "--expires", "soon")]
)
def test_a_token_that_makes_no_sense_is_refused(ann: Jumar, arguments: tuple[str, ...]) -> None:
    assert ann("tokens", *arguments, rc=2).stderr.startswith("error: ")


def test_passwords_are_changed_by_their_users_and_reset_by_administrators(
    ann: Jumar, jumar: Jumar, user: str, url: str
) -> None:
    def login(password: str, rc: int = 0) -> str:
        return ann("login", url, "--user", user, text=f"{password}\n", rc=rc).stderr

    assert "the old password is wrong" in ann("passwd", text="guess\nanother one\n", rc=2).stderr
    changed = ann("passwd", text=f"{PASSWORD}\nanother horse\n")
    assert "password changed" in changed.stderr
    # The sign-in that changed it goes on.
    ann("jobs")
    assert "wrong name or password" in login(PASSWORD, rc=2)
    login("another horse")
    given = jumar("users", "reset", user)
    assert "not signed in" in ann("jobs", rc=2).stderr
    assert "wrong name or password" in login("another horse", rc=2)
    login(given.stdout.strip())
    ann("passwd", text=f"{given.stdout.strip()}\nthird horse\n")
    login("third horse")
    assert "only an administrator" in ann("users", "reset", user, rc=2).stderr
    assert "no user 'nobody'" in jumar("users", "reset", "nobody", rc=2).stderr


def test_a_name_is_ones_own_and_user_slash_name_anybodys(
    ann: Jumar, jumar: Jumar, user: str
) -> None:
    name = f"train-{secrets.token_hex(4)}"
    wait = ("sh", "-c", "until [ -e go ]; do sleep 0.1; done")
    theirs = ann("run", "--name", name, "--", *wait).stdout.strip()
    try:
        refused = jumar("stop", name, rc=2).stderr
        assert f"{user}/{name}" in refused
        mine = jumar("run", "--follow", "--json", "--name", name, "--", "echo", "hi")
        mine_id = json.loads(mine.stdout)["id"]
        assert json.loads(jumar("show", name, "--json").stdout)["id"] == mine_id
        assert json.loads(ann("show", name, "--json").stdout)["id"] == theirs
        shown = json.loads(jumar("show", f"{user}/{name}", "--json").stdout)
        assert (shown["id"], shown["state"] in ("starting", "running", "queued")) == (theirs, True)
        assert jumar("logs", name).stdout == "hi\n"
        jumar("jobs", "rm", "--yes", name)
        assert f"{user}/{name}" in jumar("show", name, rc=2).stderr
    finally:
        jumar("stop", f"{user}/{name}")
    assert json.loads(ann("show", name, "--json").stdout)["state"] in ("stopping", "stopped")
