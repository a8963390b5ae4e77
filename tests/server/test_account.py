"""Tokens and passwords over the API and on the page Account."""

import re
from urllib.parse import urlencode

import pytest
from tests.server.conftest import Answer, Running

OLD, NEW = "correct horse", "another horse"


@pytest.fixture
def site(running: Running) -> Running:
    """A server where zoe is a member with a password, signed in."""
    running.site.accounts.register("zoe", OLD)
    running.site.accounts.set_role("zoe", "member")
    running.tokens["zoe"] = sign_in(running, OLD).json["token"]
    return running


def sign_in(running: Running, password: str) -> Answer:
    body = {"name": "zoe", "password": password}
    return running.api("POST", "/session", user=None, body=body)


def post(running: Running, path: str, *, user: str = "zoe", **fields: str) -> Answer:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return running.ask("POST", path, user=user, body=urlencode(fields).encode(), headers=headers)


def test_a_token_is_made_listed_used_and_taken_back(site: Running) -> None:
    made = site.api("POST", "/tokens", user="zoe", body={"label": "ci", "expires_s": 3600})
    assert made.status == 201
    secret, token_id = made.json["token"], made.json["id"]
    with_it = {"Authorization": f"Bearer {secret}"}
    assert site.api("GET", "/me", user=None, headers=with_it).json["name"] == "zoe"
    listed = site.api("GET", "/tokens", user="zoe")
    assert secret not in listed.text
    assert [(token["label"], token["kind"], token["current"]) for token in listed.json] == [
        ("ci", "token", False),
        ("sign-in", "session", True),
    ]
    assert listed.json[0]["id"] == token_id
    assert listed.json[0]["expires_at"] == made.json["expires_at"]
    assert site.api("GET", "/tokens?user=zoe", user="root").json[0]["id"] == token_id
    assert site.api("DELETE", f"/tokens/{token_id}", user="zoe").status == 204
    assert site.api("GET", "/me", user=None, headers=with_it).status == 401


@pytest.mark.parametrize(
    "body",
    [
        {"label": ""},
        {"label": "a\0b"},
        {"label": "\x1b[2J"},
        {"label": "x" * 129},
        {"label": "x", "expires_s": 0},
        {"label": "x", "expires_s": 10**12},
        {"label": "x", "expires_at": 1},
    ],
)
def test_a_token_that_makes_no_sense_is_refused(site: Running, body: dict[str, object]) -> None:
    assert site.api("POST", "/tokens", user="zoe", body=body).status == 422


def test_a_changed_password_ends_the_other_sessions_only(site: Running) -> None:
    elsewhere = {"Authorization": f"Bearer {sign_in(site, OLD).json['token']}"}
    token = {"Authorization": f"Bearer {site.site.accounts.tokens.new('zoe', 'ci').token}"}
    wrong = site.api("PUT", "/me/password", user="zoe", body={"old": "guess", "new": NEW})
    assert (wrong.status, wrong.error) == (403, "the old password is wrong")
    body = {"old": OLD, "new": NEW}
    assert site.api("PUT", "/me/password", user="zoe", body=body).status == 204
    assert site.api("GET", "/me", user="zoe").status == 200
    assert site.api("GET", "/me", user=None, headers=token).status == 200
    assert site.api("GET", "/me", user=None, headers=elsewhere).status == 401
    assert (sign_in(site, OLD).status, sign_in(site, NEW).status) == (401, 200)


def test_an_open_session_does_not_let_one_guess_the_password(site: Running) -> None:
    body = {"old": "guess", "new": NEW}
    tried = [site.api("PUT", "/me/password", user="zoe", body=body).status for _ in range(12)]
    assert tried == [403] * 10 + [429] * 2


def test_a_reset_gives_a_password_once_and_ends_everything(site: Running) -> None:
    site.site.accounts.tokens.new("zoe", "ci")
    given = site.api("POST", "/users/zoe/reset", user="root")
    assert given.status == 200
    assert site.api("GET", "/me", user="zoe").status == 401
    assert site.api("GET", "/tokens?user=zoe", user="root").json == []
    assert sign_in(site, OLD).status == 401
    assert sign_in(site, given.json["password"]).status == 200
    assert site.api("POST", "/users/nobody/reset", user="root").status == 404


def test_a_cookie_and_its_session_end_together(site: Running) -> None:
    answer = post(site, "/login", user="eve", name="zoe", password=OLD)
    cookie = answer.headers["Set-Cookie"]
    assert "Max-Age=2592000" in cookie
    newest = site.site.accounts.tokens.of("zoe")[0]
    assert (newest.kind, newest.label) == ("session", "browser")
    assert newest.expires_at == pytest.approx(newest.created_at + 2_592_000)


def test_a_cookie_that_came_through_a_proxy_with_tls_is_kept_to_tls(site: Running) -> None:
    form = urlencode({"name": "zoe", "password": OLD}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers, secure in ((kind, False), ({**kind, "X-Forwarded-Proto": "https"}, True)):
        answer = site.ask("POST", "/login", user=None, body=form, headers=headers)
        assert ("Secure" in answer.headers["Set-Cookie"]) is secure


@pytest.mark.parametrize(
    ("language", "words"), [("en", "Tokens and sessions"), ("zh", "令牌与会话")]
)
def test_the_page_makes_shows_and_revokes_tokens(site: Running, language: str, words: str) -> None:
    made = post(site, f"/account/tokens?lang={language}", label="<b>ci</b>", days="30")
    found = re.search(r"jm_[\w-]+", made.text)
    assert found is not None
    assert words in made.text
    assert "<b>ci</b>" not in made.text
    with_it = {"Authorization": f"Bearer {found[0]}"}
    assert site.api("GET", "/me", user=None, headers=with_it).json["name"] == "zoe"
    page = site.ask("GET", f"/account?lang={language}", user="zoe").text
    assert found[0] not in page
    token_id = site.site.accounts.tokens.of("zoe")[0].id
    assert f'action="/account/tokens/{token_id}/revoke"' in page
    assert post(site, f"/account/tokens/{token_id}/revoke").status == 303
    assert site.api("GET", "/me", user=None, headers=with_it).status == 401
    assert post(site, "/account/tokens", label="a\x1b[2J").status == 422


def test_the_page_changes_the_password(site: Running) -> None:
    for old, new, repeat, status, words in (
        ("guess", NEW, NEW, 403, "The current password is wrong."),
        (OLD, NEW, "other", 422, "The passwords do not match."),
        (OLD, "short", "short", 422, "At least 8 characters."),
    ):
        answer = post(site, "/account/password", old=old, new=new, repeat=repeat)
        assert (answer.status, words in answer.text) == (status, True)
    done = post(site, "/account/password", old=OLD, new=NEW, repeat=NEW)
    assert (done.status, done.headers["Location"]) == (303, "/account?changed=1")
    assert "Password changed." in site.ask("GET", "/account?changed=1", user="zoe").text
    assert sign_in(site, NEW).status == 200


def test_the_page_of_users_gives_out_a_password_once(site: Running) -> None:
    assert 'action="/admin/users/zoe/reset"' in site.ask("GET", "/admin/users", user="root").text
    answer = post(site, "/admin/users/zoe/reset", user="root")
    found = re.search(r"<pre><code>(\S+)</code></pre>", answer.text)
    assert found is not None
    assert "Temporary password for zoe" in answer.text
    assert found[1] not in site.ask("GET", "/admin/users", user="root").text
    assert sign_in(site, found[1]).status == 200
