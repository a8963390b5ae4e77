"""`JobSpec`: what to run, on what, with what. One model for YAML, flags, the API and the form."""

import re
from typing import Annotated, Any, Literal, cast

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from jumar.errors import BadInput
from jumar.spec.array import JobArray
from jumar.spec.devices import DeviceKind, DeviceRequest
from jumar.spec.engines import SlurmOptions
from jumar.spec.fields import (
    INPUT_SCHEMES,
    NAMES,
    VARIABLE,
    Activation,
    AfterJob,
    Code,
    Command,
    Device,
    Endpoint,
    GitCode,
    Inputs,
    Memory,
    Place,
    Places,
    Seconds,
    SecondsOrNone,
    Strict,
    Text,
    described,
)
from jumar.spec.urls import SCHEMES, half_address, is_of_hub, is_remote

_MOST_SEGMENTS = 10000
_NUMBERS = (
    *("nodes", "priority", "time_limit", "grace", "hang_limit"),
    *("cpus", "memory", "retries", "fault_retries"),
)
_NAME = re.compile(r"[^\W_][\w.\- ]*")
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(AK|SK|PAT|KEY|AUTH)(_|$)|API_?KEY", re.I)
# `https://NAME:PASSWORD@…`, `https://TOKEN@…`; the user of ssh:// is no secret.
_SIGN_IN = re.compile(r"^(https?://)[^/]+@")
MASK = "***"
USUAL_HANG_LIMIT = 1800

# As in `fields`: what the JSON Schema can say of it.
_PLAIN_NAME = r"^(?!.*\.\.)(?!.* $)[^\x00-/:-@\[-`{-\x7f][^\x00-\x1f!-,/:-@\[-^`{-\x7f]*$"
_INNER_PATH = r"^(?!/)(?!(.*/)?\.\.(/|$))."
_PLAIN_ARRAY = r"^\d{1,7}(-\d{1,7}(:\d{1,7})?)?(,\d{1,7}(-\d{1,7}(:\d{1,7})?)?)*(%[1-9]\d{0,3})?$"


def _is_address(url: str, known: tuple[str, ...] = SCHEMES) -> bool:
    scheme = url.split("://", 1)[0] if "://" in url else "file"
    return bool(url) and "\0" not in url and scheme in known


class JobSpec(Strict):
    """One training job, the same on every engine."""

    name: Annotated[str, Field(min_length=1, max_length=128), described(pattern=_PLAIN_NAME)]
    command: Command
    code: Code | None = None
    workdir: str | None = Field(
        default=None, description="run in this folder of the server's machine, without a copy"
    )
    framework: Annotated[str, Field(max_length=128)] | None = None
    image: Annotated[str, Field(max_length=512)] | None = None
    device: Annotated[Device, described(default="cpu:1")] = DeviceRequest(DeviceKind.CPU, 1)
    type: Literal["regular", "distributed"] = "regular"
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    ranks: Literal["node", "device"] = Field(
        default="node", description="start the command once per node or once per device"
    )
    launch: Literal["ray"] | None = Field(
        default=None,
        description="ray: make a Ray cluster of the job's nodes and run the command once, on the first",
    )
    auto_port: bool = Field(
        default=False,
        description="run a CUDA script unchanged on npu or sim devices: cuda means npu at run time",
    )
    deterministic: bool = Field(
        default=False,
        description="the same numbers in each run, on the same cards and with the same libraries",
    )
    preemptible: bool = False
    priority: Annotated[int, Field(ge=1, le=1000)] = 100
    time_limit: Seconds | None = None
    grace: Seconds = Field(default=30, description="grace period between SIGTERM and SIGKILL")
    hang_limit: SecondsOrNone = Field(
        default=USUAL_HANG_LIMIT,
        description="end a job of several ranks when none of them does anything for so long; 0: never",
    )
    segments: Annotated[int, Field(ge=1, le=_MOST_SEGMENTS)] | Literal["auto"] = Field(
        default=1,
        description="how many time limits the job may take, each going on from the last checkpoint; "
        "auto: as many as it needs",
        examples=[10, "auto"],
    )
    inputs: Inputs = Field(default_factory=dict)
    outputs: Places = Field(default_factory=dict)
    ckpt: Place | None = Field(
        default=None,
        description="where checkpoints are kept between jobs; the job finds them in JUMAR_CKPT_DIR",
    )
    requirements: Annotated[str, described(pattern=_INNER_PATH)] | None = Field(
        default=None,
        description="a requirements file inside the code; pip-requirements.txt next to the "
        "script is found automatically",
    )
    environment: Annotated[dict[str, Text], described(propertyNames=NAMES)] = Field(
        default_factory=dict
    )
    activate: Annotated[list[Activation], Field(max_length=32)] | Activation | None = Field(
        default=None,
        description="what to activate first: a conda environment by name or path, the path of a "
        "virtual environment, a script to source, or `module load` lines",
        examples=["mindspore", ["module load cann/8.0", "/opt/envs/torch"]],
    )
    after: Annotated[list[AfterJob], Field(max_length=64)] = Field(
        default_factory=list[str],
        description="start only when these jobs or arrays have succeeded; any:JOB: when it has ended",
    )
    array: Annotated[str, Field(max_length=1024), described(pattern=_PLAIN_ARRAY)] | None = Field(
        default=None,
        description="many jobs of one kind, each with its index in JUMAR_ARRAY_INDEX; %N: at most "
        "N at once",
        examples=["0-9", "1,4-8", "0-99%4"],
    )
    endpoints: Annotated[list[Endpoint], Field(max_length=16)] = Field(
        default_factory=list[str],
        description="what is to be opened while the job runs: jupyter, tensorboard, ssh, or a port "
        "on which the job serves HTTP",
        examples=[["jupyter", "http:6006"]],
    )
    cpus: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        default=None, description="how many cores' worth of time the job gets at most, per node"
    )
    memory: Memory | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description="how often to try again when the script fails"
    )
    fault_retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3,
        description="how often to try again, on other cards where there are some, after a fault of "
        "the machine, a card or the network; counted anew with each checkpoint",
    )
    resume: bool = Field(
        default=True,
        description="let transformers' Trainer, Lightning and torch.save save and go on by themselves; "
        "off: leave the script's libraries as they are",
    )
    measure: bool = Field(
        default=False,
        description="one segment, run to see how much of the training fits into it: cut by its limit, it has succeeded",
    )
    slurm: SlurmOptions | None = Field(
        default=None, description="options for Slurm, where that runs the job"
    )

    @field_validator("name")
    @classmethod
    def _printable_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or ".." in value or value.endswith(" "):
            raise ValueError(
                f"{value!r} is not a name; use letters, digits, '-', '_', '.' and spaces"
            )
        return value

    @field_validator("command")
    @classmethod
    def _something_to_run(cls, value: list[str] | str) -> list[str] | str:
        words = [value] if isinstance(value, str) else value
        if not words or not words[0].strip():
            raise ValueError("the command is empty")
        if any("\0" in word for word in words):
            raise ValueError("the command contains a NUL character")
        return value

    @field_validator(*_NUMBERS, mode="before")
    @classmethod
    def _no_truth_value(cls, value: object) -> object:
        # Python counts with them, and YAML reads yes and on as one: a time limit of a second.
        if isinstance(value, bool):
            raise PydanticKnownError("int_type")
        return value

    @field_validator("segments", mode="before")
    @classmethod
    def _number_or_auto(cls, value: object) -> object:
        # Here, because pydantic tells of a union what is wrong with each of its parts.
        text = str(value)
        is_number = not isinstance(value, bool) and text.isascii() and text.isdecimal()
        if text != "auto" and not (is_number and 1 <= int(text[:9]) <= _MOST_SEGMENTS):
            raise ValueError(f"must be auto, or a whole number from 1 to {_MOST_SEGMENTS}")
        return value

    @field_validator("activate", mode="before")
    @classmethod
    def _one_line_or_several(cls, value: object) -> object:
        lines = cast("list[Any]", value if isinstance(value, list) else [value])
        if value is not None and not all(isinstance(line, str) for line in lines):
            raise ValueError("must be one line of text, or a list of them; put numbers in quotes")
        return cast("object", value)

    @field_validator("workdir")
    @classmethod
    def _absolute_workdir(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or "\0" in value):
            raise ValueError(f"{value!r} is not an absolute path")
        return value

    @field_validator("inputs", "outputs")
    @classmethod
    def _named_urls(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, url in value.items():
            if not VARIABLE.fullmatch(name) or len(name) > 64:
                raise ValueError(f"{name!r} is not a name; use letters, digits and '_'")
            known = INPUT_SCHEMES if info.field_name == "inputs" else SCHEMES
            if not _is_address(url, known):
                raise ValueError(f"{name}: {url!r} is not a path, file://, obs:// or s3:// address")
        return value

    @field_validator("ckpt")
    @classmethod
    def _ckpt_url(cls, value: str | None) -> str | None:
        if value is not None and not _is_address(value):
            raise ValueError(f"{value!r} is not a path, file://, obs:// or s3:// address")
        return value

    @field_validator("requirements")
    @classmethod
    def _inside_the_code(cls, value: str | None) -> str | None:
        if value is not None and (
            not value or value.startswith("/") or ".." in value.split("/") or "\0" in value
        ):
            raise ValueError(f"{value!r} is not a path inside the code folder")
        return value

    @field_validator("array")
    @classmethod
    def _some_indices(cls, value: str | None) -> str | None:
        if value is not None:
            JobArray.parse(value)
        return value

    @field_validator("environment")
    @classmethod
    def _settable_variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not VARIABLE.fullmatch(name) or "\0" in text:
                raise ValueError(f"{name!r} cannot be an environment variable")
        return value

    # Checks against an earlier field belong to the later one, so that the error names its line;
    # `info.data` does not contain a field that is itself invalid.

    @field_validator("workdir")
    @classmethod
    def _code_or_workdir(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("code") is not None:
            raise ValueError("use code or workdir, not both: code is copied, workdir is not")
        return value

    @field_validator("nodes")
    @classmethod
    def _one_node_if_regular(cls, value: int, info: ValidationInfo) -> int:
        if value > 1 and info.data.get("type") == "regular":
            raise ValueError(
                "a regular job has one node; use type: distributed, or --distributed with jumar run"
            )
        return value

    @field_validator("launch")
    @classmethod
    def _ray_starts_ranks_itself(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("ranks") == "device":
            raise ValueError("Ray starts the processes itself; use ranks: node")
        return value

    @field_validator("auto_port")
    @classmethod
    def _auto_port_for_npus(cls, value: bool, info: ValidationInfo) -> bool:
        device = info.data.get("device")
        if value and device is not None and device.kind not in (DeviceKind.NPU, DeviceKind.SIM):
            raise ValueError(f"needs npu or sim devices, not {device}")
        return value

    @field_validator("outputs")
    @classmethod
    def _no_input_again(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        both = set(info.data.get("inputs", ())) & set(value)
        if both:
            raise ValueError(f"{min(both)!r} is both an input and an output")
        return value

    @property
    def activations(self) -> list[str]:
        """What to activate, line by line."""
        given = self.activate or []
        return [given] if isinstance(given, str) else given

    @property
    def ask_before_s(self) -> float:
        """How long before its time limit a job is asked to end: it needs time to save, and to train."""
        return self.grace if self.time_limit is None else min(self.grace, self.time_limit / 3)

    def has_segment(self, number: int) -> bool:
        """Whether a job may take so many time limits."""
        # One that says of itself that it came further, and ends at once, would else go on for ever.
        return number <= (_MOST_SEGMENTS if self.segments == "auto" else self.segments)

    @property
    def stages_data(self) -> bool:
        """Whether data has to be copied to or from the node."""
        return self.sends_results or any(map(is_remote, self.inputs.values()))

    @property
    def sends_results(self) -> bool:
        """Whether results have to be uploaded when it ends."""
        return any(map(is_remote, filter(None, (*self.outputs.values(), self.ckpt))))

    def check_addresses(self) -> None:
        """BadInput where one is half written. No rule of the model: jobs that have such a one are still read."""
        for url in filter(None, (*self.inputs.values(), *self.outputs.values(), self.ckpt)):
            half = half_address(url)
            if half is not None:
                raise BadInput(
                    f"{url!r} is half an address", hint=f"write {half}://, or ./ before a path"
                )

    @property
    def names_hub(self) -> bool:
        """Whether its inputs, or its code, which may be a folder yet, are to be looked for in the hub."""
        return isinstance(self.code, str) or any(map(is_of_hub, self.inputs.values()))

    def dump(self) -> dict[str, Any]:
        """As JSON values, without defaults, with secrets."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def masked(self) -> dict[str, Any]:
        """As JSON values to show to people: what looks like a secret is masked."""
        shown = self.model_dump(mode="json")
        if isinstance(self.code, GitCode):
            shown["code"]["git"] = _SIGN_IN.sub(rf"\1{MASK}@", self.code.git)
        shown["environment"] = {
            name: MASK if _SECRET.search(name) else value
            for name, value in self.environment.items()
        }
        return shown
