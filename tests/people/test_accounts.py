import hashlib

import pytest
from sqlalchemy import Connection, select, update

from jumar.database.access import Database
from jumar.database.tables import login_codes, tokens, users
from jumar.errors import BadInput, Conflict, NotFound, NotSignedIn
from jumar.people.accounts import Accounts


@pytest.fixture
def accounts(database: Database) -> Accounts:
    return Accounts(database)


def test_the_owner_of_the_home_is_an_administrator(accounts: Accounts) -> None:
    token = accounts.bootstrap("root")
    user = accounts.tokens.user_of(token)
    assert user is not None
    assert (user.name, user.role) == ("root", "admin")


def test_each_start_gives_the_owner_a_token_and_all_of_them_work(accounts: Accounts) -> None:
    first, second = accounts.bootstrap("root"), accounts.bootstrap("root")
    assert first != second
    assert accounts.tokens.user_of(first) == accounts.tokens.user_of(second)


def test_who_registers_waits_for_an_administrator(accounts: Accounts) -> None:
    user = accounts.register("ann", "correct horse")
    assert user.role == "pending"
    assert accounts.tokens.user_of(accounts.sign_in("ann", "correct horse")) == user


def test_a_new_role_holds_for_tokens_given_before(accounts: Accounts) -> None:
    accounts.bootstrap("root")
    accounts.register("ann", "correct horse")
    token = accounts.sign_in("ann", "correct horse")
    assert accounts.tokens.user_of(token).role == "pending"  # pyright: ignore[reportOptionalMemberAccess]
    accounts.set_role("ann", "member")
    assert accounts.tokens.user_of(token).role == "member"  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("name", "password"),
    [("ann", "wrong horse"), ("ann", ""), ("nobody", "correct horse"), ("root", "")],
)
def test_a_wrong_password_and_an_unknown_name_are_told_the_same(
    accounts: Accounts, name: str, password: str
) -> None:
    accounts.bootstrap("root")
    accounts.register("ann", "correct horse")
    with pytest.raises(NotSignedIn, match=r"^wrong name or password$"):
        accounts.sign_in(name, password)


@pytest.mark.parametrize("token", ["", "jm_", "jm_guess", "' OR 1=1 --", "x" * 10_000])
def test_a_guessed_token_is_nobodys(accounts: Accounts, token: str) -> None:
    accounts.bootstrap("root")
    assert accounts.tokens.user_of(token) is None


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "-x", "名"])
def test_a_name_that_could_confuse_is_refused(accounts: Accounts, name: str) -> None:
    with pytest.raises(BadInput):
        accounts.register(name, "correct horse")


@pytest.mark.parametrize("password", ["short", "x" * 1025])
def test_a_password_has_bounds(accounts: Accounts, password: str) -> None:
    with pytest.raises(BadInput, match="password"):
        accounts.register("ann", password)


def test_a_name_is_given_once(accounts: Accounts) -> None:
    accounts.register("ann", "correct horse")
    with pytest.raises(Conflict):
        accounts.register("ann", "another password")
    assert accounts.sign_in("ann", "correct horse")


def test_the_last_administrator_stays_one(accounts: Accounts) -> None:
    accounts.bootstrap("root")
    with pytest.raises(Conflict):
        accounts.set_role("root", "member")
    assert [user.role for user in accounts.users()] == ["admin"]


def test_roles_and_names_that_do_not_exist_are_refused(accounts: Accounts) -> None:
    accounts.bootstrap("root")
    with pytest.raises(BadInput):
        accounts.set_role("root", "king")
    with pytest.raises(NotFound):
        accounts.set_role("nobody", "member")


def test_a_login_code_works_once(accounts: Accounts) -> None:
    accounts.bootstrap("root")
    code = accounts.login_code("root")
    user = accounts.tokens.user_of(accounts.redeem_login_code(code))
    assert user is not None
    assert user.name == "root"
    with pytest.raises(NotSignedIn):
        accounts.redeem_login_code(code)


def test_an_old_login_code_is_refused(accounts: Accounts, database: Database) -> None:
    accounts.bootstrap("root")
    code = accounts.login_code("root")
    database.write(lambda c: c.execute(update(login_codes).values(expires_at=1.0)))
    with pytest.raises(NotSignedIn):
        accounts.redeem_login_code(code)


def test_no_secret_can_be_read_from_the_database(accounts: Accounts, database: Database) -> None:
    token = accounts.bootstrap("root")
    accounts.register("ann", "correct horse")
    code = accounts.login_code("root")
    with database.read() as connection:
        stored = repr([connection.execute(select(t)).all() for t in (users, tokens, login_codes)])
    assert not any(secret in stored for secret in (token, "correct horse", code))


def test_a_password_of_an_older_jumar_lets_in_and_is_stored_as_argon2_from_then_on(
    accounts: Accounts, database: Database
) -> None:
    accounts.register("ann", "correct horse")
    salt = bytes(16)
    key = hashlib.scrypt(b"correct horse", salt=salt, n=2**14, r=8, p=1)

    def age(connection: Connection) -> None:
        old = f"{salt.hex()}${key.hex()}"
        connection.execute(update(users).where(users.c.name == "ann").values(password=old))

    database.write(age)
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", "wrong horse")
    accounts.sign_in("ann", "correct horse")
    with database.read() as connection:
        stored = connection.execute(select(users.c.password)).scalar_one()
    assert stored.startswith("$argon2id$")
    accounts.sign_in("ann", "correct horse")
    with pytest.raises(NotSignedIn):
        accounts.sign_in("ann", "wrong horse")
