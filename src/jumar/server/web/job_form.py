"""The form of a job: its fields as data, what a browser sends to the values of a job, and back.

Everything that is typed stays text until the job's own model reads it, so the form, a job file and
the API refuse the same things in the same words."""

import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

import yaml

from jumar.errors import BadInput
from jumar.spec.document import read_mapping, spec_or_faults
from jumar.spec.job import MASK, GitCode, JobSpec

Values = dict[str, str]
"""What stands in the form, by the names of its inputs; several ticks are one text."""
Fault = tuple[str, str]
"""The input that is at fault, and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One input."""

    name: str
    kind: str
    options: tuple[str, ...] = ()
    example: str = ""
    required: bool = False
    least: int | None = None
    most: int | None = None
    when: str = ""
    """The origin of the code that it belongs to."""


@dataclass(frozen=True, slots=True)
class Section:
    """Inputs that belong together."""

    id: str
    fields: tuple[FormField, ...]
    folded: bool = False


@cache
def sections() -> tuple[Section, ...]:
    """The form from top to bottom."""
    text = files("jumar.server.web").joinpath("submit_form.toml").read_text("utf-8")
    return tuple(
        Section(section["id"], tuple(map(_field, section["fields"])), section.get("folded", False))
        for section in tomllib.loads(text)["section"]
    )


def _field(row: dict[str, Any]) -> FormField:
    row["options"] = tuple(row.get("options", ()))
    return FormField(**row)


@cache
def _kinds() -> dict[str, str]:
    return {field.name: field.kind for section in sections() for field in section.fields}


# Inputs that are not a job's field of the same name, and the field that they are of.
_PARTS = {
    "device_kind": "device",
    "device_count": "device",
    "code_from": "code",
    "archive": "code",
    "git": "code",
    "commit": "code",
}
_NUMBERS = frozenset(
    {"nodes", "priority", "retries", "fault_retries", "time_limit", "grace", "hang_limit"}
)
_PAIRED = ("inputs", "outputs", "environment")
_INPUT_OF = {"device": "device_kind", "code": "code_from"}


def read(sent: Iterable[tuple[str, str]]) -> Values:
    """What a browser sent; inputs that the form does not have are left out."""
    kinds, values = _kinds(), Values()
    for name, text in sent:
        if name not in kinds:
            continue
        plain = text.replace("\r\n", "\n").strip()
        values[name] = f"{values[name]}\n{plain}" if name in values else plain
    return values


def check(values: Values, secrets: JobSpec | None = None) -> JobSpec | list[Fault]:
    """The job that the form describes, or what is wrong, input by input.

    `secrets`: the job that the form was filled from, whose masked values are meant where a mask stands."""
    data, faults = _job_values(values)
    if not faults:
        _unmask(data, secrets)
        faults = [("environment", f"{name}: type its value") for name in _still_masked(data)]
    found = spec_or_faults(data)
    if isinstance(found, JobSpec) and not faults:
        return found
    if isinstance(found, list):
        faults += [(_input_of(place), _worded(place, words)) for place, words in found]
    return faults


def _input_of(place: str) -> str:
    field = place.partition(".")[0].partition(",")[0]
    name = _INPUT_OF.get(field, field)
    return name if name in _kinds() else "more"


def _worded(place: str, words: str) -> str:
    _, _, inner = place.partition(".")
    known = place in _kinds() or place in _INPUT_OF
    return words if known else f"{inner or place}: {words}"


def _job_values(values: Values) -> tuple[dict[str, Any], list[Fault]]:
    data: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, text in values.items():
        if not text or name in _PARTS or name == "more" or name == "workdir":
            continue
        try:
            data[name] = _value(name, text)
        except ValueError as error:
            faults.append((name, str(error)))
    kind = values.get("device_kind") or "cpu"
    data["device"] = f"{kind}:{values.get('device_count') or 1}"
    data.update(_code(values))
    if data.get("segments") and data["segments"].isdecimal():
        data["segments"] = int(data["segments"])
    try:
        more = read_mapping(values.get("more", ""), source="more")
    except BadInput as error:
        return data, [*faults, ("more", error.message)]
    for name, inner in more.items():
        both = isinstance(inner, dict) and isinstance(data.get(name), dict)
        data[name] = {**data[name], **cast("dict[str, Any]", inner)} if both else inner
    return data, faults


def _value(name: str, text: str) -> Any:
    kind = _kinds()[name]
    if kind in ("pairs", "places"):
        return _pairs(text)
    if kind in ("lines", "ticks"):
        return [line.strip() for line in text.split("\n") if line.strip()]
    if kind == "flag" or name == "preemptible":
        return text in ("yes", "on")
    if name in _NUMBERS and text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    return text


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        name, equals, value = line.strip().partition("=")
        if not equals:
            raise ValueError(f"{line.strip()[:80]!r}: write NAME=VALUE, one per line")
        if name in pairs:
            raise ValueError(f"{name} is given twice")
        pairs[name] = value
    return pairs


def _code(values: Values) -> dict[str, Any]:
    match values.get("code_from"):
        case "upload":
            return {"code": {"archive": values.get("archive", "")}}
        case "git":
            commit = values.get("commit")
            return {
                "code": {"git": values.get("git", ""), **({"commit": commit} if commit else {})}
            }
        case "workdir":
            return {"workdir": values.get("workdir", "")}
        case _:
            return {}


def _unmask(data: dict[str, Any], secrets: JobSpec | None) -> None:
    if secrets is None:
        return
    environment = cast("dict[str, str]", data.get("environment", {}))
    for name in _still_masked(data):
        environment[name] = secrets.environment.get(name, MASK)
    code = data.get("code", {})
    if isinstance(secrets.code, GitCode) and code.get("git") == secrets.masked()["code"]["git"]:
        code["git"] = secrets.code.git


def _still_masked(data: Mapping[str, Any]) -> list[str]:
    environment = cast("dict[str, str]", data.get("environment", {}))
    return [name for name, value in environment.items() if value == MASK]


def fill(spec: JobSpec) -> Values:
    """The form of a job that exists; secrets are masked."""
    shown, given = spec.masked(), spec.dump()
    values: Values = {
        "command": spec.command if isinstance(spec.command, str) else shlex.join(spec.command),
        "device_kind": str(spec.device.kind),
        "device_count": str(spec.device.count),
        "code_from": "workdir" if spec.workdir else "none",
    }
    match shown.get("code"):
        case {"archive": str(digest)}:
            values |= {"code_from": "upload", "archive": digest}
        case {"git": str(address)} as code:
            values |= {"code_from": "git", "git": address, "commit": code.get("commit") or ""}
        case _:
            pass
    for name, kind in _kinds().items():
        if name in values or shown.get(name) in (None, [], {}):
            continue
        values[name] = _text(kind, shown[name])
    rest = {k: v for k, v in given.items() if k not in _kinds() and k not in _PARTS.values()}
    rest |= {name: pairs for name in _PAIRED if (pairs := _not_lines(shown[name]))}
    values["more"] = yaml.safe_dump(rest, allow_unicode=True, sort_keys=False) if rest else ""
    return values


def _not_lines(pairs: dict[str, str]) -> dict[str, str]:
    """Those that a line cannot hold."""
    return {name: text for name, text in pairs.items() if text != text.strip() or "\n" in text}


def _text(kind: str, value: Any) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, str]", value)
        odd = _not_lines(pairs)
        return "\n".join(f"{name}={text}" for name, text in pairs.items() if name not in odd)
    if isinstance(value, list):
        return "\n".join(cast("list[str]", value))
    if isinstance(value, bool):
        return "yes" if value else "no" if kind == "choice" else ""
    return str(value)


def empty(kind: str) -> Values:
    """A new form: a job's defaults, on the cards that there are."""
    spec = JobSpec.model_validate({"name": "x", "command": "x", "device": f"{kind}:1"})
    return {**fill(spec), "name": "", "command": ""}
