"""The part of `Client` about people: users, groups and shares, sign-ins, passwords, tokens
and keys for stores."""

from typing import Any, cast

from jumar.client.connection import Call, Connection, decode, part
from jumar.errors import ServerUnreachable
from jumar.spec.people import GivenPassword, NewToken, SshKeyRecord, TokenRecord, UserRecord
from jumar.spec.records import ModelArtsKeys, S3Keys, StoreAccount
from jumar.spec.shares import GroupRecord, ShareReport
from jumar.spec.usage import UsedBy


class PeopleCalls:
    """Calls that need a connection and nothing else."""

    _connection: Connection

    def me(self) -> UserRecord:
        """Whose token this is."""
        return decode(UserRecord, self._ask("GET", "/me"))

    def users(self) -> tuple[UserRecord, ...]:
        """All users, for admins."""
        return decode(tuple[UserRecord, ...], self._ask("GET", "/users"))

    def set_role(self, name: str, role: str) -> UserRecord:
        """Make a user `member`, `admin` or `pending`, for admins."""
        return decode(UserRecord, self._ask("PATCH", f"/users/{part(name)}", {"role": role}))

    def reset_password(self, name: str) -> GivenPassword:
        """A password for a user to begin anew with, for admins; all that user's tokens end."""
        return decode(GivenPassword, self._once("POST", f"/users/{part(name)}/reset"))

    def change_password(self, old: str, new: str) -> None:
        """Another password for this user; all other sessions of theirs end."""
        self._once("PUT", "/me/password", {"old": old, "new": new})

    def register(self, name: str, password: str) -> UserRecord:
        """Ask for an account; an admin lets the user in."""
        body = {"name": name, "password": password}
        return decode(UserRecord, self._once("POST", "/users", body))

    def sign_in(self, name: str, password: str) -> str:
        """A token for a name and password."""
        return _text(self._once("POST", "/session", {"name": name, "password": password}), "token")

    def tokens(self, user: str | None = None) -> tuple[TokenRecord, ...]:
        """This user's tokens and sessions, newest first; those of another user, for admins."""
        call = Call(method="GET", path="/tokens", query={"user": user}, repeatable=True)
        return decode(tuple[TokenRecord, ...], self._connection.json(call))

    def new_token(self, label: str) -> str:
        """Another token for this user, valid until revoked."""
        return self.create_token(label).token

    def create_token(self, label: str, *, expires_s: int | None = None) -> NewToken:
        """Another token for this user, with its secret; good for `expires_s` or until revoked."""
        body = {"label": label, "expires_s": expires_s}
        return decode(NewToken, self._once("POST", "/tokens", body))

    def revoke_token(self, token_id: str) -> None:
        """Take a token back, by the id that `tokens` gives; anybody's, for admins."""
        self._once("DELETE", f"/tokens/{part(token_id)}")

    def ssh_keys(self) -> tuple[SshKeyRecord, ...]:
        """The public keys with which this user comes into jobs by SSH."""
        return decode(tuple[SshKeyRecord, ...], self._ask("GET", "/ssh-keys"))

    def add_ssh_key(self, key: str, *, label: str = "") -> SshKeyRecord:
        """Add one, given as the line of its file."""
        return decode(SshKeyRecord, self._ask("POST", "/ssh-keys", {"key": key, "label": label}))

    def remove_ssh_key(self, fingerprint: str) -> None:
        """Remove one."""
        self._once("DELETE", "/ssh-keys", {"fingerprint": fingerprint})

    def stores(self) -> tuple[StoreAccount, ...]:
        """Where the platform has keys of this user for."""
        return decode(tuple[StoreAccount, ...], self._ask("GET", "/stores"))

    def give_store_key(
        self,
        kind: str,
        *,
        region: str = "",
        endpoint: str = "",
        access_key: str,
        secret_key: str,
        token: str = "",
    ) -> StoreAccount:
        """Have this user's jobs use a key for `obs://` or `s3://`, once the store has taken it."""
        body = {
            "region": region,
            "endpoint": endpoint,
            "access_key": access_key,
            "secret_key": secret_key,
            **({"token": token} if token else {}),
        }
        return decode(StoreAccount, self._ask("PUT", f"/stores/{part(kind)}", body))

    def forget_store_key(self, kind: str) -> None:
        """Take the key back."""
        self._ask("DELETE", f"/stores/{part(kind)}")

    def s3_keys(self, *, renew: bool = False) -> S3Keys:
        """This user's keys for the server's S3 door; with `renew`, others than before."""
        return decode(S3Keys, self._once("POST", "/me/s3-keys", {"renew": renew}))

    def modelarts_keys(self, *, renew: bool = False) -> ModelArtsKeys:
        """What this user's clients of ModelArts need; with `renew`, other keys than before."""
        return decode(ModelArtsKeys, self._once("POST", "/me/modelarts-keys", {"renew": renew}))

    def share(self) -> ShareReport:
        """Who has used what, who is next, and why."""
        return decode(ShareReport, self._ask("GET", "/share"))

    def groups(self) -> tuple[GroupRecord, ...]:
        """All groups, with everybody in them."""
        return decode(tuple[GroupRecord, ...], self._ask("GET", "/groups"))

    def usage(self, days: int = 7) -> tuple[UsedBy, ...]:
        """Who used how much, today and in the days before."""
        return decode(tuple[UsedBy, ...], self._ask("GET", f"/usage?days={days}"))

    def create_group(self, name: str, *, share: float = 1.0) -> GroupRecord:
        """Make a group, for admins."""
        return decode(GroupRecord, self._once("POST", "/groups", {"name": name, "share": share}))

    def set_group_share(self, name: str, share: float) -> GroupRecord:
        """Give a group another share of the site, for admins."""
        return decode(GroupRecord, self._ask("PATCH", f"/groups/{part(name)}", {"share": share}))

    def delete_group(self, name: str) -> None:
        """Remove a group, for admins; whoever is in it goes back to `default`."""
        self._once("DELETE", f"/groups/{part(name)}")

    def add_to_group(self, name: str, user: str, *, share: float | None = None) -> GroupRecord:
        """Move a user into a group, or give them another share of it, for admins."""
        path = f"/groups/{part(name)}/members/{part(user)}"
        return decode(GroupRecord, self._ask("PUT", path, {"share": share}))

    def remove_from_group(self, name: str, user: str) -> GroupRecord:
        """Put a user back into `default`, for admins."""
        path = f"/groups/{part(name)}/members/{part(user)}"
        return decode(GroupRecord, self._once("DELETE", path))

    def login_url(self) -> str:
        """An address that opens the pages signed in as this user, once."""
        return _text(self._once("POST", "/login-codes"), "url")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return self._connection.json(Call(method=method, path=path, body=body, repeatable=True))

    def _once(self, method: str, path: str, body: object = None) -> Any:
        return self._connection.json(Call(method=method, path=path, body=body))


def _text(answer: Any, field: str) -> str:
    value = cast("dict[str, Any]", answer).get(field) if isinstance(answer, dict) else None
    if not isinstance(value, str):
        raise ServerUnreachable(f"the server's answer has no {field}", hint="is it a jumar server?")
    return value
