"""The staging of attempts: what their data needs, written down for the launcher and for the programs
that carry it."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.engine.base import SEND_LIMIT_S, Attempt
from jumar.engine.shared.files import input_paths, output_paths
from jumar.errors import SubmitRefused
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.whole import write_json
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.urls import is_remote
from jumar.store.folder import FolderStore
from jumar.store.places import open_place
from jumar.store.private import write_private
from jumar.store.staging.plan import Staged, StagePlan, plan_json
from jumar.store.staging.status import read_status
from jumar.store.users import UserStores


@dataclass
class Stages:
    """How the data of one home's jobs is carried."""

    stores: UserStores
    cache_bytes: int = 100 * 10**9
    every_s: float = 180.0
    patience_s: float = 120.0

    def check(self, spec: JobSpec, user: str) -> None:
        """Refuse addresses where nothing is, as far as that can be known without a network."""
        urls = [*spec.inputs.values(), *spec.outputs.values(), *filter(None, [spec.ckpt])]
        if not any(map(is_remote, urls)):
            return
        config = self.stores.job_config(user)
        for url in filter(is_remote, urls):
            place = open_place(url, config)
            if not isinstance(place.store, FolderStore):
                continue
            key = place.key.rstrip("/")
            path = place.store.path(key) if key else place.store.root
            if url in spec.inputs.values() and not os.path.exists(path):
                raise SubmitRefused(
                    f"the input {url} does not exist", hint="upload it with: jumar data push"
                )

    def prepare(self, attempt: Attempt, directory: JobDir) -> dict[str, Any] | None:
        """Write the user's stores and the plan; gives what the launcher is told, None when there is
        nothing to carry."""
        os.makedirs(directory.attempt, exist_ok=True)
        write_private(Path(directory.store_file), self.stores.job_values(attempt.user))
        plan = self._plan(attempt, directory)
        if not plan.inputs and not plan.sent:
            return None
        write_json(directory.stage_plan, plan_json(plan))
        return {
            "bring": _program("bring", directory),
            "keep": _program("keep", directory) if plan.sent else None,
            "send": _program("send", directory) if plan.sent else None,
            "status": plan.status,
            "send_limit_s": SEND_LIMIT_S,
        }

    def read(self, directory: JobDir) -> StagingRecord | None:
        """How far it is."""
        return read_status(Path(directory.stage_status))

    def resend(self, attempt: Attempt, directory: JobDir) -> list[str]:
        """Write the plan anew and give the module, with its arguments, that sends what was left."""
        # How long to wait, or where the built-in store is, may have changed since.
        write_json(directory.stage_plan, plan_json(self._plan(attempt, directory)))
        return _module("send", directory)

    def _plan(self, attempt: Attempt, directory: JobDir) -> StagePlan:
        spec, folder = attempt.spec, attempt.directory
        ckpt = None
        if spec.ckpt is not None and is_remote(spec.ckpt):
            ckpt = Staged(url=spec.ckpt, path=str(folder / "ckpt"))
        return StagePlan(
            home=str(self.stores.home),
            user=attempt.user,
            owner=self.stores.owner,
            status=directory.stage_status,
            inputs=_staged(spec.inputs, input_paths(spec, folder)),
            outputs=_staged(spec.outputs, output_paths(spec, folder)),
            ckpt=ckpt,
            cache_bytes=self.cache_bytes,
            every_s=self.every_s,
            patience_s=self.patience_s,
        )


def _staged(urls: dict[str, str], paths: dict[str, str]) -> tuple[Staged, ...]:
    return tuple(Staged(url=url, path=paths[name]) for name, url in urls.items() if is_remote(url))


def _program(step: str, directory: JobDir) -> list[str]:
    # -P: a file in the current folder must not be imported in place of ours.
    return [sys.executable, "-P", "-m", *_module(step, directory)]


def _module(step: str, directory: JobDir) -> list[str]:
    return ["jumar.store.staging", step, directory.stage_plan]
