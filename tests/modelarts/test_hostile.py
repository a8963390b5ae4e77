"""What signed, half signed and forged requests do: never a job twice, never one of somebody else."""

import json
import time
from collections.abc import Generator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.modelarts.conftest import Signer
from tests.server.conftest import Running, serving

from jumar.client import Client
from jumar.modelarts.signing import Signed, authorization, date_header
from jumar.server.modelarts.chores import Chores
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState, JobState


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(scope="module")
def ann(server: Running) -> Signer:
    return _signer(server, "ann")


@pytest.fixture(scope="module")
def bob(server: Running) -> Signer:
    return _signer(server, "bob")


def _signer(server: Running, user: str) -> Signer:
    with Client(server.url, server.token(user)) as client:
        return Signer(client.modelarts_keys())


def body(
    name: str = "digits", flavor: str = "modelarts.kat1.xlarge", **algorithm: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "algorithm": {"command": "python train.py", **algorithm},
        "spec": {"resource": {"flavor_id": flavor}},
    }


def is_refused(answer: tuple[int, Any], status: int, code: str = "ModelArts.") -> bool:
    assert answer[0] == status, answer
    assert set(answer[1]) == {"is_success", "error_code", "error_msg"}
    assert answer[1]["error_msg"]
    return str(answer[1]["error_code"]).startswith(code)


def test_what_is_not_signed_by_a_user_is_refused(server: Running, ann: Signer) -> None:
    path, gate = "/training-job-engines", "APIGW.0301"
    assert ann("GET", path)[0] == 200
    assert is_refused(ann("GET", path, sk="x" * 40), 401, gate)
    wrong = ann("GET", path, sk="x" * 40)[1]["error_msg"]
    assert wrong.startswith("Incorrect IAM authentication information: ")
    assert is_refused(ann("GET", path, ak="NOBODY"), 401, gate)
    # The platform's own pair is for the door alone.
    assert is_refused(ann("GET", path, ak="@platform"), 401, gate)
    for minutes in (-20, -16, 16):
        assert is_refused(ann("GET", path, at=time.time() + 60 * minutes), 401, gate)
    old = ann("GET", path, at=time.time() - 1200)[1]["error_msg"]
    assert old.endswith("server's time; hint: set the clock of the client")
    for minutes in (-14, 14):
        assert ann("GET", path, at=time.time() + 60 * minutes)[0] == 200
    made = body()
    assert is_refused(
        ann("POST", "/training-jobs", made, sent_body=json.dumps(body("evil")).encode()), 401, gate
    )
    unsigned = {"x-sdk-content-sha256": "UNSIGNED-PAYLOAD"}
    assert is_refused(ann("POST", "/training-jobs", made, headers=unsigned), 401, gate)
    for header in ("", "Bearer x", "SDK-HMAC-SHA256 Access=, SignedHeaders=, Signature=", "ÿ" * 99):
        headers = {"authorization": header}
        assert is_refused(ann.send("GET", f"/v2/default{path}", headers, b""), 401, gate)
    assert is_refused(_signer_of_stranger(server)("GET", path), 403)
    assert is_refused(ann("GET", path, project="other"), 403)


def _signer_of_stranger(server: Running) -> Signer:
    """Of somebody who had keys and waits for an approval again."""
    server.site.accounts.set_role("eve", "member")
    made = _signer(server, "eve")
    server.site.accounts.set_role("eve", "pending")
    return made


def test_date_and_host_must_be_signed(ann: Signer) -> None:
    host = ann.keys.endpoint.removeprefix("http://")
    every = {"host": host, "x-sdk-date": date_header(time.time())}
    for missing in every:
        headers = {name: value for name, value in every.items() if name != missing}
        target = "/v2/default/training-job-engines"
        request = Signed(method="GET", path=target, query="", headers=every)
        whole = authorization(ann.keys.ak, ann.keys.sk, request)
        part = whole.replace("host;x-sdk-date", next(iter(headers)))
        status, said = ann.send("GET", target, {**every, "authorization": part}, b"")
        assert (status, said["error_code"]) == (401, "APIGW.0301")


def test_a_request_sent_again_acts_once(server: Running, ann: Signer) -> None:
    now = time.time()

    def twice(*words: Any, at: float) -> Any:
        first, second = ann(*words, at=at), ann(*words, at=at)
        assert first == second
        return first[1]

    job = twice("POST", "/training-jobs", body("once"), at=now)["metadata"]["id"]
    another = ann("POST", "/training-jobs", body("once"), at=now - 1)[1]["metadata"]["id"]
    assert another != job
    place = f"/training-jobs/{job}"
    assert ann("PUT", place, {"description": "one"}, at=now)[0] == 200
    assert ann("PUT", place, {"description": "two"}, at=now)[0] == 200
    assert ann("PUT", place, {"description": "one"}, at=now)[0] == 200
    assert ann("GET", place)[1]["metadata"]["description"] == "two"
    twice("POST", f"{place}/actions", {"action_type": "terminate"}, at=now)
    twice("DELETE", place, at=now)
    assert is_refused(ann("GET", place), 404)
    # What is left to do: the job goes.
    server.wait(job, JobState.STOPPED)
    Chores(server.site).do()
    assert is_refused(ann("GET", place), 404)
    assert not [one for one in server.site.service.page(user="ann").jobs if one.id == job]
    assert ann("POST", "/training-jobs", body("once"), at=now)[1]["metadata"]["id"] == job


def test_jobs_of_others_do_not_exist(server: Running, ann: Signer, bob: Signer) -> None:
    job = bob("POST", "/training-jobs", body("secret"))[1]["metadata"]["id"]
    below = ("", "/tasks", "/events", "/stages", "/metrics/worker-0", "/logs/worker-0")
    for path in (*below, "/tasks/worker-0/logs/preview", "/tasks/worker-0/logs/url"):
        theirs = ann("GET", f"/training-jobs/{job}{path}")
        none = ann("GET", f"/training-jobs/nosuchjob0{path}")
        assert theirs[0] == none[0] == 404
        assert str(theirs[1]).replace(job, "nosuchjob0") == str(none[1])
    for method, path, sent in (
        ("PUT", "", {"description": "mine"}),
        ("DELETE", "", None),
        ("POST", "/actions", {"action_type": "terminate"}),
    ):
        assert is_refused(ann(method, f"/training-jobs/{job}{path}", sent), 404)
    batch = {"jobs": [{"metadata": {"id": job}}]}
    assert is_refused(ann("POST", "/training-jobs/batch-delete", batch), 404)
    found = ann("POST", "/training-job-searches", {"limit": 50})[1]["items"]
    assert {one["metadata"]["user_name"] for one in found} <= {"ann"}
    # Once bob is in another group, that is his project; the job stays with the one it was made in.
    server.site.service.groups.create("vision")
    server.site.service.groups.add("vision", "bob")
    assert is_refused(bob("GET", f"/training-jobs/{job}"), 403)
    assert is_refused(bob("GET", f"/training-jobs/{job}", project="vision"), 404)
    assert bob("POST", "/training-job-searches", {}, project="vision")[1]["total"] == 0
    assert bob("GET", "/training-job-names", query="job_name=secret", project="vision")[1] == {
        "is_duplicate": False
    }
    server.site.service.groups.remove("vision", "bob")
    assert bob("GET", f"/training-jobs/{job}")[0] == 200


def test_logs_by_line_by_end_and_by_link(server: Running, ann: Signer) -> None:
    job = ann("POST", "/training-jobs", body("logs"))[1]["metadata"]["id"]
    server.log_path(job).write_text("".join(f"line {number}\n" for number in range(1, 2001)))
    place = f"/training-jobs/{job}"

    def lines(query: str) -> tuple[str, str, int]:
        got = ann("GET", f"{place}/logs/worker-0", query=query)[1]
        assert got["lines"] == len(got["content"].splitlines())
        return got["start_line"], got["end_line"], got["lines"]

    assert lines("") == ("1501", "2000", 500)
    assert lines("order=asc&lines=10") == ("1", "10", 10)
    assert lines("base_line=10&order=asc&lines=10") == ("11", "20", 10)
    assert lines("base_line=1501&order=desc&lines=5") == ("1496", "1500", 5)
    assert lines("base_line=99999999&order=asc") == ("99999999", "99999999", 0)
    for query in ("base_line=x", "lines=0", "lines=1000000", "order=up", "base_line=-1"):
        assert is_refused(ann("GET", f"{place}/logs/worker-0", query=query), 400)
    assert is_refused(ann("GET", f"{place}/logs/worker-7"), 404)
    assert is_refused(ann("GET", f"{place}/logs/..%2f..%2fetc"), 404, "APIGW.0101")
    link = ann("GET", f"{place}/tasks/worker-0/logs/url")[1]["obs_url"]
    target = link.removeprefix(ann.keys.endpoint)
    status, text = ann.send("GET", target, {}, b"")
    assert (status, text.count(b"\n")) == (200, 2000)
    for old, new in ((target[-4:], "é000"), ("until=1", "until=2"), ("user=ann", "user=bob")):
        assert is_refused(
            ann.send("GET", quote(target.replace(old, new), safe="/?&=%"), {}, b""),
            401,
            "APIGW.0301",
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"name": "../x"}}, "name"),
        ({"algorithm": {}}, "boot_file or command"),
        ({"algorithm": {"boot_file": "/lab/code/train.py"}}, "code_dir"),
        (
            {"algorithm": {"boot_file": "/lab/other/train.py", "code_dir": "/lab/code/"}},
            "is not in code_dir",
        ),
        ({"algorithm": {"boot_file": "../train.py", "code_dir": "/lab/code/"}}, "boot_file"),
        ({"algorithm": {"boot_file": "train.py", "code_dir": "file:///etc/"}}, "place in OBS"),
        ({"algorithm": {"boot_file": "train.py", "code_dir": "/lab/nothing/"}}, "has no files"),
        ({"algorithm": {"boot_file": "train.py", "code_dir": "/lab/"}}, "whole bucket"),
        ({"algorithm": {"command": "x", "inputs": [{"name": "a b", "remote": {"obs": {"obs_url": "/l-b/x"}}}]}}, "a b"),
        ({"algorithm": {"command": "x", "inputs": [{"name": "a"}]}}, "obs_url"),
        ({"algorithm": {"command": "x", "parameters": [{"name": "a b", "value": 1}]}}, "not a name"),
        ({"algorithm": {"command": "x", "engine": {"engine_id": "none"}}}, "no engine"),
        ({"spec": {"resource": {"flavor_id": "none"}}}, "no flavor"),
        ({"spec": {"resource": {}}}, "flavor_id"),
        ({"spec": {"resource": {"flavor_id": "modelarts.kat1.xlarge"}, "auto_stop": {"duration": -1}}}, "duration"),
        ({"metadata": {"name": "x", "annotations": {"fault-tolerance/job-retry-num": "-1"}}}, "0 to 100"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(
    ann: Signer, change: dict[str, Any], words: str
) -> None:
    status, said = ann("POST", "/training-jobs", {**body(), **change})
    assert status == 400, said
    assert words in said["error_msg"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["kind", "metadata", "algorithm", "spec", "endpoints", "job_name", "config", "filters", "limit",
     "offset", "jobs", "action_type", "description"]
)  # fmt: skip
PLACES = st.sampled_from(
    [
        *(("v2", method, path) for method, path in (
            ("POST", "/training-jobs"), ("POST", "/training-job-searches"),
            ("POST", "/training-jobs/batch-delete"), ("PUT", "/training-jobs/JOB"),
            ("POST", "/training-jobs/JOB/actions"), ("GET", "/training-jobs/JOB/logs/worker-0"),
            ("GET", "/training-jobs/JOB/events"), ("GET", "/training-job-flavors"),
            ("GET", "/training-quotas"), ("GET", "/training-logs/JOB/0"), ("PATCH", "/x"),
        )),
        *(("v1", method, path) for method, path in (
            ("POST", "/training-jobs"), ("POST", "/training-jobs/1/versions"),
            ("GET", "/training-jobs/1/versions/1/aom-log"), ("GET", "/training-jobs"),
            ("GET", "/training-jobs/99999999999999999999/versions"), ("GET", "/job/resource-specs"),
        )),
    ]
)  # fmt: skip
QUERY = st.lists(
    st.tuples(
        st.sampled_from(
            ["limit", "offset", "lines", "order", "base_line", "page", "per_page", "until"]
        ),
        st.text(max_size=6),
    ),
    max_size=3,
)


@settings(max_examples=40)
@given(
    place=PLACES, query=QUERY, sent=st.dictionaries(FIELDS, JSON, max_size=4) | JSON | st.binary()
)
def test_nothing_that_is_sent_makes_the_server_fail(
    ann: Signer, place: tuple[str, str, str], query: list[tuple[str, str]], sent: Any
) -> None:
    api, method, path = place
    data = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    path = path.replace("JOB", "nosuchjob0")
    status, said = ann(method, path, data, query=urlencode(query), api=api)
    assert status < 500, (place, query, sent, said)
    if status >= 400:
        assert {"error_code", "error_msg"} <= set(said)


def test_every_call_is_described_and_wants_a_signature(ann: Signer) -> None:
    status, described = ann.send("GET", "/v2/openapi.json", {}, b"")
    assert status == 200
    assert {path.split("/")[1] for path in described["paths"]} == {"v1", "v2"}
    for path, calls in described["paths"].items():
        if "training-logs" in path:
            continue
        numbers = path.replace("{number}", "1").replace("{version}", "1")
        target = numbers.replace("{project_id}", "default").replace("{", "").replace("}", "")
        for method in calls:
            status, said = ann.send(method.upper(), target, {}, b"")
            assert (status, said["error_code"]) == (401, "APIGW.0301"), (method, path)


def test_states_and_quota_as_the_client_knows_them(server: Running, ann: Signer) -> None:
    job = ann("POST", "/training-jobs", body("states"))[1]["metadata"]["id"]
    place = f"/training-jobs/{job}"
    server.site.service.get(job)
    phases = {ann("GET", place)[1]["status"]["phase"]}
    server.wait(job, JobState.RUNNING)
    phases.add(ann("GET", place)[1]["status"]["phase"])
    assert phases <= {"Pending", "Creating", "Running"}
    waits = ann("POST", "/training-jobs", body("wide", flavor="modelarts.kat1.8xlarge"))[1]
    told = ann("GET", f"/training-jobs/{waits['metadata']['id']}")[1]["status"]
    # A client that follows the finer word goes on waiting at this one alone.
    assert (told["phase"], told["secondary_phase"]) == ("Pending", "Queuing")
    ann("DELETE", f"/training-jobs/{waits['metadata']['id']}")
    server.finish(job, AttemptState.FAILED, exit_code=3)
    status = ann("GET", place)[1]["status"]
    assert status["phase"] == "Failed"
    assert status["task_statuses"][0]["exit_code"] == 3
    assert is_refused(ann("POST", f"{place}/actions", {"action_type": "terminate"}), 409)
    assert ann("GET", "/training-quotas", query="resource=job-num")[1]["quotas"][0]["used"] >= 0
    assert ann("GET", "/training-job-names", query="job_name=states")[1] == {"is_duplicate": True}


def test_lists_are_sorted_and_filtered_as_asked(server: Running, ann: Signer) -> None:
    for name in ("list b", "list c", "list a"):
        job = ann("POST", "/training-jobs", body(name))[1]["metadata"]["id"]
        server.finish(job, cause=Cause.DONE)
    ours = {"key": "name", "operator": "like", "value": ["list "]}

    def names(**more: Any) -> list[str]:
        asked = {"filters": [ours, *more.pop("filters", [])], **more}
        found = ann("POST", "/training-job-searches", asked)[1]
        assert found["count"] == len(found["items"])
        return [one["metadata"]["name"].removeprefix("list ") for one in found["items"]]

    assert names() == ["a", "c", "b"]
    assert names(sort_by="name") == ["c", "b", "a"]
    assert names(sort_by="name", order="asc", offset=1, limit=1) == ["b"]
    assert names(sort_by="no such", order="asc") == ["b", "c", "a"]
    but_b = {"key": "name", "operator": "not", "value": ["list b"]}
    assert names(filters=[but_b]) == ["a", "c"]
    assert names(filters=[{"key": "phase", "operator": "not", "value": ["Completed"]}]) == []


def test_events_are_those_of_the_time_and_words_asked_for(server: Running, ann: Signer) -> None:
    job = ann("POST", "/training-jobs", body("events"))[1]["metadata"]["id"]
    server.finish(job, cause=Cause.DONE)
    place = f"/training-jobs/{job}/events"

    def total(**query: Any) -> int:
        return ann("GET", place, query=urlencode(query))[1]["total"]

    every = total()
    last = ann("GET", place)[1]["events"][0]["time"]
    assert every == total(start_time="0", end_time=str(int(time.time() * 1000) + 60_000))
    assert 0 < total(start_time=last) < every
    assert total(end_time="1") == 0
    assert total(pattern="created by ann") == 1
    assert total(pattern="never") == 0
    for wrong in ("x", "2026-99-01", "9" * 65):
        assert is_refused(ann("GET", place, query=f"start_time={wrong}"), 400)
