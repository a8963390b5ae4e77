"""Credentials for object stores, and the JSON files that only their owner can read, which hold them.

`store.json` in the platform's home (on a server, `store-users/NAME.json` for each user) holds one
credential for `obs` and one for `s3`. While the built-in store is behind the S3 door it also holds
`door`, which `obs://` falls back to for users without an `obs` credential. A job gets such a file
through `JUMAR_STORE_FILE`; moxing reads the same format. `AWS_*` variables replace a missing `s3`
credential. Secrets never appear in a repr or an error."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, HomeUnusable
from jumar.inject.moxing_path.jumar_s3 import S3, Endpoint, S3Error
from jumar.spec.names import is_user_name
from jumar.store.errors import LOGIN, NETWORK, explain_network, explain_s3
from jumar.store.hub import HubServer
from jumar.wholefile import write_whole

CREDENTIALS_FILE = "store.json"
STORE_FILE_VARIABLE = "JUMAR_STORE_FILE"
KINDS = ("obs", "s3")
_REGION = re.compile(r"[a-z]{2,8}(-[a-z0-9]+){1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key for one server."""

    endpoint: str
    region: str = "us-east-1"
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    path_style: bool = True
    makes_buckets: bool = False
    """Whether a bucket is created on the first write to it, as in a folder."""
    certificate: str = ""
    """The one that the server must show, if it is not of an authority that everybody trusts."""

    def wire(self) -> Endpoint:
        """The credential in the form that the S3 client takes."""
        return Endpoint(
            self.endpoint,
            self.access_key,
            self.secret_key,
            self.region,
            self.token,
            self.path_style,
            self.certificate,
        )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the built-in store is and which credentials exist."""

    builtin: Path
    """The folder whose subfolders are the buckets of `obs://` when there is no credential."""
    state: Path
    """Where unfinished uploads are recorded."""
    obs: Credential | None = None
    s3: Credential | None = None
    from_site: Callable[[], Credential | None] | None = None
    """What tells, on a site, the user's credential for its store, or raises an error; asked only when it
    is needed. A folder of the user's own would be one that no job sees."""
    hub: Callable[[], HubServer] | None = None
    """What tells the server that `hub://` is of, where there is one to ask."""

    def credential(self, scheme: str) -> Credential | None:
        """The credential for URLs of this scheme; None means the built-in store."""
        found = self.obs if scheme == "obs" else self.s3 or self.obs
        return self.from_site() if found is None and self.from_site is not None else found


def obs_credential(
    region: str, access_key: str, secret_key: str, endpoint: str = "", token: str = ""
) -> Credential:
    """A credential for a Huawei Cloud region, or for the S3 server at `endpoint`."""
    if endpoint:
        given = Credential(
            endpoint.rstrip("/"), region or "us-east-1", access_key, secret_key, token
        )
        try:
            S3(given.wire())
        except ValueError as error:
            raise BadInput(
                f"{endpoint!r} is not the address of an S3 server",
                hint="for example http://HOST:7480",
            ) from error
        return given
    if not _REGION.fullmatch(region):
        raise BadInput(f"{region!r} is not a region", hint="for example cn-north-4")
    address = f"https://obs.{region}.myhuaweicloud.com"
    return Credential(address, region, access_key, secret_key, token, path_style=False)


def validate(credential: Credential) -> tuple[str, ...]:
    """Check the key with the server; returns the buckets, if the key can list them."""
    what = "the list of buckets"
    try:
        return tuple(S3(credential.wire(), timeout_s=20).buckets())
    except ValueError as error:
        # It does not fit into a header. Never print the key itself.
        raise BadInput(
            "the access key contains characters that no key can have", hint=LOGIN
        ) from error
    except S3Error as error:
        if error.code == "AccessDenied":
            # The signature was right; the key just may not list all buckets.
            return ()
        raise explain_s3(error, what, credential.endpoint) from error
    except NETWORK as error:
        raise explain_network(error, what, credential.endpoint) from error


def load_config(home: Path, environ: Mapping[str, str] | None = None) -> StoreConfig:
    """The stores of this process: from the job's file or the home's, then from the environment."""
    env = os.environ if environ is None else environ
    given = env.get(STORE_FILE_VARIABLE)
    path = Path(given) if given else credentials_path(home)
    return config_of(home, read_private(path), path, env)


def config_of(
    home: Path, values: dict[str, Any], path: Path, env: Mapping[str, str]
) -> StoreConfig:
    """The stores that the values of a file describe; `path` is for error messages."""
    return StoreConfig(
        builtin=Path(str(values.get("builtin") or home / "store")),
        state=home / "transfers",
        obs=_credential(values.get("obs") or values.get("door"), path),
        s3=_credential(values.get("s3"), path) or _aws(env),
    )


def door_of(home: Path) -> Credential | None:
    """The platform's credential for its S3 door; None if the built-in store is a folder."""
    path = credentials_path(home)
    return _credential(read_private(path).get("door"), path)


def credentials_path(home: Path, user: str | None = None) -> Path:
    """The credentials file of the home, or of one of a server's users."""
    if user is None:
        return home / CREDENTIALS_FILE
    if not is_user_name(user):
        raise BadInput(f"{user!r} is not a user name")
    return home / "store-users" / f"{user}.json"


def save_credential(path: Path, kind: str, credential: Credential | None) -> None:
    """Save or remove a credential; only the owner can read the file."""
    values = read_private(path)
    values.pop(kind, None)
    if credential is not None:
        values[kind] = as_json(credential)
    write_private(path, values)


def as_json(credential: Credential) -> dict[str, Any]:
    """The credential as it is written to its file."""
    return {name: getattr(credential, name) for name in Credential.__dataclass_fields__}


def _credential(value: object, path: Path) -> Credential | None:
    if value is None:
        return None
    try:
        return Credential(**cast("dict[str, Any]", value))
    except TypeError:
        raise HomeUnusable(
            f"{path}: a credential has the wrong fields", hint="remove it, then: jumar login obs"
        ) from None


def _aws(env: Mapping[str, str]) -> Credential | None:
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    access, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    token = env.get("AWS_SESSION_TOKEN", "")
    if not endpoint:
        address = f"https://s3.{region}.amazonaws.com"
        return Credential(address, region, access, secret, token, path_style=False)
    return Credential(endpoint.rstrip("/"), region, access, secret, token)


def write_private(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file of mode 0600, completely or not at all."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The only copy of a key must not be an empty file after a power failure.
        write_whole(path, json.dumps(dict(values)), private=True, durable=True)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error


def read_private(path: Path) -> dict[str, Any]:
    """The values of such a file; empty if it does not exist."""
    try:
        values: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise HomeUnusable(f"cannot read {path}: {type(error).__name__}") from error
    if not isinstance(values, dict):
        raise HomeUnusable(f"{path} is not a JSON object", hint="move it away, then try again")
    return cast("dict[str, Any]", values)
