"""What is told of a job whose logs say nothing, because it has not ended or never ran."""

import secrets
from typing import Any

import pytest
from tests.server.conftest import Running

from jumar.client import Client
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.spec.verdicts import Verdict


def told_of(shared: Running, job: str) -> Verdict:
    with Client(shared.url, shared.token("ann")) as client:
        return client.why(job)


def test_a_job_that_runs_has_no_fault_yet(shared: Running) -> None:
    job = shared.running_job("ann", name=f"j-{secrets.token_hex(4)}")
    verdict = told_of(shared, job.id)
    assert (verdict.whose, verdict.kind) == ("none", "nothing")
    assert "has not ended" in verdict.what["en"]
    assert verdict.remedy["zh"].count(job.id) == 1
    shared.finish(job.id, AttemptState.SUCCEEDED)


def test_a_job_that_waits_is_told_what_for(shared: Running) -> None:
    first = shared.running_job("ann", name=f"j-{secrets.token_hex(4)}")
    job = shared.submit("ann", name=f"j-{secrets.token_hex(4)}", after=[first.id])
    verdict = told_of(shared, job.id)
    assert (verdict.whose, verdict.kind) == ("none", "nothing")
    assert f"waits for {first.id} to succeed" in verdict.what["en"]
    assert first.id in verdict.what["zh"]
    shared.finish(first.id, AttemptState.FAILED, exit_code=1)
    verdict = told_of(shared, job.id)
    assert verdict.whose == "none"
    assert f"{first.id}, which it waits for, did not succeed" in verdict.what["en"]
    assert f"`jumar why {first.id}`" in verdict.remedy["en"]


@pytest.mark.parametrize(
    ("cause", "values", "what"),
    [
        (Cause.ACTIVATE_UNKNOWN, {"name": "torch9"}, "Nothing named torch9 can be activated"),
        (Cause.REQUIREMENTS_FILE, {"file": "r.txt"}, "r.txt does not exist in the code."),
        (Cause.INPUTS, {"error": "no such bucket"}, "The inputs could not be fetched: no such"),
    ],
)
def test_what_kept_the_command_from_starting_is_told(
    shared: Running, cause: Cause, values: dict[str, Any], what: str
) -> None:
    job = shared.running_job("ann", name=f"j-{secrets.token_hex(4)}")
    shared.finish(job.id, AttemptState.FAILED, cause=cause, values=values)
    verdict = told_of(shared, job.id)
    assert verdict.cause == cause
    assert verdict.what["en"].startswith(what)
    assert f"jumar rerun {job.id}" in verdict.remedy["zh"]
