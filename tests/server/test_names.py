"""Names of jobs belong to users, over the API, the client and the pages alike."""

import pytest
from tests.server.conftest import Running

from jumar.client import Client
from jumar.errors import BadInput, NotAllowed, NotFound
from jumar.spec.states import JobState


def test_somebody_elses_newer_job_does_not_take_ones_name(running: Running) -> None:
    mine = running.submit("ann", name="train")
    running.submit("bob", name="train")
    answer = running.api("GET", "/jobs/train", user="ann")
    assert (answer.status, answer.json["id"]) == (200, mine.id)


def test_an_administrator_stops_their_own_and_nobody_elses_by_a_name(running: Running) -> None:
    theirs = running.running_job("bob", name="mytrain")
    refused = running.api("POST", "/jobs/mytrain/stop", user="root")
    assert refused.status == 404
    assert "bob/mytrain" in refused.json["error"]["hint"]
    mine = running.running_job("root", name="mytrain")
    running.running_job("bob", name="mytrain")
    assert running.api("POST", "/jobs/mytrain/stop", user="root").json["id"] == mine.id
    assert running.site.service.get(theirs.id).state is JobState.RUNNING


def test_a_member_is_told_nothing_of_others_jobs_by_their_names(running: Running) -> None:
    running.submit("bob", name="secret-project")
    hidden = running.api("GET", "/jobs/secret-project", user="ann")
    absent = running.api("GET", "/jobs/absent-project", user="ann")
    assert hidden.status == absent.status == 404
    assert hidden.text.replace("secret", "absent") == absent.text
    told = [
        running.api("GET", f"/jobs/{name}?user=bob", user="ann")
        for name in ("secret-project", "absent-project")
    ]
    assert told[0].status == 403
    assert told[0].body == told[1].body


def test_every_call_of_the_client_takes_user_and_name(running: Running) -> None:
    theirs = running.running_job("bob", name="train")
    running.log_path(theirs.id).write_text("line\n")
    running.submit("root", name="train")
    with Client(running.url, running.token("root")) as root:
        assert root.get("bob/train").id == theirs.id
        assert [file.size for file in root.log_files("bob/train")] == [5]
        assert b"".join(root.logs("bob/train")) == b"line\n"
        assert root.rerun("bob/train").user == "root"
        assert root.stop("bob/train").id == theirs.id
        running.hint(theirs.id)
        assert root.wait("bob/train", timeout_s=180).id == theirs.id
        assert [type(event).__name__ for event in root.follow("bob/train")][-1] == "End"
        root.remove("bob/train")
        with pytest.raises(NotFound):
            root.get(theirs.id)
        with pytest.raises(NotFound, match="bob/train"):
            root.get("bob/train")
        for wrong in ("/train", "bob/", "/"):
            with pytest.raises(BadInput, match="does not name a job"):
                root.get(wrong)
    with Client(running.url, running.token("ann")) as ann, pytest.raises(NotAllowed):
        ann.get("bob/train")


def test_a_job_called_like_a_part_of_the_api_is_found(running: Running) -> None:
    for name in ("stop", "logs", "rerun"):
        job = running.submit("bob", name=name)
        with Client(running.url, running.token("root")) as root:
            assert root.get(f"bob/{name}").id == job.id
        page = running.ask("GET", f"/jobs/bob/{name}", user="root")
        assert (page.status, page.headers["Location"]) == (303, f"/jobs/{job.id}")


def test_waiting_for_a_name_is_waiting_for_the_job_that_had_it(running: Running) -> None:
    first = running.running_job("ann", name="train")
    with Client(running.url, running.token("ann")) as ann:
        real, looks = ann.get, list[str]()

        def get(job: str) -> object:
            looks.append(job)
            if len(looks) == 2:
                running.submit("ann", name="train", device="sim:8")
                running.finish(first.id)
            return real(job)

        ann.get = get  # pyright: ignore[reportAttributeAccessIssue]
        assert ann.wait("train", timeout_s=180).id == first.id


@pytest.mark.parametrize(
    ("path", "status"),
    [("/jobs/a%00b", 422), ("/jobs/x?user=a%00b", 422), ("/jobs/%ED%A0%80", 404)],
)
def test_what_no_name_can_hold_is_no_job(running: Running, path: str, status: int) -> None:
    assert running.api("GET", path, user="root").status == status
