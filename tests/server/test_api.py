"""The API's answers: records, pages, errors in one form."""

import hashlib
import json
import logging
import threading
from pathlib import Path

import pytest
from tests.server.conftest import LIMIT_S, Running, serving
from tests.tars import tar_of
from tests.waiting import wait_for

from jumar.spec.people import UserRecord
from jumar.spec.records import CardUse, JobPage, JobRecord, Plan, ServerInfo
from jumar.spec.states import JobState
from jumar.spec.wire import decode


def test_a_submitted_job_comes_back_as_a_record_and_is_on_the_list(running: Running) -> None:
    answer = running.api(
        "POST",
        "/jobs",
        body={
            "name": "mnist",
            "command": ["python", "t.py"],
            "device": "sim:2",
            "time_limit": "90s",
        },
    )
    assert answer.status == 201
    record = decode(JobRecord, answer.json)
    assert (record.name, record.user, record.device) == ("mnist", "ann", "sim:2")
    shown = decode(JobRecord, running.api("GET", f"/jobs/{record.id[:5]}").json)
    assert shown.id == record.id
    page = decode(JobPage, running.api("GET", "/jobs").json)
    assert [job.time_limit_s for job in page.jobs] == [90]
    assert [job.id for job in page.jobs] == [record.id]


def test_the_same_idempotency_key_gives_the_same_job(running: Running) -> None:
    body = {"name": "once", "command": "true"}
    headers = {"Idempotency-Key": "k1"}
    first = running.api("POST", "/jobs", body=body, headers=headers).json
    second = running.api("POST", "/jobs", body=body, headers=headers).json
    assert first["id"] == second["id"]
    assert running.api("GET", "/jobs").json["total"] == 1


def test_an_idempotency_key_belongs_to_one_job(running: Running) -> None:
    headers = {"Idempotency-Key": "k1"}
    body = {"name": "once", "command": "true", "environment": {"A": "1"}}
    first = running.api("POST", "/jobs", body=body, headers=headers).json
    spelled_out = {**body, "retries": 0}
    assert running.api("POST", "/jobs", body=spelled_out, headers=headers).json["id"] == first["id"]
    other = running.submit("ann", name="other")
    for path, changed in (
        ("/jobs", {**body, "name": "twice"}),
        ("/jobs", {**body, "environment": {"A": "2"}}),
        (f"/jobs/{other.id}/rerun", None),
    ):
        refused = running.api("POST", path, body=changed, headers=headers)
        assert (refused.status, refused.json["error"]["code"]) == (422, "idempotency-key-reused")
        assert first["id"] in refused.error
    assert running.api("GET", "/jobs").json["total"] == 2


def test_a_rerun_sent_twice_is_one_new_job(running: Running) -> None:
    job = running.submit("ann")
    headers = {"Idempotency-Key": "again"}
    sent = [running.api("POST", f"/jobs/{job.id}/rerun", headers=headers).json for _ in range(2)]
    assert sent[0]["id"] == sent[1]["id"] != job.id
    assert running.api("GET", "/jobs").json["total"] == 2


def test_the_list_is_narrowed_and_paged(running: Running) -> None:
    for number in range(5):
        running.submit("ann", name=f"a{number}")
    stopped = running.submit("bob", name="other", device="sim:8")
    running.api("POST", f"/jobs/{stopped.id}/stop", user="bob")
    running.wait(stopped.id, JobState.STOPPED)
    mine = running.api("GET", "/jobs?user=ann&limit=2").json
    assert [job["name"] for job in mine["jobs"]] == ["a4", "a3"]
    rest = running.api("GET", f"/jobs?user=ann&limit=9&before={mine['next_before']}").json
    assert [job["name"] for job in rest["jobs"]] == ["a2", "a1", "a0"]
    assert rest["next_before"] is None
    by_state = running.api("GET", "/jobs?state=stopped&state=lost").json
    assert [job["name"] for job in by_state["jobs"]] == ["other"]
    assert by_state["counts"]["stopped"] == 1
    assert running.api("GET", "/jobs?text=a3").json["total"] == 1


def test_stop_twice_is_stop_once(tmp_path: Path) -> None:
    with serving(tmp_path, obedient=False) as running:
        job = running.running_job()
        answers = [running.api("POST", f"/jobs/{job.id}/stop") for _ in range(2)]
        assert [answer.json["state"] for answer in answers] == ["stopping", "stopping"]


def test_a_job_that_is_over_cannot_be_stopped(running: Running) -> None:
    done = running.running_job()
    running.finish(done.id)
    waiting = running.submit(device="sim:8")
    assert running.api("POST", f"/jobs/{waiting.id}/stop").status == 200
    running.wait(waiting.id, JobState.STOPPED)
    again = running.api("POST", f"/jobs/{waiting.id}/stop")
    assert (again.status, again.json["state"]) == (200, "stopped")
    refused = running.api("POST", f"/jobs/{done.id}/stop")
    assert (refused.status, done.id in refused.error) == (409, True)


def test_plans_cards_and_the_server_are_records(running: Running) -> None:
    plan = running.api("POST", "/plans", body={"name": "x", "command": "true"})
    assert decode(Plan, plan.json).engine == "local"
    holder = running.running_job("ann", device="sim:2")
    cards = [decode(CardUse, card) for card in running.api("GET", "/cards").json]
    assert sum(card.job_id == holder.id for card in cards) == 2
    assert decode(ServerInfo, running.api("GET", "/server", user=None).json).name == "test"


def test_uploaded_code_is_kept_if_it_is_what_its_name_says(running: Running) -> None:
    data = tar_of(train="x" * 3_000_000)
    digest = hashlib.sha256(data).hexdigest()
    assert running.api("HEAD", f"/code/{digest}").status == 404
    wrong = running.api("PUT", f"/code/{digest}", body=data + b"y")
    assert (wrong.status, "SHA-256" in wrong.error) == (422, True)
    assert running.api("PUT", f"/code/{digest}", body=data).status == 204
    assert running.api("HEAD", f"/code/{digest}").status == 204
    kept = sorted(path.name for path in (running.home / "code").iterdir())
    assert kept == [f"{digest}.by", f"{digest}.names", f"{digest}.tar"]
    body = {"name": "x", "command": "true", "code": {"archive": digest}}
    assert running.api("POST", "/jobs", body=body).status == 201


def test_an_upload_that_is_no_tar_file_is_refused_in_words(running: Running) -> None:
    data = b"this is not a tar file"
    path = f"/code/{hashlib.sha256(data).hexdigest()}"
    answer = running.api("PUT", path, body=data)
    assert (answer.status, "cannot be read" in answer.error) == (422, True)
    assert running.api("HEAD", path).status == 404
    assert list((running.home / "code").iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(running: Running) -> None:
    connection = running.connect()
    connection.putrequest("PUT", f"/api/v1/code/{'a' * 64}")
    connection.putheader("Authorization", f"Bearer {running.token('ann')}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"only this")
    connection.close()
    assert running.api("GET", "/me").status == 200
    folder = running.home / "code"
    wait_for(lambda: folder.exists() and not list(folder.iterdir()))


def test_code_that_says_it_is_too_large_is_refused_at_once(running: Running) -> None:
    headers = {"Content-Length": str(3 << 30)}
    answer = running.api("PUT", f"/code/{'a' * 64}", headers=headers, body=b"")
    assert answer.status == 413


def test_registering_signing_in_and_a_token_of_ones_own(running: Running) -> None:
    person = {"name": "mia", "password": "long enough"}
    created = running.api("POST", "/users", user=None, body=person)
    assert created.status == 201
    assert decode(UserRecord, created.json).role == "pending"
    assert running.api("POST", "/users", user=None, body=person).status == 409
    wrong = running.api("POST", "/session", user=None, body={**person, "password": "guess"})
    assert wrong.status == 401
    token = running.api("POST", "/session", user=None, body=person).json["token"]
    running.tokens["mia"] = token
    assert running.api("GET", "/me", user="mia").json["name"] == "mia"
    made = running.api("POST", "/tokens", body={"label": "ci"}).json["token"]
    running.tokens["ci"] = made
    assert running.api("GET", "/me", user="ci").json["name"] == "ann"


def test_a_login_link_works_once(running: Running) -> None:
    url = running.api("POST", "/login-codes").json["url"]
    path = url.removeprefix(running.url)
    first = running.ask("GET", path, user=None)
    assert (first.status, first.headers["Location"]) == (303, "/")
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    again = running.ask("GET", path, user=None)
    assert again.status == 401
    page = running.ask("GET", "/", user=None, headers={"Cookie": cookie.split(";")[0]})
    assert page.status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "x", "command": "true", "colour": "red"}, "colour: unknown field"),
        ({"command": "true"}, "name: is missing"),
        ({"name": "x", "command": "true", "device": "npu:-1"}, "npu:-1"),
        ({"name": "../x", "command": "true"}, "'../x' is not a name"),
        ({"name": "n" * 10_000, "command": "true"}, "name: must have at most 128 characters"),
        ({"name": "x", "command": []}, "the command is empty"),
        ({"name": "x", "command": "true", "code": "/home/ann/code"}, "code: a folder cannot"),
        ({"name": "x", "command": "true", "device": "sim:9"}, "sim:9"),
        ({"name": "x", "command": "true", "code": {"archive": "0" * 64}}, "no uploaded code"),
        ([], "job:"),
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"name": "\xff"}', "not JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_job_that_is_wrong_is_refused_in_words_and_nothing_changes(
    shared: Running, body: object, words: str
) -> None:
    answer = shared.api("POST", "/jobs", body=body)
    assert answer.status in (404, 422)
    assert words in answer.error
    assert shared.api("GET", "/jobs").json["total"] == 0


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/nothing", 404, "/api/v1/nothing does not exist"),
        ("DELETE", "/jobs", 405, "DELETE is not allowed"),
        ("GET", "/jobs/zzzz", 404, "zzzz"),
        ("GET", "/jobs?limit=0", 422, "limit: "),
        ("GET", "/jobs?state=asleep", 422, "state, item 1: "),
        ("GET", "/jobs?before=x", 422, "before: "),
        ("PUT", "/code/short", 422, "digest: "),
        ("PATCH", "/users/nobody", 422, "body"),
    ],
)
def test_errors_have_one_form(
    shared: Running, method: str, path: str, status: int, words: str
) -> None:
    answer = shared.api(method, path, user="root")
    assert answer.status == status
    assert words in answer.error


def test_a_wrong_field_is_named_and_a_password_is_never_repeated(running: Running) -> None:
    body = {"name": "mia", "password": "s3cret-" * 200, "age": 3}
    answer = running.api("POST", "/users", user=None, body=body)
    assert answer.status == 422
    assert "age: unknown field" in answer.error
    assert "password: " in answer.error
    assert "s3cret" not in answer.text


def test_a_body_over_one_mebibyte_is_refused(running: Running) -> None:
    large = json.dumps({"name": "x", "command": "y" * (1 << 20)}).encode()
    assert running.api("POST", "/jobs", body=large).status == 413
    connection = running.connect()
    headers = {"Authorization": f"Bearer {running.token('ann')}", "Transfer-Encoding": "chunked"}
    pieces = (b"%x\r\n%s\r\n" % (65536, b" " * 65536) for _ in range(20))
    connection.putrequest("POST", "/api/v1/jobs")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"".join(pieces) + b"0\r\n\r\n")
    assert connection.getresponse().status == 413
    connection.close()


def test_an_unexpected_failure_is_logged_and_tells_nothing_outside(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("the inside of the server")

    monkeypatch.setattr(running.site.service, "cards", broken)
    with caplog.at_level(logging.ERROR):
        answer = running.api("GET", "/cards")
    assert answer.status == 500
    assert "inside" not in answer.text
    assert "the inside of the server" in caplog.text


def test_the_description_names_every_call_and_the_whole_job(running: Running) -> None:
    described = running.api("GET", "/openapi.json").json
    assert "/api/v1/jobs/{job}/logs/{node}/{rank}/stream" in described["paths"]
    assert "command" in described["components"]["schemas"]["JobSpec"]["properties"]
    for path, calls in described["paths"].items():
        assert path.startswith("/api/v1/")
        for call in calls.values():
            assert call["summary"]
    references = {
        text.split('"')[0]
        for text in json.dumps(described).split('"$ref": "#/components/schemas/')[1:]
    }
    assert references <= set(described["components"]["schemas"])


def test_names_that_look_like_paths_reach_no_file(running: Running, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("nobody may read this")
    for path in ("/static/../../secret", "/static/%2e%2e/%2e%2e/secret", "/jobs/..%2f..%2fsecret"):
        answer = running.ask("GET", path)
        assert answer.status == 404
        assert "nobody may read this" not in answer.text


def test_a_disk_that_the_scheduler_waits_for_keeps_no_page_waiting(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running.running_job(preemptible=True)
    path = f"/jobs/{job.id}/usage"
    assert running.api("GET", path).status == 200
    asked, answered = threading.Event(), threading.Event()

    def slow(_attempt: object) -> None:
        asked.set()
        answered.wait()

    monkeypatch.setattr("jumar.jobs.roster._saved_at", slow)
    another = threading.Thread(target=running.submit)
    another.start()
    try:
        assert asked.wait(LIMIT_S)
        assert running.api("GET", path).status == 200
    finally:
        answered.set()
        another.join()
