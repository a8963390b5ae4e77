"""`jumar share` and `jumar groups`, against a real server."""

import json

from tests.cli.conftest import Jumar


def who_runs(jumar: Jumar) -> str:
    """Whose the jobs of this test are; other tests may have made users, too."""
    ran = jumar("run", "--name", "used", "--follow", "--json", "--", "true")
    return json.loads(ran.stdout)["user"]


def test_share_says_who_used_what(jumar: Jumar) -> None:
    me = who_runs(jumar)
    found = json.loads(jumar("share", "--json").stdout)
    assert found["half_life_days"] == 7
    [line] = [line for line in found["lines"] if (line["kind"], line["user"]) == ("cpu", me)]
    assert line["group"] == "default"
    assert line["counts_card_s"] > 0
    assert set(found) == {"half_life_days", "lines", "next"}
    assert jumar("share").stdout.startswith("KIND  USER")


def test_groups_from_the_first_to_the_last(jumar: Jumar) -> None:
    me = who_runs(jumar)
    jumar("groups", "create", "cli-test", "--share", "2")
    try:
        jumar("groups", "set-share", "cli-test", "3")
        moved = json.loads(
            jumar("groups", "add", "cli-test", me, "--share", "0.5", "--json").stdout
        )
        assert moved == {
            "name": "cli-test",
            "share": 3.0,
            "members": [{"user": me, "share": 0.5}],
        }
        assert f"{me} (0.5)" in jumar("groups", "list").stdout
        jumar("groups", "remove", "cli-test", me)
        refused = jumar("groups", "remove", "cli-test", me, rc=2)
        assert "is not in the group" in refused.stderr
        assert "hint:" in refused.stderr
    finally:
        jumar("groups", "delete", "cli-test")
    names = [group["name"] for group in json.loads(jumar("groups", "list", "--json").stdout)]
    assert "cli-test" not in names
    assert jumar("groups", "create", "x", "--share", "0", rc=2).stderr.startswith("error:")
