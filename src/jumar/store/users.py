"""Which credentials are used for whom: on a shared platform, each user's own.

The home's credentials are its owner's alone; at the S3 door everybody has their own keys. What is
saved here is given out only to the user's own jobs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumar.spec.records import StoreAccount
from jumar.store.credentials import (
    KINDS,
    Credential,
    StoreConfig,
    as_json,
    config_of,
    credentials_path,
    door_of,
    read_private,
    save_credential,
)
from jumar.store.keys import user_keys


@dataclass(frozen=True, slots=True)
class UserStores:
    """The stores of one home's users."""

    home: Path
    owner: str = ""
    """The user who owns the home; empty if none of them does."""

    def keep(self, user: str, kind: str, credential: Credential) -> None:
        """Use this credential for the user's jobs from now on."""
        save_credential(self._path(user), kind, credential)

    def forget(self, user: str, kind: str) -> None:
        """Stop using the user's credential."""
        save_credential(self._path(user), kind, None)

    def known(self, user: str) -> tuple[StoreAccount, ...]:
        """The stores that the user has credentials for, without the secrets."""
        values = read_private(self._path(user))
        return tuple(
            StoreAccount(
                kind=kind, endpoint=values[kind]["endpoint"], region=values[kind]["region"]
            )
            for kind in KINDS
            if kind in values
        )

    def job_values(self, user: str) -> dict[str, Any]:
        """The stores of a job of `user`, as written to the job's own file, which moxing reads."""
        values = read_private(self._path(user))
        values.pop("door", None)
        door = door_of(self.home)
        if door is not None and "obs" not in values:
            keys = user_keys(self.home, user)
            own = replace(door, access_key=keys.access_key, secret_key=keys.secret_key)
            values["obs"] = as_json(own)
        return {"builtin": str(self.home / "store"), **values}

    def job_config(self, user: str) -> StoreConfig:
        """The stores of a job of `user`, ignoring the variables of this process."""
        return config_of(self.home, self.job_values(user), self._path(user), {})

    def _path(self, user: str) -> Path:
        return credentials_path(self.home, None if user == self.owner else user)
