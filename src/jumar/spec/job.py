"""`JobSpec`: what to run, on what, with what. One model for YAML, flags, the API and the form."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from jumar.spec.array import JobArray
from jumar.spec.devices import MOST_DEVICES, DeviceKind, DeviceRequest
from jumar.spec.duration import format_duration, parse_duration
from jumar.spec.urls import SCHEMES, is_remote

MOST_SECONDS = 366 * 24 * 3600
# The longest argument or variable that Linux takes.
MOST_CHARACTERS = 131072
_NAME = re.compile(r"[^\W_][\w.\- ]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_GIT_SCHEMES = ("https://", "http://", "ssh://", "git://", "file://", "git@", "/")
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(AK|SK|PAT|KEY|AUTH)(_|$)|API_?KEY", re.I)
# `https://NAME:PASSWORD@…`, `https://TOKEN@…`; the user of ssh:// is no secret.
_SIGN_IN = re.compile(r"^(https?://)[^/]+@")
MASK = "***"

# What the JSON Schema says of text. Its dialect of patterns knows no letters but ASCII ones, so all
# others pass there; the model has the last word.
_PLAIN_NAME = r"^(?!.*\.\.)(?!.* $)[^\x00-/:-@\[-`{-\x7f][^\x00-\x1f!-,/:-@\[-^`{-\x7f]*$"
_PLAIN_DURATION = r"^(?=.*[1-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s?)?$"
_PLAIN_PLACE = rf"^(({'|'.join(SCHEMES)})://|(?!.*://).)"
_INPUT_SCHEMES = (*SCHEMES, "hub")
_PLAIN_INPUT = rf"^(({'|'.join(_INPUT_SCHEMES)})://|(?!.*://).)"
_INNER_PATH = r"^(?!/)(?!(.*/)?\.\.(/|$))."
_NAMES = {"pattern": f"^{_VARIABLE.pattern}$"}

_PLAIN_ARRAY = r"^\d{1,7}(-\d{1,7}(:\d{1,7})?)?(,\d{1,7}(-\d{1,7}(:\d{1,7})?)?)*(%[1-9]\d{0,3})?$"
_ONE_LINE = r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$"

# As git names branches and tags, as far as a name cannot be taken for an option or a pattern.
_REF = r"^(?!-)(?!.*\.\.)[^\x00-\x20~^:?*\[\\\x7f]+$"

AfterJob = Annotated[str, Field(min_length=1, max_length=160, pattern=_ONE_LINE)]
Activation = Annotated[str, Field(max_length=4096, pattern=_ONE_LINE)]
Endpoint = Literal["ssh", "jupyter", "tensorboard"]


def _check_url(name: str, url: str, known: tuple[str, ...] = SCHEMES) -> None:
    scheme = url.split("://", 1)[0] if "://" in url else "file"
    if not url or "\0" in url or scheme not in known:
        raise ValueError(f"{name}: {url!r} is not a path, file://, obs:// or s3:// address")


def _device(value: object) -> DeviceRequest:
    return value if isinstance(value, DeviceRequest) else DeviceRequest.parse(str(value))


def _text(value: object) -> object:
    # YAML reads `--epochs 3` as a number; what a program gets is text.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _described(**words: Any) -> Any:
    """A field whose JSON Schema says what its validator here asks for."""
    return Field(json_schema_extra=words)


Device = Annotated[
    DeviceRequest,
    PlainValidator(_device),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^({'|'.join(DeviceKind)})(:([1-9][0-9]{{0,2}}|10[01][0-9]|102[0-4]))?$",
            "description": f"kind and count of devices per node, at most {MOST_DEVICES}",
            "examples": ["npu:8", "gpu:1", "sim:2", "cpu"],
        }
    ),
]


def _duration_schema(*others: object) -> WithJsonSchema:
    forms = [
        {"type": "integer", "minimum": 1, "maximum": MOST_SECONDS},
        {"type": "string", "pattern": _PLAIN_DURATION},
    ]
    return WithJsonSchema(
        {
            "anyOf": [*forms, *([{"enum": list(others)}] if others else [])],
            "description": "seconds, or a duration such as 90s, 30m, 1h30m, 2d",
            "examples": ["1h30m", 3600],
        }
    )


Seconds = Annotated[
    int,
    BeforeValidator(parse_duration),
    Field(ge=1, le=MOST_SECONDS),
    PlainSerializer(format_duration),
    _duration_schema(),
]
SecondsOrNone = Annotated[
    int,
    BeforeValidator(parse_duration),
    Field(ge=0, le=MOST_SECONDS),
    PlainSerializer(format_duration),
    _duration_schema(0, "0", "0s"),
]


Text = Annotated[
    str,
    BeforeValidator(_text),
    Field(max_length=MOST_CHARACTERS),
    WithJsonSchema({"type": ["string", "number"], "maxLength": MOST_CHARACTERS}),
]


Place = Annotated[str, _described(pattern=_PLAIN_PLACE)]
Inputs = Annotated[
    dict[str, Annotated[str, _described(pattern=_PLAIN_INPUT)]],
    _described(propertyNames={**_NAMES, "maxLength": 64}),
]
Places = Annotated[dict[str, Place], _described(propertyNames={**_NAMES, "maxLength": 64})]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class GitCode(_Strict):
    """Code from a git repository at one commit; the client makes a commit of a branch or tag."""

    git: Annotated[str, _described(pattern=rf"^({'|'.join(_GIT_SCHEMES)})")]
    commit: Annotated[str, _described(pattern=f"^{_COMMIT.pattern}$")] | None = None
    ref: Annotated[str, Field(max_length=256), _described(pattern=_REF)] | None = Field(
        default=None, description="a branch or a tag instead of a commit"
    )

    @field_validator("git")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        # `ext::sh -c …` and leading dashes would make git run a command of the submitter's choice.
        if not value.startswith(_GIT_SCHEMES):
            raise ValueError(f"{value!r} is not a git address; write https://…, ssh://… or git@…")
        return value

    @field_validator("commit")
    @classmethod
    def _full_commit(cls, value: str | None) -> str | None:
        if value is not None and not _COMMIT.fullmatch(value):
            raise ValueError(f"{value!r} is not a commit; a branch or a tag is a ref: ref: {value}")
        return value

    @field_validator("ref")
    @classmethod
    def _plain_ref(cls, value: str | None) -> str | None:
        if value is not None and not re.match(_REF, value):
            raise ValueError(f"{value!r} is not the name of a branch or a tag")
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.commit is None) == (self.ref is None):
            raise ValueError("a git address needs a commit or a ref, and not both")
        return self


class ArchivedCode(_Strict):
    """Code that a client has uploaded, named by the SHA-256 of its tar file."""

    archive: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _form_of_code(value: object) -> str | None:
    if isinstance(value, str):
        return "<folder>"
    if isinstance(value, GitCode) or (isinstance(value, dict) and "git" in value):
        return "<git>"
    if isinstance(value, ArchivedCode) or (isinstance(value, dict) and "archive" in value):
        return "<archive>"
    return None


Code = Annotated[
    Annotated[str, Tag("<folder>")]
    | Annotated[GitCode, Tag("<git>")]
    | Annotated[ArchivedCode, Tag("<archive>")],
    Discriminator(
        _form_of_code,
        custom_error_type="code",
        custom_error_message="must be a folder, {git: URL, commit: HASH} or {git: URL, ref: BRANCH}",
    ),
    Field(description="a folder, a git repository at a commit, or an uploaded archive"),
]


Command = Annotated[
    Annotated[list[Text], _described(minItems=1), Tag("<words>")]
    | Annotated[str, Field(max_length=MOST_CHARACTERS), _described(pattern=r"\S"), Tag("<line>")],
    Discriminator(
        lambda value: (
            "<words>" if isinstance(value, list) else "<line>" if isinstance(value, str) else None
        ),
        custom_error_type="command",
        custom_error_message="must be a list of words, or one line of text",
    ),
    Field(
        description="a list is run as it is; a string is run by bash (or sh)",
        examples=[["python", "train.py"], "source /pod.env && ./run.sh"],
    ),
]


class JobSpec(_Strict):
    """One training job, the same on every engine."""

    name: Annotated[str, Field(min_length=1, max_length=128), _described(pattern=_PLAIN_NAME)]
    command: Command
    code: Code | None = None
    workdir: str | None = Field(
        default=None, description="run in this folder of the server's machine, without a copy"
    )
    framework: Annotated[str, Field(max_length=128)] | None = None
    image: Annotated[str, Field(max_length=512)] | None = None
    device: Annotated[Device, _described(default="cpu:1")] = DeviceRequest(DeviceKind.CPU, 1)
    type: Literal["regular", "distributed"] = "regular"
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    ranks: Literal["node", "device"] = Field(
        default="node", description="start the command once per node or once per device"
    )
    auto_port: bool = Field(
        default=False,
        description="run a CUDA script unchanged on npu or sim devices: cuda means npu at run time",
    )
    preemptible: bool = False
    priority: Annotated[int, Field(ge=1, le=1000)] = 100
    time_limit: Seconds | None = None
    grace: Seconds = Field(default=30, description="grace period between SIGTERM and SIGKILL")
    hang_limit: SecondsOrNone = Field(
        default=1800,
        description="end the job when none of its ranks does anything for so long; 0: never",
    )
    segments: Annotated[int, Field(ge=1, le=10000)] | Literal["auto"] = Field(
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
    requirements: Annotated[str, _described(pattern=_INNER_PATH)] | None = Field(
        default=None,
        description="a requirements file inside the code; pip-requirements.txt next to the "
        "script is found automatically",
    )
    environment: Annotated[dict[str, Text], _described(propertyNames=_NAMES)] = Field(
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
    array: Annotated[str, Field(max_length=1024), _described(pattern=_PLAIN_ARRAY)] | None = Field(
        default=None,
        description="many jobs of one kind, each with its index in JUMAR_ARRAY_INDEX; %N: at most "
        "N at once",
        examples=["0-9", "1,4-8", "0-99%4"],
    )
    endpoints: list[Endpoint] = Field(default_factory=list[Endpoint])
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description="how often to try again when the script fails"
    )
    fault_retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3,
        description="how often to try again, on other cards where there are some, after a fault of "
        "the machine, a card or the network; counted anew with each checkpoint",
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
            if not _VARIABLE.fullmatch(name) or len(name) > 64:
                raise ValueError(f"{name!r} is not a name; use letters, digits and '_'")
            _check_url(name, url, _INPUT_SCHEMES if info.field_name == "inputs" else SCHEMES)
        return value

    @field_validator("ckpt")
    @classmethod
    def _ckpt_url(cls, value: str | None) -> str | None:
        if value is not None:
            _check_url("ckpt", value)
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
            if not _VARIABLE.fullmatch(name) or "\0" in text:
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
        return self.segments == "auto" or number <= self.segments

    @property
    def stages_data(self) -> bool:
        """Whether data has to be copied to or from the node."""
        return self.sends_results or any(map(is_remote, self.inputs.values()))

    @property
    def sends_results(self) -> bool:
        """Whether results have to be uploaded when it ends."""
        return any(map(is_remote, filter(None, (*self.outputs.values(), self.ckpt))))

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
