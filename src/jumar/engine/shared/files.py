"""What the platform writes for an attempt: job.json, request.json, and the plan of its staging."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumar.engine.base import SEND_LIMIT_S, Attempt, StartHindered
from jumar.engine.shared.mounts import NO_MOUNTS, Mounts
from jumar.errors import EngineFailed, SubmitRefused
from jumar.launch.jobdir.files import FORMAT, JobDir, is_below, is_plain, make_folders, outermost
from jumar.launch.jobdir.job import prepare_stop
from jumar.launch.jobdir.news import reserve_result
from jumar.launch.jobdir.safefile import write_json
from jumar.launch.jobdir.trouble import trouble_with
from jumar.launch.processes.left_behind import IDLE_LIMIT_S
from jumar.launch.processes.process import boot_id
from jumar.spec.array import JobArray
from jumar.spec.fields import ArchivedCode, GitCode
from jumar.spec.job import JobSpec
from jumar.spec.records import StagingRecord
from jumar.spec.urls import is_of_hub, is_remote, path_in_hub
from jumar.store.errors import CLOSED_HINT, closed_words
from jumar.store.filecopy import is_within
from jumar.store.folder import FolderStore
from jumar.store.places import open_place
from jumar.store.staging.plan import Staged, StagePlan, plan_json
from jumar.store.staging.status import read_status
from jumar.store.users import UserStores

CardFacts = dict[str, Any]
"""As JSON values, for `jumar.launch.ascend.facts`."""


def write_files(
    directory: JobDir,
    attempt: Attempt,
    *,
    env_cache: Path,
    notify: Path,
    facts: Sequence[CardFacts] = (),
    staging: dict[str, Any] | None = None,
    idle_limit_s: float = IDLE_LIMIT_S,
    mounts: Mounts = NO_MOUNTS,
    container: dict[str, Any] | None = None,
    network: str = "open",
) -> None:
    """Both files, each whole or not at all."""
    try:
        make_folders(directory)
        # An attempt that has begun must be able to say how it ended; without room it does not begin.
        reserve_result(directory)
        # Anew for every attempt: an earlier one may have written them as it likes.
        write_json(directory.job, job_values(attempt, env_cache, mounts, network))
        prepare_stop(directory)
        request = request_values(attempt, notify, facts, staging, idle_limit_s)
        write_json(directory.request, {**request, "container": container})
    except OSError as error:
        raise _explained(attempt, error) from error


def write_plain_files(directory: JobDir, attempt: Attempt) -> None:
    """The same of an attempt that no launcher of ours runs: a list that was lost is made again from them."""
    try:
        make_folders(directory)
        write_json(directory.job, job_values(attempt, Path()))
        write_json(directory.request, request_values(attempt, None, (), None, IDLE_LIMIT_S))
    except OSError as error:
        raise _explained(attempt, error) from error


def _explained(attempt: Attempt, error: OSError) -> StartHindered:
    return StartHindered(trouble_with(error, str(attempt.directory)))


def job_values(
    attempt: Attempt, env_cache: Path, mounts: Mounts = NO_MOUNTS, network: str = "open"
) -> dict[str, Any]:
    """job.json."""
    spec = attempt.spec
    return {
        "format": FORMAT,
        "job_id": attempt.job_id,
        "name": spec.name,
        "user": attempt.user,
        "command": spec.command,
        "code": code_kind(spec),
        "workdir": spec.workdir,
        "git": _git(spec),
        "device": {"kind": spec.device.kind.value, "count": spec.device.count},
        "nodes": spec.nodes,
        "ranks": spec.ranks,
        "launch": spec.launch,
        "framework": spec.framework,
        "auto_port": spec.auto_port,
        "environment": {**spec.environment, **_switches(spec)},
        "inputs": input_paths(spec, attempt.directory),
        "outputs": output_paths(spec, attempt.directory),
        "ckpt": ckpt_path(spec, attempt.directory),
        "requirements": spec.requirements,
        "activate": spec.activations,
        "array_index": None if spec.array is None else JobArray.parse(spec.array).indices[0],
        "endpoints": spec.endpoints,
        "time_limit_s": spec.time_limit,
        "grace_s": spec.grace,
        "hang_limit_s": spec.hang_limit,
        "env_cache": str(env_cache),
        "mounts": dict(mounts.table),
        "network": network,
        # Not for the launcher: the list of jobs is made again from these when the database is lost.
        "spec": spec.dump(),
        "engine": attempt.engine,
    }


def _switches(spec: JobSpec) -> dict[str, str]:
    """Variables that what runs inside of the ranks looks at."""
    made: dict[str, str] = {}
    if not spec.resume:
        made["JUMAR_RESUME"] = "off"
    if spec.deterministic:
        made["JUMAR_DETERMINISTIC"] = "1"
    return made


def request_values(
    attempt: Attempt,
    notify: Path | None,
    facts: Sequence[CardFacts],
    staging: dict[str, Any] | None,
    idle_limit_s: float,
) -> dict[str, Any]:
    """request.json."""
    limit_s = attempt.spec.time_limit
    return {
        "cards": list(attempt.card_ids),
        "facts": list(facts),
        "deadline": None if limit_s is None else time.time() + limit_s,
        # The same moment by a clock that nobody sets, as long as the machine is not restarted.
        "deadline_monotonic": None if limit_s is None else time.monotonic() + limit_s,
        "boot_id": boot_id(),
        "secret": secrets.token_hex(16) if attempt.spec.nodes > 1 else "",
        "ask_before_s": attempt.spec.ask_before_s,
        "segment": attempt.segment,
        "segments": str(attempt.spec.segments),
        "notify": None if notify is None else str(notify),
        "archive": None if attempt.archive is None else str(attempt.archive),
        "staging": staging,
        "idle_limit_s": idle_limit_s,
    }


def _git(spec: JobSpec) -> dict[str, str] | None:
    if not isinstance(spec.code, GitCode):
        return None
    return {"url": spec.code.git, "commit": spec.code.commit or ""}


def code_kind(spec: JobSpec) -> str:
    """The word that job.json has for where the code is."""
    if spec.workdir is not None:
        return "folder"
    if isinstance(spec.code, GitCode):
        return "git"
    return "archive" if isinstance(spec.code, ArchivedCode) else "none"


def input_paths(spec: JobSpec, directory: Path) -> dict[str, str]:
    """Each input's path; a relative one is inside the code, a remote one is brought."""
    folder = Path(spec.workdir) if spec.workdir else directory / "code"
    return {
        name: str(
            directory / "inputs" / _brought_as(name, url)
            if is_remote(url) or is_of_hub(url)
            else folder / local_path(url)
        )
        for name, url in spec.inputs.items()
    }


def _brought_as(name: str, url: str) -> str:
    """The input's name; below it the file's own, whose ending some loaders insist on."""
    if is_of_hub(url):
        return os.path.join(name, path_in_hub(url)).rstrip("/")
    last = url.rpartition("/")[2]
    return f"{name}/{last}" if "." in last.strip(".") else name


def output_paths(spec: JobSpec, directory: Path) -> dict[str, str]:
    """Each output's path; a relative one, or one to be sent, is below the job's own `out` folder."""
    return {
        name: str(directory / "out" / (name if is_remote(url) else local_path(url)))
        for name, url in spec.outputs.items()
    }


def ckpt_path(spec: JobSpec, directory: Path) -> str | None:
    """Where checkpoints go when that is not the job's own `ckpt` folder."""
    if spec.ckpt is None or is_remote(spec.ckpt):
        return None
    return str((Path(spec.workdir) if spec.workdir else directory / "code") / local_path(spec.ckpt))


def folders_elsewhere(spec: JobSpec, directory: Path) -> dict[str, str]:
    """What the job writes outside of its directory, by the path of the link to it inside."""
    made = {f"out/{name}": path for name, path in output_paths(spec, directory).items()}
    ckpt = ckpt_path(spec, directory)
    if ckpt is not None:
        made["ckpt"] = ckpt
    own = f"{directory}/"
    return {link: path for link, path in made.items() if not path.startswith(own)}


def local_path(url: str) -> str:
    """A path without its scheme."""
    return url.removeprefix("file://")


@dataclass(frozen=True, slots=True)
class ToldStages:
    """What an attempt is told of its data."""

    stores: dict[str, Any]
    """Of its user, keys included."""
    plan: dict[str, Any] | None = None
    """What to carry; None when there is nothing."""
    programs: dict[str, Any] | None = None
    """What carries it."""


@dataclass(frozen=True, slots=True)
class FarStages:
    """Where the programs run that carry data, if not over the platform's own home."""

    home: Path
    """Their cache and what they know of unfinished transfers."""
    python: Sequence[str]
    """A Python that finds them."""


# -P: a file in the current folder must not be imported in place of ours.
_OWN_PYTHON = (sys.executable, "-P")


@dataclass
class Stages:
    """How the data of one home's jobs is carried: written down for the launcher and for the programs
    that carry it."""

    stores: UserStores
    cache_bytes: int = 100 * 10**9
    every_s: float = 180.0
    patience_s: float = 120.0
    hub: Callable[[str], dict[str, str]] = lambda job: {}
    """Variables by which a job finds the hub, a secret among them."""

    def check(self, spec: JobSpec, user: str, *, has_folder: bool = True) -> None:
        """Refuse addresses where nothing is, as far as that can be known without a network, and, unless
        jobs have the folder of the built-in store, those in it."""
        urls = [*spec.inputs.values(), *spec.outputs.values(), *filter(None, [spec.ckpt])]
        if not any(map(is_remote, urls)):
            return
        config = self.stores.job_config(user)
        for url in filter(is_remote, urls):
            place = open_place(url, config)
            if not isinstance(place.store, FolderStore):
                continue
            if not has_folder:
                raise SubmitRefused(closed_words(url), hint=CLOSED_HINT)
            key = place.key.rstrip("/")
            path = place.store.path(key) if key else place.store.root
            if url in spec.inputs.values() and not os.path.exists(path):
                raise SubmitRefused(
                    f"the input {url} does not exist", hint="upload it with: jumar data push"
                )

    def prepare(
        self, attempt: Attempt, directory: JobDir, far: "FarStages | None" = None
    ) -> dict[str, Any] | None:
        """Write the user's stores and the plan; gives what the launcher is told, None when there is
        nothing to carry. `far`: of an attempt that sees neither this home nor this Python."""
        told = self.told(
            attempt,
            directory,
            home=None if far is None else far.home,
            store_file=None if far is None else directory.store_file,
            python=_OWN_PYTHON if far is None else far.python,
        )
        try:
            make_folders(directory)
            # Not durable, which would cost every job some ms: it is of use only while the attempt runs.
            write_json(directory.store_file, told.stores)
            if told.plan is not None:
                write_json(directory.stage_plan, told.plan)
        except OSError as error:
            raise _explained(attempt, error) from error
        return told.programs

    def told(
        self,
        attempt: Attempt,
        directory: JobDir,
        *,
        home: Path | None = None,
        store_file: str | None = None,
        python: Sequence[str] = _OWN_PYTHON,
    ) -> ToldStages:
        """All that an attempt is told of its data. `home`, `store_file`: where the programs have their
        cache and find the keys, where the platform's own home is closed to them."""
        stores = self.stores.job_values(attempt.user) | {"hub": self.hub(attempt.job_id)}
        if not attempt.spec.stages_data:
            return ToldStages(stores)
        plan = self._plan(attempt, directory)
        if home is None:
            plan = replace(plan, within=given_places(attempt))
        if home is not None:
            plan = replace(plan, home=str(home), store_file=store_file)
        programs = {
            "bring": _program(python, "bring", directory),
            "keep": _program(python, "keep", directory) if plan.sent else None,
            "send": _program(python, "send", directory) if plan.sent else None,
            "status": plan.status,
            "send_limit_s": SEND_LIMIT_S,
        }
        return ToldStages(stores, plan_json(plan), programs)

    def read(self, directory: JobDir) -> StagingRecord | None:
        """How far it is."""
        return read_status(Path(directory.stage_status), directory.root)

    def resend(
        self, attempt: Attempt, directory: JobDir, within: tuple[str, ...] = ()
    ) -> list[str]:
        """Write the plan anew and give the module, with its arguments, that sends what was left. `within`:
        where its results may really be, of a job that ran with fewer rights than this process has. EngineFailed."""
        logs = os.path.dirname(directory.staging_log(0))
        own = (os.path.realpath(directory.root),)
        if within and not (is_plain(directory) and is_within(os.path.realpath(logs), own)):
            raise EngineFailed(f"job {directory.job_id} has put links in the place of its folders")
        # How long to wait, or where the built-in store is, may have changed since.
        plan = replace(self._plan(attempt, directory), within=within)
        write_json(directory.stage_plan, plan_json(plan))
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


def given_places(attempt: Attempt) -> tuple[str, ...]:
    """Where the results may really be of a job in a container, which sees its own folders alone; none: anywhere.

    By their names: where links on the way to them lead, each machine knows for itself. So none is among them
    that the job could put a link in the place of: what is in a folder that it writes to comes with that."""
    spec, folder = attempt.spec, attempt.directory
    if spec.image is None:
        return ()
    written = [*folders_elsewhere(spec, folder).values(), *filter(None, (spec.workdir,))]
    changing = [*written, str(folder / "code")]
    inputs = input_paths(spec, folder).values()
    read = [path for path in inputs if not any(is_below(path, top) for top in changing)]
    return tuple(dict.fromkeys([*outermost([str(folder), *written]), *read]))


def _staged(urls: dict[str, str], paths: dict[str, str]) -> tuple[Staged, ...]:
    return tuple(Staged(url=url, path=paths[name]) for name, url in urls.items() if is_remote(url))


def _program(python: Sequence[str], step: str, directory: JobDir) -> list[str]:
    return [*python, "-m", *_module(step, directory)]


def _module(step: str, directory: JobDir) -> list[str]:
    return ["jumar.store.staging", step, directory.stage_plan]
