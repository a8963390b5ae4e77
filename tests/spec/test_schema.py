"""The published JSON Schema and the model say the same about a job file."""

import string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from tests.spec.test_document import WHOLE

from jumar.spec.devices import DeviceKind
from jumar.spec.duration import format_duration
from jumar.spec.fields import MOST_SECONDS
from jumar.spec.job import JobSpec

SCHEMA = JobSpec.model_json_schema()
VALIDATOR: Any = Draft202012Validator(SCHEMA)
BASE: dict[str, Any] = {"name": "x", "command": "ls"}


def schema_takes(values: object) -> bool:
    return bool(VALIDATOR.is_valid(values))


def model_takes(values: object) -> bool:
    try:
        JobSpec.model_validate(values)
    except ValidationError:
        return False
    return True


def _commit(digits: str) -> dict[str, str]:
    return {"git": "https://example.org/r.git", "commit": digits}


def _with_arguments(program: list[str]) -> st.SearchStrategy[list[str | int | float]]:
    return st.lists(texts, max_size=3).map(lambda rest: [*program, *rest])


variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
texts = words | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
seconds = st.integers(1, MOST_SECONDS)
durations = seconds | st.builds(format_duration, seconds)
places = st.sampled_from(["/data/x", "results", "obs://bucket/数据", "s3://b/k", "file:///data"])
names = st.from_regex(r"[0-9A-Za-z训练一][0-9A-Za-z训练一_\- ]{0,30}[a-z]", fullmatch=True)
kinds = st.sampled_from([kind.value for kind in DeviceKind])
hexes = st.text("0123456789abcdef", min_size=40, max_size=40)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "code": st.just("src") | st.builds(_commit, hexes),
    "framework": words,
    "image": words,
    "device": kinds | st.tuples(kinds, st.integers(1, 1024)).map("{0[0]}:{0[1]}".format),
    "type": st.just("distributed"),
    "ranks": st.sampled_from(["node", "device"]),
    "preemptible": st.booleans(),
    "deterministic": st.booleans(),
    "priority": st.integers(1, 1000),
    "time_limit": durations,
    "grace": durations,
    "hang_limit": durations | st.sampled_from([0, "0s"]),
    "segments": st.integers(1, 10000),
    "inputs": st.dictionaries(variables.map("in_{}".format), places, max_size=3),
    "outputs": st.dictionaries(variables.map("out_{}".format), places, max_size=3),
    "ckpt": places,
    "requirements": st.sampled_from(["pip-requirements.txt", "a/b..c.txt", "..x/r.txt"]),
    "environment": st.dictionaries(variables, texts, max_size=3),
    "endpoints": st.lists(st.sampled_from(["ssh", "jupyter", "tensorboard"]), max_size=3),
    "retries": st.integers(0, 100),
}
programs = words.filter(str.strip)
commands = programs | st.lists(programs, min_size=1, max_size=1).flatmap(_with_arguments)
jobs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": names, "command": commands}, optional=FIELDS
)


@given(jobs)
def test_every_job_passes_the_schema_as_written_as_kept_and_as_shown(job: dict[str, Any]) -> None:
    VALIDATOR.validate(job)
    spec = JobSpec.model_validate(job)
    VALIDATOR.validate(spec.dump())
    VALIDATOR.validate(spec.masked())


def test_the_schema_is_one_and_its_own_defaults_and_examples_pass_it() -> None:
    VALIDATOR.check_schema(SCHEMA)
    VALIDATOR.validate(yaml.safe_load(WHOLE))
    for name, described in SCHEMA["properties"].items():
        shown = described.get("examples", [])
        if "default" in described:
            shown = [*shown, described["default"]]
        for value in shown:
            VALIDATOR.validate({**BASE, name: value})


ascii_text = st.text(string.printable.replace("\n", "").replace("\x0b\x0c", ""), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | ascii_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ascii_text, inner, max_size=3),
    max_leaves=5,
)
# A relative folder is made absolute when the file is read; a command is looked at word by word.
COMPARED = sorted(set(JobSpec.model_fields) - {"workdir", "command"})


@given(st.sampled_from(COMPARED), values)
def test_what_passes_the_schema_is_a_job(field: str, value: object) -> None:
    job = {**BASE, "device": "sim:1", field: value}
    if field == "nodes":
        job["type"] = "distributed"
    if field == "auto_port":
        job["device"] = "npu:1"
    if schema_takes(job):
        JobSpec.model_validate(job)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("colour", "red"),
        ("name", "../x"),
        ("name", "x" * 129),
        ("name", "_x"),
        ("name", "x "),
        ("name", 3),
        ("command", []),
        ("command", " "),
        ("command", [True]),
        ("code", {"git": "ext::sh -c id", "commit": "0" * 40}),
        ("code", {"git": "https://h/r", "commit": "main"}),
        ("code", {"archive": "short"}),
        ("device", "npu:0"),
        ("device", "npu:-2"),
        ("device", "tpu:1"),
        ("device", "npu:1025"),
        ("device", {"kind": "npu", "count": 2}),
        ("device", 2),
        ("time_limit", "soon"),
        ("time_limit", "0s"),
        ("time_limit", 0),
        ("grace", "1.5h"),
        ("hang_limit", -1),
        ("hang_limit", "never"),
        ("inputs", {"a-b": "/x"}),
        ("inputs", {"a": "http://x"}),
        ("inputs", {"a": ""}),
        ("ckpt", "ftp://x"),
        ("requirements", "../r.txt"),
        ("requirements", "a/../../r.txt"),
        ("requirements", "/etc/passwd"),
        ("environment", {"A B": "x"}),
        ("environment", {"A": True}),
        ("endpoints", ["telnet"]),
        ("priority", 1001),
    ],
)
def test_neither_takes_what_is_no_job(field: str, value: object) -> None:
    job = {**BASE, field: value}
    assert (schema_takes(job), model_takes(job)) == (False, False)
