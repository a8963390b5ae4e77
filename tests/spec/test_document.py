import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jumar.errors import BadInput
from jumar.spec.document import parse_spec, read_spec_file, validate_spec
from jumar.spec.job import JobSpec

WHOLE = """\
name: 手写数字 v2
code: {git: "https://example.org/lab/digits.git", commit: 0123456789abcdef0123456789abcdef01234567}
command: [python, train.py, --epochs, 3, --lr, 0.1]
framework: pytorch
image: lab/torch:2.7
device: npu:8
nodes: 2
type: distributed
ranks: device
auto_port: true
preemptible: true
deterministic: true
priority: 900
time_limit: 1h30m
grace: 45
hang_limit: 0
segments: 4
inputs: {data_url: "obs://bucket/digits", pretrain_url: /data/model.ckpt}
outputs: {train_url: "s3://bucket/out"}
ckpt: obs://bucket/ckpt
requirements: train/pip-requirements.txt
environment: {OMP_NUM_THREADS: 4, HF_TOKEN: hf_secret}
activate: [module load cann/8.0, torch2]
after: [k7x2m9q4tb, "any:digits"]
array: 0-9%2
endpoints: [ssh, jupyter, tensorboard]
cpus: 4
memory: 16G
retries: 2
fault_retries: 2
resume: off
measure: true
slurm: {partition: npu, extra: [--exclude=node7]}
"""


def parse(text: str) -> JobSpec:
    return parse_spec(text, source="job.yaml", folder=Path("/lab"))


def message(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse(text)
    return str(caught.value)


def test_every_field_can_be_given() -> None:
    spec = parse(WHOLE)
    given_fields = yaml.safe_load(WHOLE).keys()
    assert given_fields | {"workdir", "launch"} == JobSpec.model_fields.keys()
    assert spec.command == ["python", "train.py", "--epochs", "3", "--lr", "0.1"]
    assert spec.time_limit == 5400
    assert spec.environment["OMP_NUM_THREADS"] == "4"


def test_what_is_dumped_reads_back_the_same() -> None:
    spec = parse(WHOLE)
    assert JobSpec.model_validate(json.loads(json.dumps(spec.dump()))) == spec


def test_secrets_are_hidden_when_shown_and_kept_when_stored() -> None:
    spec = parse(WHOLE)
    assert "hf_secret" not in json.dumps(spec.masked())
    assert spec.masked()["environment"]["OMP_NUM_THREADS"] == "4"
    assert "hf_secret" in json.dumps(spec.dump())


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "PASSWORD", "db_password", "API_KEY", "AK", "OBS_SK", "GH_PAT"],
)
def test_variables_that_look_secret_are_hidden(name: str) -> None:
    spec = JobSpec(name="x", command="ls", environment={name: "hidden-value"})
    assert "hidden-value" not in json.dumps(spec.masked())


@pytest.mark.parametrize("name", ["PATH", "MASTER_PORT", "TASK", "MONKEY", "SKIP_CHECKS", "RANK"])
def test_other_variables_are_shown(name: str) -> None:
    spec = JobSpec(name="x", command="ls", environment={name: "shown-value"})
    assert "shown-value" in json.dumps(spec.masked())


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ann:s3cret@example.org/r.git", "https://***@example.org/r.git"),
        ("https://ghp_s3cret@example.org/r.git", "https://***@example.org/r.git"),
        ("ssh://git@example.org/r.git", "ssh://git@example.org/r.git"),
        ("https://example.org/a@b.git", "https://example.org/a@b.git"),
    ],
)
def test_a_password_in_a_git_address_is_hidden_when_shown(address: str, shown: str) -> None:
    spec = parse(f"name: x\ncommand: ls\ncode: {{git: '{address}', commit: {'a' * 40}}}")
    assert spec.masked()["code"]["git"] == shown
    assert spec.dump()["code"]["git"] == address


def test_folders_are_taken_from_where_the_file_is() -> None:
    assert parse("name: x\ncommand: ls\ncode: ../src").code == "/src"
    assert parse("name: x\ncommand: ls\nworkdir: run").workdir == "/lab/run"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\ncommand: ls\nspeed: 3", "job.yaml:3: speed: unknown field"),
        ("name: x", "job.yaml: command: is missing"),
        ("command: ls", "job.yaml: name: is missing"),
        ("name: x\ncommand: ls\ndevice: npu:-2", "job.yaml:3: device: 'npu:-2': the count"),
        ("name: x\ncommand: ls\ndevice: tpu:2", "job.yaml:3: device: 'tpu:2' is not a device"),
        ("name: x\ncommand: ls\ndevice: {kind: npu, count: 0}", "job.yaml:3: device:"),
        ("name: x\ncommand: ls\nnodes: 0", "job.yaml:3: nodes:"),
        ("name: x\ncommand: ls\nnodes: 2", "job.yaml:3: nodes: a regular job has one node"),
        ("name: x\ncommand: ls\npriority: 1001", "job.yaml:3: priority:"),
        ("name: x\ncommand: ls\nretries: yes", "job.yaml:3: retries: must be a whole number"),
        ("name: x\ncommand: ls\ntime_limit: on", "job.yaml:3: time_limit: must be a whole"),
        ("name: x\ncommand: ls\nhang_limit: false", "job.yaml:3: hang_limit: must be a whole"),
        ("name: x\ncommand: ls\ntime_limit: soon", "job.yaml:3: time_limit: 'soon' is not a dur"),
        ("name: x\ncommand: ls\ntime_limit: 0", "job.yaml:3: time_limit:"),
        ("name: ../x\ncommand: ls", "job.yaml:1: name: '../x' is not a name"),
        ("name: a/b\ncommand: ls", "is not a name"),
        ("name: '  '\ncommand: ls", "is not a name"),
        ("name: " + "x" * 10_000 + "\ncommand: ls", "job.yaml:1: name:"),
        ("name: x\ncommand: []", "job.yaml:2: command: the command is empty"),
        ("name: x\ncommand: {a: 1}", "job.yaml:2: command: must be a list of words"),
        ('name: x\ncommand: ["ls", "a\\0b"]', "NUL"),
        ("name: x\ncommand: ls\ncode: 3", "job.yaml:3: code: must be a folder"),
        (
            "name: x\ncommand: ls\ncode:\n  git: https://h/r.git\n  commit: main",
            "job.yaml:5: code.commit: 'main' is not a commit",
        ),
        ("name: x\ncommand: ls\ncode: {git: 'ext::sh -c id', commit: abcdef1}", "git address"),
        ("name: x\ncommand: ls\ncode: {git: '--upload-pack=id', commit: abcdef1}", "git address"),
        (
            "name: x\ncommand: ls\ncode: a\nworkdir: b",
            "job.yaml:4: workdir: use code or workdir, not both",
        ),
        ("name: x\ncommand: ls\nrequirements: ../../etc/passwd", "not a path inside the code"),
        ("name: x\ncommand: ls\ninputs: {data_url: 'http://x'}", "job.yaml:3: inputs"),
        ("name: x\ncommand: ls\ninputs: {a-b: /x}", "is not a name"),
        (
            "name: x\ncommand: ls\ninputs: {a: /x}\noutputs: {a: /y}",
            "job.yaml:4: outputs: 'a' is both an",
        ),
        ("name: x\ncommand: ls\nenvironment: {A B: 1}", "environment variable"),
        ("name: x\ncommand: ls\nauto_port: true", "job.yaml:3: auto_port: needs npu"),
        ("name: 2026-01-31\ncommand: ls", "job.yaml:1: name: is not text; put it in quotes"),
        (
            "name: x\ncommand: [echo, yes]",
            "job.yaml:2: command, item 2: is not text; put it in quotes",
        ),
        *(
            (
                f"name: x\ncommand: ls\nsegments: {what}",
                "job.yaml:3: segments: must be auto, or a whole",
            )
            for what in ("zz", "0", "10001", "true", "1.5", "[1]")
        ),
        ("name: x\ncommand: ls\nactivate: 3", "job.yaml:3: activate: must be one line of text"),
        ("name: x\ncommand: ls\nactivate: [a, 3]", "job.yaml:3: activate: must be one line of"),
        ("name: x\ncommand: ls\nendpoints: [telnet]", "job.yaml:3: endpoints"),
        ("name: x\nname: y", "job.yaml:2: name is given twice"),
        ("name: [x", "not YAML: line"),
        ("\tname: x", "not YAML: line 1"),
        ("- name: x", "must be a mapping"),
        ("", "must be a mapping"),
        ("just words", "must be a mapping"),
        ("? [a, b]\n: c", "must be text"),
        ("name: !!python/object/apply:os.system [id]\ncommand: ls", "job.yaml:1"),
        ("name: &n x\ncommand: *n", "job.yaml:2: YAML aliases"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_field(text: str, words: str) -> None:
    assert words in message(text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    words = message("speed: 1\ndevice: npu:0\ncommand: []\nname: ../x")
    assert [line.split(": ")[:2] for line in words.splitlines()] == [
        ["job.yaml:1", "speed"],
        ["job.yaml:2", "device"],
        ["job.yaml:3", "command"],
        ["job.yaml:4", "name"],
    ]


def test_a_yaml_bomb_is_refused_at_once() -> None:
    levels = ["a0: &a0 [x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert "aliases" in message("\n".join(levels))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in message("name: " + "[" * 5000 + "]" * 5000)


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe\x00", b"name: \xb0\xa1", b"x" * (1 << 21), b"\x00" * 100],
    ids=["utf-16", "gbk", "huge", "zeros"],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"job\.yaml"):
        read_spec_file(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(BadInput, match="cannot read"):
            read_spec_file(path)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\r\ncommand: ls\r\n")
    assert read_spec_file(path).name == "x"


@given(st.text(max_size=300))
def test_any_text_is_a_job_or_a_clear_error(text: str) -> None:
    try:
        assert isinstance(parse(text), JobSpec)
    except BadInput as error:
        assert str(error).startswith("job.yaml")


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(JobSpec.model_fields)), _values, max_size=6))
def test_any_value_in_any_field_is_a_job_or_a_clear_error(fields: dict[str, object]) -> None:
    text = yaml.safe_dump({"name": "x", "command": "ls", **fields}, allow_unicode=True)
    try:
        spec = parse(text)
    except BadInput as error:
        assert str(error).startswith("job.yaml")
    else:
        assert JobSpec.model_validate(spec.dump()) == spec


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (r'command: ["train", "a\0b"]', "command, item 2"),
        (r'command: "train \0"', "command"),
        (r'environment: {"A\0": "x"}', r"environment.A\x00"),
        (r'image: "lab\0"', "image"),
        (r'workdir: "/data\0"', "workdir"),
        (r'code: "src\0"', "code"),
        (r'inputs: {data_url: "/data\0"}', "inputs.data_url"),
        (r'code: {git: "https://example.org/\0", commit: "0123456789"}', "code.git"),
    ],
)
def test_text_that_cannot_be_kept_is_refused_with_its_field_and_line(line: str, field: str) -> None:
    command = "" if line.startswith("command") else "command: train\n"
    with pytest.raises(BadInput) as refused:
        parse_spec(f"name: x\n{command}{line}\n", source="job.yaml", folder=Path("/"))
    number = 3 if command else 2
    assert f"job.yaml:{number}: {field}: " in refused.value.message
    assert "NUL" in refused.value.message or "surrogate" in refused.value.message


def test_half_a_character_is_refused_with_its_field() -> None:
    values = {"name": "x", "command": ["train", "\udc80"], "environment": {"A": "\ud800"}}
    with pytest.raises(BadInput) as refused:
        validate_spec(values, source="job")
    assert "job: command, item 2: has half of a surrogate pair" in refused.value.message
    assert "job: environment.A: has half of a surrogate pair" in refused.value.message
