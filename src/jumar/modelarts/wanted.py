"""What a client of ModelArts asks for, as v2 writes it, and the job that this is here."""

import json
import re
import shlex
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jumar.errors import BadInput
from jumar.modelarts.catalogue import Catalogue
from jumar.spec.devices import DeviceKind
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec

JOB_DIR = "/home/ma-user/modelarts/user-job-dir"
CODE_VARIABLE = "MA_CODE_DIR"
"""Where the code is inside the job; the launcher makes that path true."""
LOCAL_VARIABLE = "MA_LOCAL_DIRS"
"""Where inputs and outputs are besides, by name, as JSON; the launcher makes these paths true too."""
REQUIREMENTS = "pip-requirements.txt"
_HOUR_S = {"HOURS": 3600, "MINUTES": 60}
PRIORITIES = {1: 50, 2: 100, 3: 200}
"""What those of ModelArts are here."""
_BUCKET_PATH = re.compile(
    r"/?(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,62})/(?P<key>.*)", re.ASCII | re.S
)
_OPTION = re.compile(r"[^\x00-\x20=]{1,128}")

Short = Annotated[str, Field(max_length=256)]
Line = Annotated[str, Field(max_length=4096)]
# Clients send numbers and booleans where the API has text.
Value = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value),
    Field(max_length=65536),
]


class Sent(BaseModel):
    """A part of a request."""

    # Clients send more than is used here, and newer ones still more.
    model_config = ConfigDict(extra="ignore", frozen=True)


class Parameter(Sent):
    """A parameter of the script."""

    name: Short
    value: Value | None = ""


class _Obs(Sent):
    obs_url: Line = ""


class _Remote(Sent):
    obs: _Obs | None = None
    dataset: _Obs | None = None


class Channel(Sent):
    """An input or an output: a folder in the store and its name in the job."""

    name: Short
    local_dir: Line | None = None
    access_method: Literal["parameter", "env", ""] | None = "parameter"
    remote: _Remote | None = None

    @property
    def url(self) -> str | None:
        """Where it is in the store; None where the client names no place."""
        if self.remote is None:
            return None
        found = self.remote.obs or self.remote.dataset
        return store_url(found.obs_url) if found is not None and found.obs_url else None


class _Engine(Sent):
    engine_id: Short | None = None
    engine_name: Short | None = None
    engine_version: Short | None = None
    image_url: Line | None = None


class Algorithm(Sent):
    """What to run."""

    code_dir: Line | None = None
    boot_file: Line | None = None
    command: Annotated[str, Field(max_length=131072)] | None = None
    parameters: Annotated[list[Parameter], Field(max_length=1000)] | None = None
    inputs: Annotated[list[Channel], Field(max_length=100)] | None = None
    outputs: Annotated[list[Channel], Field(max_length=100)] | None = None
    engine: _Engine | None = None
    environments: dict[str, Value] | None = None


class _Metadata(Sent):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: Annotated[str, Field(max_length=256)] | None = None
    annotations: Annotated[dict[Short, Value], Field(max_length=100)] | None = None


class _Resource(Sent):
    flavor_id: Short | None = None
    node_count: Annotated[int, Field(ge=1, le=4096)] | None = 1
    pool_id: Short | None = None


class _AutoStop(Sent):
    time_unit: Literal["HOURS", "MINUTES"] = "HOURS"
    duration: Annotated[int, Field(ge=1, le=720)]


class SchedulePolicy(Sent):
    """Who comes first, and who may be made to leave."""

    priority: Annotated[int, Field(ge=1, le=3)] | None = None
    preemptible: bool | None = None


class _Spec(Sent):
    resource: _Resource
    auto_stop: _AutoStop | None = None
    log_export_path: _Obs | None = None
    schedule_policy: SchedulePolicy | None = None


class _Ssh(Sent):
    key_pair_names: list[Short] | None = None


class _Endpoints(Sent):
    ssh: _Ssh | None = None


class TrainingJob(Sent):
    """The body of a create of v2."""

    kind: Literal["job"] = "job"
    metadata: _Metadata
    algorithm: Algorithm
    spec: _Spec
    endpoints: _Endpoints | None = None

    @property
    def log_url(self) -> str | None:
        """Where the logs are to go."""
        place = self.spec.log_export_path
        return store_url(place.obs_url) if place is not None and place.obs_url else None


def store_url(text: str) -> str:
    """`/bucket/key` and `obs://bucket/key`, both of which clients write, as an address here."""
    # Never a path of this machine: what begins with a slash is a bucket.
    found = _BUCKET_PATH.fullmatch(text.removeprefix("obs:/").removeprefix("s3:/"))
    if found is None or "\0" in text:
        raise BadInput(f"{text[:200]!r} is not a place in OBS", hint="write obs://BUCKET/FOLDER/")
    return f"obs://{found['bucket']}/{found['key']}"


def code_name(url: str) -> str:
    """What a code folder is called in the job."""
    return url.rstrip("/").rpartition("/")[2]


def job_spec(
    job: TrainingJob,
    catalogue: Catalogue,
    kinds: Iterable[DeviceKind],
    *,
    archive: str | None = None,
    requirements: str | None = None,
) -> JobSpec:
    """The job here. `archive`: its code; `requirements`: the file in it that says what to install."""
    algorithm, wanted = job.algorithm, job.spec
    flavor_id = wanted.resource.flavor_id
    if not flavor_id:
        raise BadInput("spec.resource.flavor_id: is missing", hint="GET training-job-flavors")
    flavor = catalogue.flavor(flavor_id)
    device = catalogue.device(flavor, kinds)
    nodes = wanted.resource.node_count or 1
    given = algorithm.engine
    engine = None
    if given is not None:
        # Whoever brings an image of their own names no engine.
        engine = catalogue.engine(
            given.engine_id, None if given.engine_id else given.engine_version
        )
    policy = wanted.schedule_policy
    values: dict[str, Any] = {
        "name": job.metadata.name,
        "command": _command(algorithm),
        "device": str(device),
        "nodes": nodes,
        "type": "distributed" if nodes > 1 else "regular",
        # A script for GPUs on a machine with NPUs.
        "auto_port": flavor.device.kind is DeviceKind.GPU
        and device.kind in (DeviceKind.NPU, DeviceKind.SIM),
        "inputs": _places(algorithm.inputs, "inputs"),
        "outputs": _places(algorithm.outputs, "outputs"),
        "environment": _environment(algorithm, nodes=nodes, cards=device.count),
        "endpoints": _endpoints(job),
        **_retries(job),
    }
    optional = {
        "code": {"archive": archive} if archive else None,
        "requirements": requirements,
        "image": given.image_url if given is not None else None,
        "activate": engine.activate if engine is not None else None,
        "preemptible": policy.preemptible if policy is not None else None,
        "priority": PRIORITIES[policy.priority] if policy and policy.priority else None,
    }
    if wanted.auto_stop is not None:
        optional["time_limit"] = wanted.auto_stop.duration * _HOUR_S[wanted.auto_stop.time_unit]
    values.update({name: value for name, value in optional.items() if value is not None})
    return validate_spec(values, source="training job")


def _command(algorithm: Algorithm) -> list[str] | str:
    options = [_option(one) for one in algorithm.parameters or ()]
    channels = [*(algorithm.inputs or ()), *(algorithm.outputs or ())]
    by_variable = [one for one in channels if one.access_method == "env"]
    if algorithm.command and algorithm.command.strip():
        words = [algorithm.command, *map(shlex.quote, options)]
    elif algorithm.boot_file:
        words = ["python", boot_path(algorithm), *options]
        if not by_variable:
            # The launcher adds `--name=PATH` for each input and output.
            return words
        words = list(map(shlex.quote, words))
    else:
        raise BadInput("algorithm: boot_file or command is missing")
    passed = [one.name for one in channels if one.access_method != "env"]
    return " ".join([*words, *(f"--{name}={{{name}}}" for name in passed)])


def _option(parameter: Parameter) -> str:
    if not _OPTION.fullmatch(parameter.name):
        raise BadInput(f"algorithm.parameters: {parameter.name[:80]!r} is not a name")
    return f"--{parameter.name}={parameter.value or ''}"


def boot_path(algorithm: Algorithm) -> str:
    """The script's path inside the code folder."""
    text = algorithm.boot_file or ""
    if text.startswith(("/", "obs://", "s3://")):
        if not algorithm.code_dir:
            raise BadInput("algorithm.code_dir: is missing", hint="it is the folder of boot_file")
        folder = store_url(algorithm.code_dir).rstrip("/") + "/"
        url = store_url(text)
        if not url.startswith(folder):
            raise BadInput(
                f"algorithm.boot_file: {url[:200]!r} is not in code_dir {folder[:200]!r}"
            )
        text = url.removeprefix(folder)
    if not text or ".." in text.split("/") or "\0" in text or text.startswith("-"):
        raise BadInput(f"algorithm.boot_file: {text[:200]!r} is not a file in code_dir")
    return text


def _places(channels: list[Channel] | None, field: str) -> dict[str, str]:
    places: dict[str, str] = {}
    for channel in channels or ():
        url = channel.url
        if url is None:
            raise BadInput(f"algorithm.{field}: {channel.name!r} has no remote.obs.obs_url")
        if channel.name in places:
            raise BadInput(f"algorithm.{field}: {channel.name!r} is given twice")
        places[channel.name] = url
    return places


def _environment(algorithm: Algorithm, *, nodes: int, cards: int) -> dict[str, str]:
    made = {"MA_JOB_DIR": JOB_DIR, "MA_NUM_HOSTS": str(nodes), "MA_NUM_GPUS": str(cards)}
    if algorithm.code_dir:
        made[CODE_VARIABLE] = f"{JOB_DIR}/{code_name(store_url(algorithm.code_dir))}"
    elsewhere: dict[str, str] = {}
    for side, channels in (("inputs", algorithm.inputs), ("outputs", algorithm.outputs)):
        for one in channels or ():
            usual = usual_dir(side, one.name)
            place = _local_dir(one, side) or usual
            if place.rstrip("/") != usual:
                elsewhere[one.name] = place
            if one.access_method == "env":
                made[one.name] = place
    if elsewhere:
        made[LOCAL_VARIABLE] = json.dumps(elsewhere)
    return {**(algorithm.environments or {}), **made}


def usual_dir(side: str, name: str) -> str:
    """Where an input or output (`side`) is in a job, unless the client says otherwise."""
    return f"/home/ma-user/modelarts/{side}/{name}_0"


def _local_dir(channel: Channel, side: str) -> str | None:
    path = channel.local_dir
    if not path:
        return None
    parts = path.strip("/").split("/")
    if not path.startswith("/") or "\0" in path or not {"", ".", ".."}.isdisjoint(parts):
        raise BadInput(
            f"algorithm.{side}: local_dir {path[:200]!r} cannot be a folder of a job",
            hint=f"for example: {usual_dir(side, channel.name)}",
        )
    return path


def _endpoints(job: TrainingJob) -> list[str]:
    notes = job.metadata.annotations or {}
    wanted = {
        "ssh": job.endpoints is not None and job.endpoints.ssh is not None,
        "jupyter": _is_on(notes.get("jupyter-lab/enable")),
        "tensorboard": _is_on(notes.get("tensorboard/enable")),
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]


def _retries(job: TrainingJob) -> dict[str, int]:
    notes = job.metadata.annotations or {}
    made: dict[str, int] = {}
    number = notes.get("fault-tolerance/job-retry-num")
    if number is not None:
        if not re.fullmatch(r"\d{1,3}", number, re.ASCII) or int(number) > 100:
            raise BadInput("metadata.annotations: fault-tolerance/job-retry-num must be 0 to 100")
        made["fault_retries"] = int(number)
        made["retries"] = int(number)
    if "fault-tolerance/hang-retry" in notes and not _is_on(notes["fault-tolerance/hang-retry"]):
        made["hang_limit"] = 0
    return made


def _is_on(value: str | None) -> bool:
    return (value or "").lower() == "true"
