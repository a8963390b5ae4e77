"""`JobSpec`: what to run, on what, with what. One model for YAML, flags, the API and the form."""

import re
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from jumar.spec.devices import MOST_DEVICES, DeviceKind, DeviceRequest
from jumar.spec.duration import format_duration, parse_duration
from jumar.spec.places import SCHEMES, is_remote

MOST_SECONDS = 366 * 24 * 3600
_NAME = re.compile(r"[^\W_][\w.\- ]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_GIT_SCHEMES = ("https://", "http://", "ssh://", "git://", "file://", "git@", "/")
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(AK|SK|PAT|KEY|AUTH)(_|$)|API_?KEY", re.I)
MASK = "***"

Endpoint = Literal["ssh", "jupyter", "tensorboard"]


def _check_url(name: str, url: str) -> None:
    scheme = url.split("://", 1)[0] if "://" in url else "file"
    if not url or "\0" in url or scheme not in SCHEMES:
        raise ValueError(f"{name}: {url!r} is not a path, file://, obs:// or s3:// address")


def _device(value: object) -> object:
    if isinstance(value, str):
        return DeviceRequest.parse(value)
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value)
        return DeviceRequest.parse(f"{parts.get('kind')}:{parts.get('count', 1)}")
    return value


Device = Annotated[
    DeviceRequest,
    BeforeValidator(_device),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^({'|'.join(DeviceKind)})(:[1-9][0-9]*)?$",
            "description": f"a device kind and how many a node, at most {MOST_DEVICES}",
            "examples": ["npu:8", "gpu:1", "sim:2", "cpu"],
        }
    ),
]

Seconds = Annotated[
    int,
    BeforeValidator(parse_duration),
    Field(ge=1, le=MOST_SECONDS),
    PlainSerializer(format_duration),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}],
            "description": "seconds, or a duration such as 90s, 30m, 1h30m, 2d",
            "examples": ["1h30m", 3600],
        }
    ),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class GitCode(_Strict):
    """Code from a git repository at one commit."""

    git: str
    commit: str

    @field_validator("git")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        # `ext::sh -c …` and leading dashes would make git run a command of the submitter's choice.
        if not value.startswith(_GIT_SCHEMES):
            raise ValueError(f"{value!r} is not a git address; write https://…, ssh://… or git@…")
        return value

    @field_validator("commit")
    @classmethod
    def _full_commit(cls, value: str) -> str:
        if not _COMMIT.fullmatch(value):
            raise ValueError(
                f"{value!r} is not a commit; a branch moves, so give its 40-digit commit"
            )
        return value


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
        custom_error_message="write a folder, or {git: ADDRESS, commit: HASH}",
    ),
    Field(description="a folder, a git repository at a commit, or an uploaded archive"),
]


def _words(value: object) -> object:
    # YAML reads `--epochs 3` in a list as a number; what a program gets is text.
    if isinstance(value, list):
        return [
            str(word) if isinstance(word, int | float) and not isinstance(word, bool) else word
            for word in cast("list[object]", value)
        ]
    return value


Command = Annotated[
    Annotated[list[Annotated[str, Field(max_length=131072)]], Tag("<words>")]
    | Annotated[str, Field(max_length=131072), Tag("<line>")],
    Discriminator(
        lambda value: (
            "<words>" if isinstance(value, list) else "<line>" if isinstance(value, str) else None
        ),
        custom_error_type="command",
        custom_error_message="write a list of words, or one line of text",
    ),
    BeforeValidator(_words),
    Field(
        description="a list is run as it is; a string is run by bash (or sh)",
        examples=[["python", "train.py"], "source /pod.env && ./run.sh"],
    ),
]


class JobSpec(_Strict):
    """One training job, the same on every engine."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    command: Command
    code: Code | None = None
    workdir: str | None = Field(
        default=None, description="run in this folder of the server's machine, without a copy"
    )
    framework: Annotated[str, Field(max_length=128)] | None = None
    image: Annotated[str, Field(max_length=512)] | None = None
    device: Device = DeviceRequest(DeviceKind.CPU, 1)
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    type: Literal["regular", "distributed"] = "regular"
    ranks: Literal["node", "device"] = Field(
        default="node", description="start the command once a node, or once a device"
    )
    auto_port: bool = Field(
        default=False,
        description="read cuda as npu while it runs: a CUDA script on npu or sim devices, unedited",
    )
    preemptible: bool = False
    priority: Annotated[int, Field(ge=1, le=1000)] = 100
    time_limit: Seconds | None = None
    grace: Seconds = Field(default=30, description="from the asking to end until it is killed")
    segments: Annotated[int, Field(ge=1, le=10000)] = 1
    inputs: dict[str, str] = Field(default_factory=dict)
    outputs: dict[str, str] = Field(default_factory=dict)
    ckpt: str | None = Field(
        default=None,
        description="where checkpoints are kept between jobs; the job finds them in JUMAR_CKPT_DIR",
    )
    requirements: str | None = Field(
        default=None,
        description="a requirements file inside the code; pip-requirements.txt beside the boot "
        "file is found by itself",
    )
    environment: dict[str, str] = Field(default_factory=dict)
    endpoints: list[Endpoint] = Field(default_factory=list[Endpoint])
    retries: Annotated[int, Field(ge=0, le=100)] = 0

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
            raise ValueError("the command has a NUL character")
        return value

    @field_validator("workdir")
    @classmethod
    def _absolute_workdir(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or "\0" in value):
            raise ValueError(f"{value!r} is not an absolute path")
        return value

    @field_validator("inputs", "outputs")
    @classmethod
    def _named_urls(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            if not _VARIABLE.fullmatch(name) or len(name) > 64:
                raise ValueError(f"{name!r} is not a name; use letters, digits and '_'")
            _check_url(name, url)
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

    @field_validator("environment", mode="before")
    @classmethod
    def _numbers_are_text(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            key: str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item
            for key, item in cast("dict[object, object]", value).items()
        }

    @field_validator("environment")
    @classmethod
    def _settable_variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _VARIABLE.fullmatch(name) or "\0" in text:
                raise ValueError(f"{name!r} cannot be an environment variable")
        return value

    @model_validator(mode="after")
    def _fields_that_go_together(self) -> "JobSpec":
        if self.code is not None and self.workdir is not None:
            raise ValueError("give code or workdir, not both: code is copied, workdir is not")
        if self.auto_port and self.device.kind not in (DeviceKind.NPU, DeviceKind.SIM):
            raise ValueError(f"auto_port needs npu or sim devices, not {self.device}")
        if self.nodes > 1 and self.type == "regular":
            raise ValueError("a regular job has one node; write type: distributed")
        both = set(self.inputs) & set(self.outputs)
        if both:
            raise ValueError(f"{sorted(both)[0]!r} is an input and an output")
        return self

    @property
    def stages_data(self) -> bool:
        """Whether something has to be carried to or from the node."""
        return self.sends_results or any(map(is_remote, self.inputs.values()))

    @property
    def sends_results(self) -> bool:
        """Whether something has to be carried away when it ends."""
        return any(map(is_remote, filter(None, (*self.outputs.values(), self.ckpt))))

    def dump(self) -> dict[str, Any]:
        """As JSON values, defaults left out; secrets are in it."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def masked(self) -> dict[str, Any]:
        """As JSON values to show to people: values of secret-looking variables are hidden."""
        shown = self.model_dump(mode="json")
        shown["environment"] = {
            name: MASK if _SECRET.search(name) else value
            for name, value in self.environment.items()
        }
        return shown
