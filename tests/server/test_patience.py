"""Guessing passwords, registering without end, and what is left of a session that was ended."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from tests.server.conftest import Running

from jumar.errors import HomeUnusable, NotSignedIn, TooManyAttempts
from jumar.server.edge import patience as limits
from jumar.server.edge.patience import Patience, neighbourhood

RIGHT = {"name": "zoe", "password": "correct horse"}
WRONG = {"name": "zoe", "password": "wrong horse"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def guess(patience: Patience, name: str, address: str, *, right: bool = False) -> bool:
    """One guess; whether the server would have looked at it."""
    looked = False
    with suppress(NotSignedIn, TooManyAttempts), patience.guess(name, address):
        looked = True
        if not right:
            raise NotSignedIn("wrong name or password")
    return looked


def guesses(patience: Patience, count: int, name: str, address: str) -> int:
    return sum(guess(patience, name, address) for _ in range(count))


def test_many_guesses_at_once_are_no_more_than_one_after_the_other(running: Running) -> None:
    running.site.accounts.register("zoe", RIGHT["password"])

    def post(number: int) -> int:
        # A header must not make an address of its own of every guess.
        headers = {"X-Forwarded-For": f"10.0.0.{number}"}
        return running.api("POST", "/session", user=None, body=WRONG, headers=headers).status

    with ThreadPoolExecutor(30) as pool:
        seen = Counter(pool.map(post, range(60)))
    assert seen == {401: 10, 429: 50}


def test_registrations_at_once_do_not_get_around_the_limit(running: Running) -> None:
    def post(number: int) -> int:
        body = {"name": f"user{number}", "password": "long enough"}
        return running.api("POST", "/users", user=None, body=body).status

    with ThreadPoolExecutor(20) as pool:
        seen = Counter(pool.map(post, range(40)))
    assert seen == {201: limits.ADDRESS_REGISTRATIONS, 429: 40 - limits.ADDRESS_REGISTRATIONS}
    refused = running.api("POST", "/users", user=None, body=RIGHT)
    assert 0 < int(refused.headers["Retry-After"]) <= 3600
    assert "too many registrations" in refused.error
    form = b"name=zoe&password=long+enough&repeat=long+enough"
    page = running.ask("POST", "/register", user=None, body=form, headers=FORM)
    assert (page.status, "Too many registrations" in page.text) == (429, True)
    assert len(running.site.accounts.users()) == 4 + limits.ADDRESS_REGISTRATIONS


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
    assert guesses(patience, 20, "ann", "10.0.0.9") == limits.PAIR_WRONG
    assert guess(patience, "ann", "10.0.0.7", right=True)
    assert guess(patience, "bob", "10.0.0.9", right=True)
    assert not guess(patience, "ann", "10.0.0.9", right=True)
    clock.now = 301.0
    assert guess(patience, "ann", "10.0.0.9", right=True)


def test_many_addresses_together_have_few_guesses_at_a_name() -> None:
    patience = Patience(Clock())
    looked = sum(guesses(patience, 10, "ann", f"10.0.{number}.1") for number in range(200))
    assert looked == limits.NAME_WRONG


def test_one_address_has_few_guesses_at_all_names_together() -> None:
    patience = Patience(Clock())
    looked = sum(guess(patience, f"user{number}", "10.0.0.9") for number in range(1000))
    assert looked == limits.ADDRESS_WRONG


def test_who_signed_in_from_an_address_before_is_not_locked_out_there_by_others() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert guess(patience, "ann", "10.0.0.7", right=True)
    clock.now = 10_000.0
    for number in range(100):
        guesses(patience, 10, "ann", f"10.1.{number}.1")
    assert not guess(patience, "ann", "10.9.9.9", right=True)
    assert guess(patience, "ann", "10.0.0.7", right=True)
    # There the strict limit still holds.
    assert guesses(patience, 20, "ann", "10.0.0.7") == limits.PAIR_WRONG


def test_a_guess_that_something_else_failed_under_does_not_count() -> None:
    patience = Patience(Clock())
    for _ in range(50):
        with pytest.raises(HomeUnusable), patience.guess("ann", "10.0.0.7"):
            raise HomeUnusable("the database is away")
    assert guess(patience, "ann", "10.0.0.7", right=True)
    assert len(patience) == 1


def test_a_guess_whose_client_left_counts() -> None:
    patience = Patience(Clock())
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt), patience.guess("ann", "10.0.0.7"):
            raise KeyboardInterrupt
    assert not guess(patience, "ann", "10.0.0.7", right=True)


def test_right_passwords_at_once_have_to_wait_a_moment_only() -> None:
    patience = Patience(Clock())
    with ExitStack() as under_way:
        for _ in range(10):
            under_way.enter_context(patience.guess("ann", "10.0.0.7"))
        with pytest.raises(TooManyAttempts) as caught, patience.guess("ann", "10.0.0.7"):
            pass
        assert caught.value.wait_s == 1
    assert guess(patience, "ann", "10.0.0.7", right=True)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_KEYS", 100)
    patience = Patience(Clock())
    for number in range(5000):
        guess(patience, f"user{number}" * 100, f"10.0.{number >> 8}.{number & 255}")
        guess(patience, f"user{number}", f"10.1.{number >> 8}.{number & 255}", right=True)
        with suppress(TooManyAttempts), patience.registration(f"10.2.{number}"):
            pass
    assert len(patience) <= 5 * 100


def test_registrations_are_limited_over_all_addresses() -> None:
    clock = Clock()
    patience = Patience(clock)
    made = 0
    for number in range(500):
        with suppress(TooManyAttempts), patience.registration(f"10.0.{number}.1"):
            made += 1
    assert made == limits.ALL_REGISTRATIONS
    clock.now = 3601.0
    with patience.registration("10.0.0.1"):
        made += 1


def test_a_network_of_ipv6_is_one_address() -> None:
    assert neighbourhood("2001:db8:1:2::1") == neighbourhood("2001:db8:1:2:ffff::9")
    assert neighbourhood("2001:db8:1:2::1") != neighbourhood("2001:db8:1:3::1")
    assert neighbourhood("::ffff:10.0.0.1") == "10.0.0.1" == neighbourhood("10.0.0.1")
    assert neighbourhood("") == ""


def test_a_cookie_is_worth_nothing_after_signing_out(running: Running) -> None:
    token = running.site.accounts.tokens.new("ann", "browser").token
    cookie = {"Cookie": f"jumar_session={token}"}
    assert running.api("GET", "/me", user=None, headers=cookie).status == 200
    assert running.ask("POST", "/logout", user=None, headers=cookie).status == 303
    assert running.api("GET", "/me", user=None, headers=cookie).status == 401
    assert running.api("GET", "/me", user="ann").status == 200
