"""Whose keys are used for whom: each user's own, on a platform that several share.

The keys of the home are its owner's alone; at the S3 door, where the built-in store is behind one,
everybody has their own. What is kept here is never given out again, but to the user's own jobs."""

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
    save_credential,
)
from jumar.store.keys import user_keys
from jumar.store.private import read_private


@dataclass(frozen=True, slots=True)
class UserStores:
    """The stores of one home's users."""

    home: Path
    owner: str = ""
    """The user who owns the home; empty means: nobody of them."""

    def keep(self, user: str, kind: str, credential: Credential) -> None:
        """Use this key for the user's jobs from now on."""
        save_credential(self._path(user), kind, credential)

    def forget(self, user: str, kind: str) -> None:
        """Use no key of the user's any more."""
        save_credential(self._path(user), kind, None)

    def known(self, user: str) -> tuple[StoreAccount, ...]:
        """Where the user has keys for; not the keys."""
        values = read_private(self._path(user))
        return tuple(
            StoreAccount(
                kind=kind, endpoint=values[kind]["endpoint"], region=values[kind]["region"]
            )
            for kind in KINDS
            if kind in values
        )

    def job_values(self, user: str) -> dict[str, Any]:
        """The stores of a job of `user`, in the form of its own file, which moxing reads."""
        values = read_private(self._path(user))
        values.pop("door", None)
        door = door_of(self.home)
        if door is not None and "obs" not in values:
            keys = user_keys(self.home, user)
            own = replace(door, access_key=keys.access_key, secret_key=keys.secret_key)
            values["obs"] = as_json(own)
        return {"builtin": str(self.home / "store"), **values}

    def job_config(self, user: str) -> StoreConfig:
        """The stores of a job of `user`, whatever variables this process has."""
        return config_of(self.home, self.job_values(user), self._path(user), {})

    def _path(self, user: str) -> Path:
        return credentials_path(self.home, None if user == self.owner else user)
