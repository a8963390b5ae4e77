"""Guessing passwords, and what is left of a session that was ended."""

import pytest
from tests.server.conftest import Running

from jumar.errors import TooManyAttempts
from jumar.server.patience import Patience

RIGHT = {"name": "zoe", "password": "correct horse"}
WRONG = {"name": "zoe", "password": "wrong horse"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_ten_wrong_passwords_and_even_the_right_one_has_to_wait(running: Running) -> None:
    running.api("POST", "/users", user=None, body=RIGHT)
    tried = [running.api("POST", "/session", user=None, body=WRONG).status for _ in range(10)]
    assert tried == [401] * 10
    answer = running.api("POST", "/session", user=None, body=RIGHT)
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 300
    assert "too many wrong passwords" in answer.json["error"]["message"]
    page = running.ask(
        "POST",
        "/login",
        user=None,
        body=b"name=zoe&password=x",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert page.status == 429


def test_the_right_password_forgives_the_wrong_ones(running: Running) -> None:
    running.api("POST", "/users", user=None, body=RIGHT)
    for _ in range(3):
        for _ in range(9):
            assert running.api("POST", "/session", user=None, body=WRONG).status == 401
        assert running.api("POST", "/session", user=None, body=RIGHT).status == 200


def test_others_are_not_locked_out_and_time_forgives() -> None:
    clock = Clock()
    patience = Patience(clock)
    for _ in range(10):
        patience.wrong("ann", "10.0.0.9")
    patience.ask("ann", "10.0.0.7")
    patience.ask("bob", "10.0.0.9")
    with pytest.raises(TooManyAttempts):
        patience.ask("ann", "10.0.0.9")
    clock.now = 301.0
    patience.ask("ann", "10.0.0.9")


def test_a_cookie_is_worth_nothing_after_signing_out(running: Running) -> None:
    token = running.site.accounts.new_token("ann", "browser")
    cookie = {"Cookie": f"jumar_session={token}"}
    assert running.api("GET", "/me", user=None, headers=cookie).status == 200
    assert running.ask("POST", "/logout", user=None, headers=cookie).status == 303
    assert running.api("GET", "/me", user=None, headers=cookie).status == 401
    assert running.api("GET", "/me", user="ann").status == 200
