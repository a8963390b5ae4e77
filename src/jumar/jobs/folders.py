"""Jobs as their folders tell of them, for a list that has lost them.

A job can write all that is read here. So what is found is checked field by field; a folder that
cannot be understood is named and left alone."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jumar.engine.files import JobFiles
from jumar.engine.modelarts import memory
from jumar.engine.slurm.observing import is_away
from jumar.launch.jobdir.claims import Census
from jumar.launch.jobdir.files import JobDir, has_ranks
from jumar.launch.jobdir.news import Ending, read_ending
from jumar.launch.jobdir.safefile import Unusable, read_object
from jumar.spec.causes import known
from jumar.spec.devices import LOCAL_NODE, CardRef
from jumar.spec.job import JobSpec
from jumar.spec.records import AttemptRecord
from jumar.spec.repairs import LeftFolder
from jumar.spec.states import AttemptState, JobState, job_after
from jumar.spec.text import storable

_ARCHIVE = re.compile(r"([0-9a-f]{64})\.tar")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _JobFile(_Strict):
    job_id: str
    user: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$")]
    spec: dict[str, Any] | None = None
    engine: Annotated[str, Field(pattern=r"^[a-z]{1,16}$")] | None = None


class _Device(_Strict):
    kind: str
    count: int


class _Git(_Strict):
    url: str
    commit: str


class _OlderJobFile(_Strict):
    name: str
    command: list[str] | str
    code: str
    device: _Device
    ranks: str
    environment: dict[str, str]
    inputs: dict[str, str]
    outputs: dict[str, str]
    workdir: str | None = None
    git: _Git | None = None
    framework: str | None = None
    requirements: str | None = None
    ckpt: str | None = None
    auto_port: bool = False
    grace_s: int
    time_limit_s: int | None = None


class _RequestFile(_Strict):
    cards: Annotated[list[Annotated[int, Field(ge=0, le=65535)]], Field(max_length=1024)]
    archive: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One job and all its attempts, oldest first; there is at least one."""

    id: str
    user: str
    spec: JobSpec
    engine: str | None
    """Where it ran; None where it does not tell."""
    attempts: tuple[AttemptRecord, ...]
    is_live: bool
    """Whether processes of it are there now."""

    @property
    def last(self) -> AttemptRecord:
        """The attempt that tells how the job stands."""
        return self.attempts[-1]

    @property
    def state(self) -> JobState:
        """How the job stands. Never waiting: what a folder tells is no reason to run anything."""
        ended = self.last.state
        if ended.is_final:
            return job_after(ended, is_stopping=True, retries_left=0)
        return JobState(ended)


def read_folders(files: JobFiles, ids: Iterable[str]) -> tuple[list[Folder], list[LeftFolder]]:
    """The jobs, and the folders that tell of none."""
    found: list[Folder] = []
    left: list[LeftFolder] = []
    census = Census()
    for job_id in ids:
        try:
            found.append(_read(job_id, files.attempts(job_id), census))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            left.append(_left(files, job_id, f"{place}: {first['msg']}"))
        except (OSError, ValueError, Unusable) as error:
            left.append(_left(files, job_id, storable(str(error))))
    return found, left


def _left(files: JobFiles, job_id: str, reason: str) -> LeftFolder:
    return LeftFolder(folder=str(files.directory(job_id)), reason=reason)


def _read(job_id: str, directories: list[JobDir], census: Census) -> Folder:
    if not directories:
        raise ValueError("it has no attempts")
    last = directories[-1]
    values = read_object(last.job)
    told = _JobFile.model_validate(values)
    if told.job_id != job_id:
        raise ValueError(f"its job.json is of another job, {told.job_id[:64]!r}")
    attempts = tuple(_attempt(directory, census) for directory in directories)
    given = told.spec if told.spec is not None else _older_spec(values, last)
    return Folder(
        id=job_id,
        user=told.user,
        spec=JobSpec.model_validate(given),
        engine=told.engine,
        attempts=attempts,
        is_live=_is_going_on(last, census),
    )


def _attempt(directory: JobDir, census: Census) -> AttemptRecord:
    request = _RequestFile.model_validate(read_object(directory.request))
    record = AttemptRecord(
        number=directory.number,
        state=_going(directory),
        cards=tuple(CardRef(LOCAL_NODE, card) for card in request.cards),
        created_at=os.stat(directory.request).st_mtime,
        started_at=_written_at(directory.ranks) or _written_at(directory.older_ranks),
    )
    # An attempt has ended when its processes have: a job can write the result itself.
    if _is_going_on(directory, census):
        return record
    ending = read_ending(directory)
    if ending is None:
        reason = "its processes are gone, and it wrote no result"
        ending = Ending("lost", "no-result", reason)
    cause, values = known(ending.cause, ending.values)
    return replace(
        record,
        state=AttemptState(ending.state),
        started_at=ending.started_at,
        finished_at=ending.finished_at or _written_at(directory.said),
        exit_code=ending.exit_code,
        cause=cause,
        values=values,
        reason=storable(ending.reason),
        tail=storable(ending.tail) or None,
    )


def _is_going_on(directory: JobDir, census: Census) -> bool:
    """Here or elsewhere. A job that only says so is found to be lost by the engine that is asked."""
    return census.is_kept(directory) or memory.is_away(directory) or is_away(directory)


def _going(directory: JobDir) -> AttemptState:
    """Of an attempt that has a keeper or a supervisor; how far it is, is for the engine to see."""
    if os.path.lexists(directory.stop):
        return AttemptState.STOPPING
    if is_away(directory) and not has_ranks(directory):
        return AttemptState.STARTING
    return AttemptState.RUNNING


def _written_at(path: str) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def _older_spec(values: dict[str, Any], last: JobDir) -> dict[str, Any]:
    """A spec from what the launcher was told, of a job whose folder does not have it itself.

    Retries and priority are not told, and data of stores is known by where it was brought to."""
    told = _OlderJobFile.model_validate(values)
    kept = ("name", "command", "ranks", "environment", "ckpt", "framework", "requirements")
    made = {name: getattr(told, name) for name in (*kept, "inputs", "outputs", "workdir")}
    made["auto_port"] = told.auto_port
    made["grace"] = told.grace_s
    made["time_limit"] = told.time_limit_s
    made["device"] = f"{told.device.kind}:{told.device.count}"
    if told.git is not None:
        made["code"] = {"git": told.git.url, "commit": told.git.commit}
    elif told.code == "archive":
        request = _RequestFile.model_validate(read_object(last.request))
        digest = _ARCHIVE.fullmatch(os.path.basename(request.archive or ""))
        made["code"] = {"archive": digest[1]} if digest else None
    return {name: value for name, value in made.items() if value is not None}
