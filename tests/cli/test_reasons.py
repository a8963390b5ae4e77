"""Why jobs ended, in the terminal: every cause, in the language of the environment."""

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest
from click.testing import CliRunner
from tests.words.samples import cases, latin_left

from jumar.cli import jobs, show
from jumar.spec.records import AttemptRecord, JobPage, JobRecord
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import cause_sentence

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def failed(cause: str, values: dict[str, str | int]) -> JobRecord:
    attempt = AttemptRecord(
        number=1, state=AttemptState.FAILED, created_at=1.0, cause=cause, values=values
    )
    return JobRecord(
        id="k7x2m9q4tb",
        name="digits",
        user="ann",
        state=JobState.FAILED,
        device="cpu:1",
        nodes=1,
        priority=100,
        created_at=1.0,
        attempt=1,
        cause=cause,
        values=values,
        reason="english",
        spec={},
        attempts=(attempt,),
        directory="/jobs/k7x2m9q4tb",
    )


class Stub:
    """A client whose server knows one job."""

    def __init__(self, record: JobRecord) -> None:
        self._record = record

    def get(self, job: str) -> JobRecord:
        return self._record

    def page(self, **query: object) -> JobPage:
        return JobPage(jobs=(self._record,), total=1)


@contextmanager
def connected_to(record: JobRecord) -> Generator[Stub]:
    yield Stub(record)


@pytest.mark.parametrize("spoken", ["zh", "en"])
def test_every_cause_is_told_in_the_language_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, spoken: str
) -> None:
    monkeypatch.setenv("LC_ALL", {"zh": "zh_CN.UTF-8", "en": "C.UTF-8"}[spoken])
    for cause, _, values in cases():
        record = failed(cause, values)
        connected = partial(connected_to, record)
        said = cause_sentence(cause, values, spoken)
        assert said is not None
        for command, arguments in ((show, ["digits"]), (jobs, [])):
            monkeypatch.setattr(command, "connected", connected)
            done = CliRunner().invoke(command.command, arguments)
            assert done.exit_code == 0, done.output
            assert said in done.output
            assert ("失败" in done.output) == (spoken == "zh")
        if spoken == "zh":
            assert not latin_left(said, values)


def test_a_chinese_terminal_is_told_in_chinese(jumar: Jumar) -> None:
    chinese = {"LC_ALL": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8"}
    run = ("run", "--name", "sad", "--follow", "--", "sh", "-c", "exit 7")
    told = jumar(*run, rc=1, **chinese).stderr
    assert ") 失败，用时 " in told
    assert "原因：命令以退出码 7 退出" in told
    assert "命令以退出码 7 退出" in jumar("show", "sad", **chinese).stdout
    listed = jumar("jobs", **chinese).stdout
    assert "失败" in listed
    assert "命令以退出码 7 退出" in listed
    assert '"cause": "exit-code"' in jumar("show", "sad", "--json", **chinese).stdout
