"""Tokens that can be listed, named, taken back, and end; passwords changed and reset."""

import time
from collections.abc import Callable
from dataclasses import asdict

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy import text as sql_text
from tests.older import migrate

from jumar.database.access import Database, open_database
from jumar.database.tables import tokens
from jumar.errors import BadInput, Conflict, NotAllowed, NotFound, NotSignedIn
from jumar.people import accounts as accounts_module
from jumar.people.accounts import Accounts
from jumar.people.tokens import SESSION_S, digest, still_held

OLD, NEW = "correct horse", "another horse"


@pytest.fixture
def accounts(database: Database) -> Accounts:
    accounts = Accounts(database)
    accounts.bootstrap("root")
    accounts.register("ann", OLD)
    return accounts


def signed_in(accounts: Accounts, *held: str) -> list[bool]:
    return [accounts.tokens.user_of(token) is not None for token in held]


def test_a_listing_has_names_and_times_but_neither_secret_nor_digest(accounts: Accounts) -> None:
    session = accounts.sign_in("ann", OLD)
    made = accounts.tokens.new("ann", "ci", lasts_s=60)
    listed = accounts.tokens.of("ann", session)
    assert [(token.label, token.kind, token.current) for token in listed] == [
        ("ci", "token", False),
        ("sign-in", "session", True),
    ]
    assert listed[0].expires_at == pytest.approx(listed[0].created_at + 60)
    assert listed[1].expires_at == pytest.approx(listed[1].created_at + SESSION_S)
    told = repr([asdict(token) for token in listed]) + repr(made)
    assert made.id in told
    for secret in (session, made.token):
        assert secret not in told
        assert digest(secret) not in told


def test_a_token_is_taken_back_by_its_id_and_only_from_its_user(accounts: Accounts) -> None:
    made, other = accounts.tokens.new("ann", "ci"), accounts.tokens.new("ann", "ci")
    assert all(signed_in(accounts, made.token, other.token))
    with pytest.raises(NotFound):
        accounts.tokens.revoke_by_id(made.id, user="root")
    assert all(signed_in(accounts, made.token))
    accounts.tokens.revoke_by_id(made.id, user="ann")
    assert signed_in(accounts, made.token, other.token) == [False, True]
    for wrong in (made.id, "", "a\0b", "' OR 1=1"):
        with pytest.raises(NotFound):
            accounts.tokens.revoke_by_id(wrong, user=None)
    accounts.tokens.revoke_by_id(other.id, user=None)
    assert signed_in(accounts, other.token) == [False]


def test_a_token_that_is_over_lets_nobody_in_and_is_swept(
    accounts: Accounts, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = accounts.tokens.new("ann", "short", lasts_s=1000)
    assert signed_in(accounts, made.token) == [True]
    later = time.time() + 1001
    monkeypatch.setattr("jumar.people.tokens.time.time", lambda: later)
    # Known from before, and asked of the database anew.
    assert signed_in(accounts, made.token) == [False]
    accounts.tokens.forget()
    assert signed_in(accounts, made.token) == [False]
    assert accounts.tokens.of("ann") == ()
    accounts.tokens.new("root", "x")
    with database.read() as connection:
        labels = connection.execute(select(tokens.c.label)).scalars().all()
    assert "short" not in labels


@pytest.mark.parametrize("label", ["", "  ", "x" * 129, "a\nb", "a\0b", "\x1b[31mred", "\ud800"])
def test_a_name_that_cannot_be_shown_is_refused(accounts: Accounts, label: str) -> None:
    with pytest.raises(BadInput, match="token's name"):
        accounts.tokens.new("ann", label)


def test_the_last_use_is_written_at_most_once_an_hour(
    accounts: Accounts, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[object] = []
    real = database.write_later

    def counted(change: Callable[..., object]) -> None:
        writes.append(change)
        real(change)

    monkeypatch.setattr(database, "write_later", counted)
    made = accounts.tokens.new("ann", "ci")
    assert accounts.tokens.of("ann")[0].used_at is None
    for _ in range(100):
        accounts.tokens.user_of(made.token)
    assert len(writes) == 1
    database.write(lambda _: None)
    assert accounts.tokens.of("ann")[0].used_at == pytest.approx(time.time(), abs=3600)
    # Known no more, it is read from the table, and that is use enough for the hour.
    accounts.tokens.forget()
    accounts.tokens.user_of(made.token)
    assert len(writes) == 1
    later = time.time() + 3700
    monkeypatch.setattr("jumar.people.tokens.time.time", lambda: later)
    accounts.tokens.user_of(made.token)
    assert len(writes) == 2


def test_a_password_is_changed_by_who_knows_the_old_one(accounts: Accounts) -> None:
    here, elsewhere = accounts.sign_in("ann", OLD), accounts.sign_in("ann", OLD)
    named = accounts.tokens.new("ann", "ci").token
    code = accounts.login_code("ann")
    with pytest.raises(NotAllowed, match="old password is wrong"):
        accounts.change_password("ann", "guess", NEW, keep=here)
    with pytest.raises(BadInput):
        accounts.change_password("ann", OLD, "short", keep=here)
    assert signed_in(accounts, here, elsewhere, named) == [True, True, True]
    accounts.change_password("ann", OLD, NEW, keep=here)
    assert signed_in(accounts, here, elsewhere, named) == [True, False, True]
    with pytest.raises(NotSignedIn):
        accounts.redeem_login_code(code)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", OLD)
    assert accounts.sign_in("ann", NEW)


def test_who_has_no_password_yet_sets_the_first_one(accounts: Accounts) -> None:
    accounts.change_password("root", "", NEW, keep="")
    assert accounts.sign_in("root", NEW)
    with pytest.raises(NotAllowed):
        accounts.change_password("root", "", OLD, keep="")


def test_a_reset_ends_all_that_let_in_before_and_gives_a_password_for_a_day(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [accounts.sign_in("ann", OLD), accounts.tokens.new("ann", "ci").token]
    code, others = accounts.login_code("ann"), accounts.tokens.new("root", "x").token
    assert all(signed_in(accounts, *held))
    given = accounts.reset_password("ann")
    assert given.password not in repr(given)
    assert signed_in(accounts, *held, others) == [False, False, True]
    with pytest.raises(NotSignedIn):
        accounts.redeem_login_code(code)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", OLD)
    token = accounts.sign_in("ann", given.password)
    now = time.time()
    monkeypatch.setattr("jumar.people.accounts.time.time", lambda: now + 25 * 3600)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", given.password)
    # Nor does a session from that day make a password without knowing one.
    with pytest.raises(NotAllowed):
        accounts.change_password("ann", "", NEW, keep=token)
    monkeypatch.undo()
    accounts.change_password("ann", given.password, NEW, keep=token)
    monkeypatch.setattr("jumar.people.accounts.time.time", lambda: now + 25 * 3600)
    assert accounts.sign_in("ann", NEW)


@pytest.mark.parametrize("name", ["nobody", "", "a\0b", "x" * 1000])
def test_nobodys_password_is_not_reset(accounts: Accounts, name: str) -> None:
    with pytest.raises(NotFound):
        accounts.reset_password(name)


def test_nothing_asked_for_before_a_reset_outlives_it(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    stolen = accounts.tokens.new("ann", "stolen").token
    proof = still_held(stolen)
    real = accounts_module.matches

    def matches_slowly(password: str, stored: str | None) -> bool:
        found = real(password, stored)
        accounts.reset_password("ann")
        return found

    monkeypatch.setattr(accounts_module, "matches", matches_slowly)
    # The password was right when it was looked at, and had been replaced when the token was made.
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", OLD)
    with pytest.raises(NotSignedIn):
        accounts.tokens.new("ann", "another", proof=proof)
    with pytest.raises(NotSignedIn):
        accounts.login_code("ann", proof)
    assert accounts.tokens.of("ann") == ()


def test_tokens_of_an_older_jumar_keep_working_and_sign_ins_among_them_end(
    database_url: str,
) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    migrate(engine, "0002")
    labels = {"jm_a": "embedded", "jm_b": "ci", "jm_c": "browser"}
    with engine.begin() as connection:
        connection.execute(
            sql_text("INSERT INTO users (name, role, created_at) VALUES ('ann', 'member', 1)")
        )
        for secret, label in labels.items():
            connection.execute(
                sql_text(
                    'INSERT INTO tokens (digest, "user", label, created_at) '
                    "VALUES (:digest, 'ann', :label, 1)"
                ),
                {"digest": digest(secret), "label": label},
            )
    engine.dispose()
    database = open_database(database_url)
    accounts = Accounts(database)
    assert all(signed_in(accounts, *labels))
    listed = {token.label: token for token in accounts.tokens.of("ann")}
    assert {label: token.kind for label, token in listed.items()} == {
        "embedded": "server",
        "ci": "token",
        "browser": "session",
    }
    assert [label for label, token in listed.items() if token.expires_at] == ["browser"]
    assert len({token.id for token in listed.values()}) == 3
    database.close()


def test_the_servers_own_token_is_not_taken_back_by_its_id(accounts: Accounts) -> None:
    own = next(token for token in accounts.tokens.of("root") if token.kind == "server")
    with pytest.raises(Conflict, match="belongs to the server itself"):
        accounts.tokens.revoke_by_id(own.id, user="root")
    assert own in accounts.tokens.of("root")
