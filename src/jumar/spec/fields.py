"""The kinds of fields a job's description has: what each takes, and what its JSON Schema says of it."""

import re
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from jumar.spec.devices import MOST_DEVICES, DeviceKind, DeviceRequest
from jumar.spec.duration import format_duration, parse_duration
from jumar.spec.endpoints import ENDPOINT_PATTERN, checked_endpoint
from jumar.spec.memory import LEAST_BYTES, MOST_BYTES, format_memory, parse_memory
from jumar.spec.urls import SCHEMES

MOST_SECONDS = 366 * 24 * 3600
# The longest argument or variable that Linux takes.
MOST_CHARACTERS = 131072
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_GIT_SCHEMES = ("https://", "http://", "ssh://", "git://", "file://", "git@", "/")

# What the JSON Schema says of text. Its dialect of patterns knows no letters but ASCII ones, so all
# others pass there; the model has the last word.
_PLAIN_DURATION = r"^(?=.*[1-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s?)?$"
INPUT_SCHEMES = (*SCHEMES, "hub")
_PLAIN_INPUT = rf"^(({'|'.join(INPUT_SCHEMES)})://|(?!.*://).)"
_PLAIN_PLACE = rf"^(({'|'.join(SCHEMES)})://|(?!.*://).)"
NAMES = {"pattern": f"^{VARIABLE.pattern}$"}

_ONE_LINE = r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$"

# As git names branches and tags, as far as a name cannot be taken for an option or a pattern.
_REF = r"^(?!-)(?!.*\.\.)[^\x00-\x20~^:?*\[\\\x7f]+$"

AfterJob = Annotated[str, Field(min_length=1, max_length=160, pattern=_ONE_LINE)]
Activation = Annotated[str, Field(max_length=4096, pattern=_ONE_LINE)]


def _device(value: object) -> DeviceRequest:
    return value if isinstance(value, DeviceRequest) else DeviceRequest.parse(str(value))


def _text(value: object) -> object:
    # YAML reads `--epochs 3` as a number; what a program gets is text.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def described(**words: Any) -> Any:
    """A field whose JSON Schema says what its validator here asks for."""
    return Field(json_schema_extra=words)


Endpoint = Annotated[str, AfterValidator(checked_endpoint), described(pattern=ENDPOINT_PATTERN)]
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


Memory = Annotated[
    int,
    BeforeValidator(parse_memory),
    Field(ge=LEAST_BYTES, le=MOST_BYTES),
    PlainSerializer(format_memory),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": LEAST_BYTES, "maximum": MOST_BYTES},
                {"type": "string", "pattern": r"^\s*[0-9]{1,15}\s*[KMGTkmgt]?([iI]?[bB])?\s*$"},
            ],
            "description": "how much memory the job may take, per node: bytes, 512M, 16G (GiB)",
            "examples": ["16G"],
        }
    ),
]

Text = Annotated[
    str,
    BeforeValidator(_text),
    Field(max_length=MOST_CHARACTERS),
    WithJsonSchema({"type": ["string", "number"], "maxLength": MOST_CHARACTERS}),
]


Place = Annotated[str, described(pattern=_PLAIN_PLACE)]
Inputs = Annotated[
    dict[str, Annotated[str, described(pattern=_PLAIN_INPUT)]],
    described(propertyNames={**NAMES, "maxLength": 64}),
]
Places = Annotated[dict[str, Place], described(propertyNames={**NAMES, "maxLength": 64})]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class GitCode(Strict):
    """Code from a git repository at one commit; the client makes a commit of a branch or tag."""

    git: Annotated[str, described(pattern=rf"^({'|'.join(_GIT_SCHEMES)})")]
    commit: Annotated[str, described(pattern=f"^{_COMMIT.pattern}$")] | None = None
    ref: Annotated[str, Field(max_length=256), described(pattern=_REF)] | None = Field(
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


class ArchivedCode(Strict):
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
    Annotated[list[Text], described(minItems=1), Tag("<words>")]
    | Annotated[str, Field(max_length=MOST_CHARACTERS), described(pattern=r"\S"), Tag("<line>")],
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
