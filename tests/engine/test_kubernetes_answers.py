"""What a refusal of the cluster means; the words are those of a kube-apiserver 1.37."""

import json

import pytest

from jumar.engine.kubernetes.answers import NoRoom, Taken, error_of
from jumar.errors import EngineFailed, SubmitRefused

JOB = 'jobs.batch "x" is forbidden: '
NO_RIGHT = (
    'jobs.batch is forbidden: User "system:serviceaccount:lab:jumar" cannot create resource '
    '"jobs" in API group "batch" in the namespace "lab"'
)
CASES: list[tuple[int, str, str, type[Exception]]] = [
    (403, "Forbidden", NO_RIGHT, EngineFailed),
    (401, "Unauthorized", "Unauthorized", EngineFailed),
    (403, "Forbidden", JOB + "exceeded quota: few, requested: count/jobs.batch=1", NoRoom),
    (403, "Forbidden", JOB + "status unknown for quota: few", EngineFailed),
    (403, "Forbidden", JOB + "not yet ready to handle request", EngineFailed),
    (403, "Forbidden", JOB + "unable to create new content in namespace lab", EngineFailed),
    (403, "Forbidden", 'admission webhook "v.io" denied the request: no', SubmitRefused),
    (
        *(403, "Forbidden"),
        JOB + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        SubmitRefused,
    ),
    (422, "Invalid", 'Job.batch "x" is invalid: spec.completions', SubmitRefused),
    (409, "AlreadyExists", 'jobs.batch "x" already exists', Taken),
    (409, "Conflict", "Operation cannot be fulfilled on resourcequotas", EngineFailed),
    (504, "Timeout", "Timeout: Too large resource version: 9, current: 3", EngineFailed),
    (500, "", "not JSON at all", EngineFailed),
]


@pytest.mark.parametrize(("code", "reason", "message", "kind"), CASES)
def test_a_code_means_what_its_words_say(
    code: int, reason: str, message: str, kind: type[Exception]
) -> None:
    data = json.dumps({"kind": "Status", "reason": reason, "message": message})
    found = error_of(code, data.encode() if reason else message.encode(), "POST", "/x")
    assert type(found) is kind
    assert message in str(found)
    # Only who lacks a right is sent to look at the rights.
    lacks = message in (NO_RIGHT, "Unauthorized")
    assert ("role.yaml" in str(getattr(found, "hint", ""))) is lacks
