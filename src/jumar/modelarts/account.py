"""The account at ModelArts that a home has: where, whose, and a bucket for what jobs need."""

import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jumar.errors import BadInput, NotFound
from jumar.modelarts.wanted import store_url
from jumar.store.credentials import (
    Credential,
    StoreConfig,
    obs_credential,
    read_private,
    write_private,
)
from jumar.tls import is_certificate

ACCOUNT_FILE = "modelarts.json"
_REGION = re.compile(r"[a-z]{2,8}(-[a-z0-9]+){1,4}", re.ASCII)
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Secrets never appear in a repr or an error."""

    endpoint: str
    project_id: str
    bucket: str
    obs_endpoint: str
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    trust: str = ""
    """What the certificates are checked with, where this machine does not trust them; see `jumar.tls`."""

    def obs(self) -> Credential:
        """The same keys for OBS."""
        made = obs_credential(self.region, self.access_key, self.secret_key, self.obs_endpoint)
        return replace(made, certificate=self.trust if is_certificate(self.trust) else "")

    def stores(self, home: Path) -> StoreConfig:
        """The stores as a job of this account sees them."""
        return StoreConfig(builtin=home / "store", state=home / "transfers", obs=self.obs())


def new_account(
    *, region: str, endpoint: str, obs_endpoint: str, project_id: str, bucket: str
) -> Account:
    """An account without its keys yet; BadInput for what cannot be an address."""
    if region and not _REGION.fullmatch(region):
        raise BadInput(f"{region!r} is not a region", hint="for example: cn-north-4")
    if not endpoint and not region:
        raise BadInput(
            "--region or --endpoint is missing",
            hint="jumar login modelarts --region cn-north-4 --project ID --bucket NAME",
        )
    if endpoint and not region and not obs_endpoint:
        raise BadInput("--obs-endpoint is missing", hint="the address of OBS that goes with it")
    if not _PROJECT.fullmatch(project_id):
        raise BadInput(f"{project_id!r} is not a project id")
    address = endpoint or f"https://modelarts.{region}.myhuaweicloud.com"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise BadInput(f"{address!r} is not an address", hint="for example: https://trainer:7420")
    store_url(f"/{bucket}/")
    return Account(
        endpoint=address.rstrip("/"),
        project_id=project_id,
        bucket=bucket,
        obs_endpoint=obs_endpoint,
        region=region,
    )


def save_account(home: Path, account: Account | None) -> Path:
    """Keep the account in a file that only its owner can read; None forgets it."""
    path = home / ACCOUNT_FILE
    if account is None:
        path.unlink(missing_ok=True)
    else:
        write_private(path, asdict(account))
    return path


def has_account(home: Path) -> bool:
    """Whether somebody has logged in from this home."""
    return (home / ACCOUNT_FILE).exists()


def load_account(home: Path) -> Account:
    """The account; NotFound with how to give one."""
    values: dict[str, Any] = read_private(home / ACCOUNT_FILE)
    known = {one.name for one in fields(Account)}
    if not values or not known >= set(values):
        raise NotFound(
            "no account at ModelArts is known here",
            hint="jumar login modelarts --region cn-north-4",
        )
    return Account(**values)
