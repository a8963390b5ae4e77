"""What a client of ModelArts is told of jobs and of the catalogue, in v2's form and in v1's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jumar.errors import BadInput
from jumar.modelarts.catalogue import Catalogue, Engine, Flavor
from jumar.modelarts.wanted import usual_dir
from jumar.spec.devices import DeviceKind, DeviceRequest
from jumar.spec.records import AttemptRecord, JobRecord, JobSummary
from jumar.spec.states import JobState

PHASES = {
    JobState.QUEUED: "Pending",
    JobState.STARTING: "Creating",
    JobState.RUNNING: "Running",
    JobState.STOPPING: "Terminating",
    JobState.SUCCEEDED: "Completed",
    JobState.FAILED: "Failed",
    JobState.STOPPED: "Terminated",
    JobState.TIMED_OUT: "Terminated",
    JobState.LOST: "Abnormal",
}
# Where the finer word is another one: a client that waits ends at a word that it does not know.
_SECONDARY = {"Pending": "Queuing", "Abnormal": "Lost"}
V1_STATUS = {
    JobState.QUEUED: 7,
    JobState.STARTING: 7,
    JobState.RUNNING: 8,
    JobState.STOPPING: 8,
    JobState.SUCCEEDED: 10,
    JobState.FAILED: 11,
    JobState.STOPPED: 12,
    # A free hour that is over ends a job as a stop does.
    JobState.TIMED_OUT: 12,
    JobState.LOST: 11,
}
BOARD = "jumar/visualization"
"""The annotation of a job that shows a folder in TensorBoard: the folder."""
_LEVELS = {True: "Error", False: "Info"}
_BAD = (JobState.FAILED, JobState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is kept of a create, to be told again; all empty for a job that came another way."""

    description: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    algorithm: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])


def task_name(node: int) -> str:
    """What ModelArts calls a node of a job."""
    return f"worker-{node}"


def milliseconds(time_s: float | None) -> int:
    """A time as ModelArts counts it; 0 where there is none."""
    return 0 if time_s is None else int(time_s * 1000)


def duration_ms(job: JobSummary, now: float) -> int:
    """How long it has run, or ran."""
    if job.started_at is None:
        return 0
    return max(0, milliseconds(job.finished_at or now) - milliseconds(job.started_at))


def job_answer(job: JobRecord, asked: Asked, now: float) -> dict[str, Any]:
    """A job as v2 shows it."""
    masked = job.spec
    algorithm = {
        "command": "" if asked.algorithm.get("boot_file") else _command(masked),
        **asked.algorithm,
        "inputs": _channels(masked, "inputs", asked),
        "outputs": _channels(masked, "outputs", asked),
        "environments": [{name: value} for name, value in masked["environment"].items()],
    }
    resource = {"node_count": job.nodes, "flavor_id": job.device, "policy": "regular"}
    spec = {**asked.spec}
    spec["resource"] = {**resource, **asked.spec.get("resource", {})}
    return {
        "kind": "job",
        "metadata": {
            "id": job.id,
            "name": job.name,
            "description": asked.description,
            "create_time": milliseconds(job.created_at),
            "workspace_id": "0",
            "user_name": job.user,
            "annotations": dict(asked.annotations),
        },
        "status": _status(job, now),
        "algorithm": algorithm,
        "spec": spec,
    }


def _command(spec: Mapping[str, Any]) -> str:
    command = spec["command"]
    return command if isinstance(command, str) else " ".join(command)


def _channels(spec: Mapping[str, Any], side: str, asked: Asked) -> list[dict[str, Any]]:
    """As they were asked for, with what was left open filled in."""
    given: dict[str, dict[str, Any]] = {
        one["name"]: one for one in asked.algorithm.get(side) or () if one.get("name")
    }
    return [
        {
            "name": name,
            "access_method": "parameter",
            "remote": {"obs": {"obs_url": url}},
            **given.get(name, {}),
            "local_dir": given.get(name, {}).get("local_dir") or usual_dir(side, name),
        }
        for name, url in spec[side].items()
    ]


def _status(job: JobRecord, now: float) -> dict[str, Any]:
    tasks = [task_name(node) for node in range(job.nodes)]
    last = job.attempts[-1] if job.attempts else None
    statuses: list[dict[str, Any]] = []
    if last is not None and last.state.is_final:
        code = last.exit_code if last.exit_code is not None else -1
        statuses = [{"task": tasks[0], "exit_code": code, "message": last.reason or ""}]
    phase = PHASES[job.state]
    return {
        "phase": phase,
        "secondary_phase": _SECONDARY.get(phase, phase),
        "duration": duration_ms(job, now),
        "start_time": milliseconds(job.started_at),
        "tasks": tasks,
        "task_statuses": statuses,
        "running_records": [_record(one) for one in job.attempts if one.started_at is not None],
    }


def _record(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "start_at": int(attempt.started_at or 0),
        "end_at": int(attempt.finished_at or 0),
        "start_type": "init_or_rescheduled" if attempt.number == 1 else "restarted",
        "end_reason": attempt.reason or "",
    }


def events_of(job: JobRecord) -> list[dict[str, str]]:
    """What happened to a job, oldest first."""
    made = [_event(job.created_at, f"training job created by {job.user}", is_bad=False)]
    made += [_event(job.created_at, note, is_bad=False) for note in job.notes]
    for one in job.attempts:
        if one.started_at is not None:
            made.append(_event(one.started_at, f"attempt {one.number} started", is_bad=False))
        if one.finished_at is not None:
            is_bad = one.state.value in [state.value for state in _BAD]
            words = f"attempt {one.number} {one.state}: {one.reason or ''}".rstrip(": ")
            made.append(_event(one.finished_at, words, is_bad=is_bad))
    if job.finished_at is not None:
        words = f"training job {PHASES[job.state]}: {job.reason or ''}".rstrip(": ")
        made.append(_event(job.finished_at, words, is_bad=job.state in _BAD))
    return sorted(made, key=lambda event: event["time"])


def _event(time_s: float, message: str, *, is_bad: bool) -> dict[str, str]:
    level = _LEVELS[is_bad]
    return {"time": _clock(time_s), "level": level, "source": "jumar", "message": message}


def milliseconds_in(text: str) -> int | None:
    """A time that a client gives: milliseconds, or a date and time; None where it gives none."""
    if not text:
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return milliseconds(datetime.fromisoformat(text).astimezone(UTC).timestamp())
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text[:64]!r} is no time",
            hint="give milliseconds since 1970, or 2026-01-31T12:00:00Z",
        ) from error


def is_between(clock: str, since: int | None, until: int | None) -> bool:
    """Whether the time of an event is in a span, of which either side may be open."""
    at = milliseconds_in(clock) or 0
    return (since is None or at >= since) and (until is None or at <= until)


def stages_of(job: JobRecord) -> dict[str, Any]:
    """The stages of each attempt."""
    records = [
        {"record_order": number, "stages": _stages(job, one)}
        for number, one in enumerate(job.attempts)
    ]
    return {"total_count": len(records), "running_records": records}


def _stages(job: JobRecord, attempt: AttemptRecord) -> list[dict[str, Any]]:
    steps = [
        ("Preparing", "准备", attempt.created_at, attempt.started_at),
        ("Running", "运行", attempt.started_at, attempt.finished_at),
    ]
    return [
        {
            "job_id": job.id,
            "name": name,
            "en_message": name,
            "zh_message": chinese,
            "start_time": _clock(began),
            "end_time": "" if ended is None else _clock(ended),
            "stage_order": order,
            "sub_stages": [],
        }
        for order, (name, chinese, began, ended) in enumerate(steps)
        if began is not None
    ]


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")


def flavors_answer(catalogue: Catalogue, devices: Mapping[str, DeviceRequest]) -> dict[str, Any]:
    """What v2 says there is to run on; `devices`: what each flavor is here."""
    made = [_flavor(one, devices[one.id]) for one in catalogue.flavors.values()]
    return {"total_count": len(made), "flavors": made}


def _flavor(flavor: Flavor, device: DeviceRequest) -> dict[str, Any]:
    cards: dict[str, Any] = {}
    if device.kind is not DeviceKind.CPU:
        kind = "gpu" if device.kind is DeviceKind.GPU else "npu"
        cards = {kind: {"unit_num": device.count, "product_name": str(device.kind)}}
    return {
        "flavor_id": flavor.id,
        "flavor_name": f"{flavor.id} ({device})",
        "flavor_type": next(iter(cards), "cpu").upper(),
        "max_num": 1,
        "billing": {"code": flavor.id, "unit_num": 0},
        "flavor_info": {"max_num": 1, "cpu": {"arch": "", "core_num": device.count}, **cards},
        "attributes": {"device": str(device)},
    }


def engines_answer(catalogue: Catalogue) -> dict[str, Any]:
    """What v2 says there is to run in."""
    made = [
        {
            "engine_id": one.id,
            "engine_name": one.name,
            "engine_version": one.version or one.id,
            "v1_compatible": False,
        }
        for one in catalogue.engines.values()
    ]
    return {"total": len(made), "items": made}


def v1_config(asked: Asked, catalogue: Catalogue) -> dict[str, Any]:
    """What v1 repeats of the configuration that a version was made with."""
    algorithm, spec = asked.algorithm, asked.spec
    resource: dict[str, Any] = spec.get("resource") or {}
    logs: dict[str, Any] = spec.get("log_export_path") or {}
    given: list[dict[str, Any]] = algorithm.get("parameters") or []
    values: dict[str, Any] = {one["name"]: one.get("value") for one in given}
    engine: dict[str, Any] = algorithm.get("engine") or {}
    return {
        **_v1_engine(catalogue, engine.get("engine_id")),
        **_v1_spec(catalogue, resource.get("flavor_id")),
        "user_image_url": engine.get("image_url") or "",
        "user_command": algorithm.get("command") or "",
        "app_url": algorithm.get("code_dir") or "",
        "boot_file_url": algorithm.get("boot_file") or "",
        "data_url": values.pop("data_url", None) or "",
        "train_url": values.pop("train_url", None) or "",
        "log_url": logs.get("obs_url") or "",
        "parameter": [{"label": name, "value": value} for name, value in values.items()],
        "worker_server_num": resource.get("node_count") or 1,
        # Data sets of the vendor's own do not exist here; clients look for the names all the same.
        "dataset_id": "",
        "dataset_version_id": "",
        "data_source": None,
    }


def _v1_engine(catalogue: Catalogue, name: str | None) -> dict[str, Any]:
    """Of a catalogue that may have changed since: what it knows no more is left out."""
    known = {
        one: engine
        for engine in catalogue.engines.values()
        for one in (engine.id, str(engine.number))
    }
    return _engine_fields(known[name]) if name in known else {}


def _v1_spec(catalogue: Catalogue, name: str | None) -> dict[str, Any]:
    known = {
        one: spec for spec in catalogue.flavors.values() for one in (spec.id, str(spec.number))
    }
    return {"spec_id": known[name].number, "spec_code": known[name].id} if name in known else {}


def _engine_fields(engine: Engine) -> dict[str, Any]:
    return {
        "engine_type": engine.number,
        "engine_name": engine.name,
        "engine_id": engine.number,
        "engine_version": engine.version or engine.id,
    }


def v1_specs(catalogue: Catalogue, devices: Mapping[str, DeviceRequest]) -> dict[str, Any]:
    """What v1 says there is to run on."""
    made = [
        {
            "spec_id": one.number,
            "spec_code": one.id,
            "core": str(devices[one.id].count),
            "gpu_num": 0 if devices[one.id].kind is DeviceKind.CPU else devices[one.id].count,
            "gpu_type": str(devices[one.id].kind),
            "max_num": 1,
            "unit_num": 1,
            "is_free": one.id.endswith(".free"),
        }
        for one in catalogue.flavors.values()
    ]
    return {"is_success": True, "spec_total_count": len(made), "specs": made}


def v1_engines(catalogue: Catalogue) -> dict[str, Any]:
    """What v1 says there is to run in."""
    made = [_engine_fields(one) for one in catalogue.engines.values()]
    return {"is_success": True, "engine_total_count": len(made), "engines": made}
