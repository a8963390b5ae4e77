"""Why jobs ended, on the pages: every cause, in the visitor's language."""

import html

import pytest
from tests.server.conftest import Running
from tests.words.samples import cases, latin_left

from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import cause_sentence

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}


def test_every_cause_is_told_on_a_chinese_page(running: Running) -> None:
    for cause, form, values in cases():
        job = running.running_job(fault_retries=0)
        running.finish(job.id, AttemptState.FAILED, cause=cause, values=values)
        said = cause_sentence(cause, values, "zh")
        assert said is not None
        for path in (f"/jobs/{job.id}", "/"):
            page = html.unescape(running.ask("GET", path, headers=CHINESE).text)
            assert said in page, (cause, form)
        assert not latin_left(said, values)
        english = html.unescape(running.ask("GET", f"/jobs/{job.id}").text)
        assert str(cause_sentence(cause, values, "en")) in english
        told = running.api("GET", f"/jobs/{job.id}").json
        assert (told["cause"], told["values"]) == (cause, values)
        assert told["reason"] == cause_sentence(cause, values, "en")
        assert told["attempts"][0]["cause"] == cause


@pytest.mark.parametrize(("user", "by"), [("ann", {}), ("root", {"by": "root"})])
def test_a_stop_keeps_who_asked_and_why(running: Running, user: str, by: dict[str, str]) -> None:
    job = running.running_job()
    assert running.api("POST", f"/jobs/{job.id}/stop?why=wrong%20data", user=user).status == 200
    running.hint(job.id)
    running.wait(job.id, JobState.STOPPED)
    told = running.api("GET", f"/jobs/{job.id}").json
    assert (told["cause"], told["values"]) == (Cause.STOPPED, {**by, "why": "wrong data"})
    assert told["attempts"][0]["values"] == told["values"]
