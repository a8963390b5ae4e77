"""What no request may do, and what every answer says to browsers."""

import pytest
from tests.server.conftest import Running


def cookie(running: Running, user: str = "ann") -> dict[str, str]:
    return {"Cookie": f"jumar_session={running.token(user)}"}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_only_our_own_pages_may_change_something_with_the_cookie(
    shared: Running, sent: dict[str, str], status: int
) -> None:
    job = shared.submit("ann", device="sim:8")
    answer = shared.ask(
        "POST", f"/jobs/{job.id}/stop", user=None, headers={**cookie(shared), **sent}
    )
    assert answer.status == status


def test_our_own_origin_is_not_a_strange_one(shared: Running) -> None:
    answer = shared.ask("POST", "/logout", user=None, headers={"Origin": shared.url})
    assert answer.status == 303


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9999", 200),
        ("127.0.0.1", 200),
        ("[::1]:7420", 200),
        ("evil.example", 422),
        ("127.0.0.1.evil.example", 422),
        ("", 422),
        ("[", 422),
    ],
)
def test_a_server_for_this_machine_answers_to_its_names_only(
    shared: Running, host: str, status: int
) -> None:
    answer = shared.ask("GET", "/api/v1/server", user=None, headers={"Host": host})
    assert answer.status == status


def test_pages_tell_browsers_to_run_our_scripts_only_and_to_keep_nothing(shared: Running) -> None:
    page = shared.ask("GET", "/jobs")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-store"
    log_policy = shared.api("GET", "/me").headers["Content-Security-Policy"]
    assert "sandbox" in log_policy


def test_static_files_are_kept_by_browsers(shared: Running) -> None:
    page = shared.ask("GET", "/login", user=None).text
    address = next(part for part in page.split('"') if part.startswith("/static/app.js?v="))
    answer = shared.ask("GET", address, user=None)
    assert answer.status == 200
    assert "immutable" in answer.headers["Cache-Control"]
    assert shared.ask("GET", "/static/nothing.js", user=None).status == 404


def test_after_the_login_nobody_is_sent_to_another_site(running: Running) -> None:
    running.site.accounts.register("mia", "long enough")
    for wanted in (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "evil",
        "/%09/evil.example",
        "//[",
    ):
        form = f"name=mia&password=long+enough&next={wanted}".encode()
        answer = running.ask(
            "POST",
            "/login",
            user=None,
            body=form,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert (answer.status, answer.headers["Location"]) == (303, "/")


def test_a_login_link_on_another_site_asks_first(running: Running) -> None:
    code = running.api("POST", "/login-codes").json["code"]
    headers = {"Sec-Fetch-Site": "cross-site"}
    page = running.ask("GET", f"/login?code={code}", user=None, headers=headers)
    assert page.status == 200
    assert page.headers["Set-Cookie"] is None
    assert code in page.text
