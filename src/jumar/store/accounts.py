"""Who asks which server: keys of object stores, kept in a file that only its owner can read.

`store.json` in the platform's home (or a user's own, `store-users/NAME.json`, on a server) has an
account for `obs` and one for `s3`; `door` is there while the built-in store is behind the S3 door,
and is what `obs://` means to those who have no account of their own. A job gets such a file through `JUMAR_STORE_FILE`; moxing reads
the same form. `AWS_*` variables stand in for an `s3` account. Secrets are in no repr and no error."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, HomeUnusable
from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, S3Error
from jumar.store.explain import LOGIN, NETWORK, explain_network, explain_s3
from jumar.store.private import read_private, write_private

ACCOUNTS_FILE = "store.json"
STORE_FILE_VARIABLE = "JUMAR_STORE_FILE"
KINDS = ("obs", "s3")
_REGION = re.compile(r"[a-z]{2,8}(-[a-z0-9]+){1,4}", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Account:
    """A key for one server."""

    endpoint: str
    region: str = "us-east-1"
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    path_style: bool = True
    makes_buckets: bool = False
    """Whether a bucket is made when something is first written to it, as in a folder."""

    def wire(self) -> Endpoint:
        """The account as the S3 client takes it."""
        return Endpoint(
            self.endpoint,
            self.access_key,
            self.secret_key,
            self.region,
            self.token,
            self.path_style,
        )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the built-in store is and which accounts there are."""

    builtin: Path
    """The folder whose folders are the buckets of `obs://` where no account is given."""
    state: Path
    """Where unfinished uploads are remembered."""
    obs: Account | None = None
    s3: Account | None = None

    def account(self, scheme: str) -> Account | None:
        """Who asks for URLs of this scheme; None means the built-in store."""
        return self.obs if scheme == "obs" else self.s3 or self.obs


def obs_account(region: str, access_key: str, secret_key: str, endpoint: str = "") -> Account:
    """The account of a Huawei Cloud region, or of another S3 server when `endpoint` is given."""
    if endpoint:
        given = Account(endpoint.rstrip("/"), region or "us-east-1", access_key, secret_key)
        try:
            S3(given.wire())
        except ValueError as error:
            raise BadInput(
                f"{endpoint!r} is not the address of an S3 server", hint="such as http://HOST:7480"
            ) from error
        return given
    if not _REGION.fullmatch(region):
        raise BadInput(f"{region!r} is not a region", hint="such as cn-north-4")
    address = f"https://obs.{region}.myhuaweicloud.com"
    return Account(address, region, access_key, secret_key, path_style=False)


def validate(account: Account) -> tuple[str, ...]:
    """Ask the server whether it takes the key; gives the buckets, where the key may list them."""
    what = "the list of buckets"
    try:
        return tuple(S3(account.wire(), timeout_s=20).buckets())
    except ValueError as error:
        # No header can carry it; what it is stays untold.
        raise BadInput("the access key has characters that no key has", hint=LOGIN) from error
    except S3Error as error:
        if error.code == "AccessDenied":
            # The signature was right; this key may only not list all buckets.
            return ()
        raise explain_s3(error, what, account.endpoint) from error
    except NETWORK as error:
        raise explain_network(error, what, account.endpoint) from error


def load_config(home: Path, environ: Mapping[str, str] | None = None) -> StoreConfig:
    """The stores of this process: the job's file or the home's, then the environment."""
    env = os.environ if environ is None else environ
    given = env.get(STORE_FILE_VARIABLE)
    path = Path(given) if given else accounts_path(home)
    return config_of(home, read_private(path), path, env)


def config_of(
    home: Path, values: dict[str, Any], path: Path, env: Mapping[str, str]
) -> StoreConfig:
    """The stores that the values of a file name; `path` is for words."""
    return StoreConfig(
        builtin=Path(str(values.get("builtin") or home / "store")),
        state=home / "transfers",
        obs=_account(values.get("obs") or values.get("door"), path),
        s3=_account(values.get("s3"), path) or _aws(env),
    )


def door_of(home: Path) -> Account | None:
    """The platform's account for its S3 door; None while the built-in store is a folder."""
    path = accounts_path(home)
    return _account(read_private(path).get("door"), path)


def accounts_path(home: Path, user: str | None = None) -> Path:
    """Where the accounts of the home, or of one of a server's users, are kept."""
    if user is None:
        return home / ACCOUNTS_FILE
    if not _USER.fullmatch(user):
        raise BadInput(f"{user!r} is not a user's name")
    return home / "store-users" / f"{user}.json"


def save_account(path: Path, kind: str, account: Account | None) -> None:
    """Keep an account, or forget it, readable by the owner only."""
    values = read_private(path)
    values.pop(kind, None)
    if account is not None:
        values[kind] = as_json(account)
    write_private(path, values)


def as_json(account: Account) -> dict[str, Any]:
    """The account as its file has it."""
    return {name: getattr(account, name) for name in Account.__dataclass_fields__}


def _account(value: object, path: Path) -> Account | None:
    if value is None:
        return None
    try:
        return Account(**cast("dict[str, Any]", value))
    except TypeError:
        raise HomeUnusable(
            f"{path}: an account has wrong fields", hint="remove it, then: jumar login obs"
        ) from None


def _aws(env: Mapping[str, str]) -> Account | None:
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    access, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    token = env.get("AWS_SESSION_TOKEN", "")
    if not endpoint:
        address = f"https://s3.{region}.amazonaws.com"
        return Account(address, region, access, secret, token, path_style=False)
    return Account(endpoint.rstrip("/"), region, access, secret, token)
