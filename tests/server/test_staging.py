"""What the API and the pages tell of a job's data, and the keys that users give for it."""

import json
import time
from pathlib import Path

import pytest
from tests.server.conftest import Running
from tests.waiting import wait_for

from jumar.spec.records import Carried, StagingRecord
from jumar.spec.states import AttemptState
from jumar.store.credentials import Credential
from jumar.store.users import UserStores

OUT = {"train_url": "obs://lab/out"}
HALF = Carried(
    files=312, total_files=5000, bytes=12 * 10**8, total_bytes=2 * 10**10, bytes_per_s=85e6
)


def told(phase: str, **fields: object) -> StagingRecord:
    return StagingRecord(phase=phase, updated_at=time.time(), **fields)  # pyright: ignore[reportArgumentType]


def page(running: Running, path: str, **headers: str) -> tuple[int, str]:
    answer = running.ask("GET", path, headers=headers)
    return answer.status, answer.text


def test_progress_is_on_the_page_and_news_of_it_come(running: Running) -> None:
    job = running.running_job(inputs={"data_url": "obs://lab/data"})
    running.engine.stage(job.id, told("bringing", inputs=HALF))
    _, english = page(running, f"/jobs/{job.id}")
    assert "312 of 5,000 files, 1.2 GB of 20.0 GB, 85.0 MB/s" in english
    _, chinese = page(running, f"/jobs/{job.id}?lang=zh")
    assert "312 / 5,000 个文件" in chinese
    record = running.api("GET", f"/jobs/{job.id}").json["staging"]
    assert (record["phase"], record["inputs"]["files"]) == ("bringing", 312)
    seen = f"/jobs/{job.id}?seen={running.site.service.version}&carried={record['updated_at']:.3f}"
    assert page(running, seen, **{"HX-Request": "true"})[0] == 204
    running.engine.stage(job.id, told("brought", inputs=HALF))
    assert page(running, seen, **{"HX-Request": "true"})[0] == 200


@pytest.mark.parametrize("phase", ["bringing", "sending", "running"])
def test_a_store_that_is_away_is_told_on_the_page(running: Running, phase: str) -> None:
    job = running.running_job(outputs=OUT)
    running.engine.stage(job.id, told(phase, error="10.0.0.9 <did> not answer", outputs=Carried()))
    for language in ("en", "zh"):
        text = page(running, f"/jobs/{job.id}?lang={language}")[1]
        assert "10.0.0.9 &lt;did&gt; not answer" in text
        assert "0 of 0" not in text


def test_results_left_behind_are_marked_everywhere_until_they_are_uploaded(
    running: Running,
) -> None:
    job = running.running_job(outputs=OUT)
    assert running.api("POST", f"/jobs/{job.id}/upload").status == 409
    running.engine.stage(job.id, told("not-uploaded", error="the store is away"))
    running.finish(job.id)
    assert running.api("GET", f"/jobs/{job.id}").json["not_uploaded"] is True
    assert running.api("GET", "/jobs").json["jobs"][0]["not_uploaded"] is True
    assert "Results not uploaded yet" in page(running, "/jobs")[1]
    _, text = page(running, f"/jobs/{job.id}")
    assert "Results not uploaded yet" in text
    assert "the store is away" in text
    assert running.api("POST", f"/jobs/{job.id}/upload").status == 200
    wait_for(lambda: not running.api("GET", f"/jobs/{job.id}").json["not_uploaded"])
    assert "Results not uploaded yet" not in page(running, "/jobs")[1]
    assert running.api("POST", f"/jobs/{job.id}/upload").status == 200


def test_a_job_with_local_outputs_has_nothing_to_upload(running: Running) -> None:
    job = running.running_job(outputs={"train_url": "/data/out"})
    running.finish(job.id, AttemptState.SUCCEEDED)
    answer = running.api("POST", f"/jobs/{job.id}/upload")
    assert answer.status == 409
    assert "nothing to upload" in answer.error


def test_a_key_is_checked_kept_for_its_user_and_never_given_out(
    running: Running, moto_credential: Credential
) -> None:
    body = {"endpoint": moto_credential.endpoint, "access_key": "AKBOB", "secret_key": "sk-of-bob"}
    kept = running.api("PUT", "/stores/obs", user="bob", body=body)
    assert kept.status == 200, kept.text
    assert kept.json["endpoint"] == moto_credential.endpoint
    for answer in (kept, running.api("GET", "/stores", user="bob")):
        assert "AKBOB" not in answer.text
        assert "sk-of-bob" not in answer.text
    path = running.home / "store-users" / "bob.json"
    assert path.stat().st_mode & 0o777 == 0o600
    stores = UserStores(running.home, owner="root")
    assert stores.job_values("bob")["obs"]["secret_key"] == "sk-of-bob"
    for other in ("ann", "root"):
        assert "obs" not in stores.job_values(other)
        assert running.api("GET", "/stores", user=other).json == []
    assert running.api("DELETE", "/stores/obs", user="bob").status == 204
    assert running.api("GET", "/stores", user="bob").json == []
    assert "sk-of-bob" not in path.read_text()


def test_the_key_of_the_homes_owner_is_the_homes(
    running: Running, moto_credential: Credential
) -> None:
    body = {
        "endpoint": moto_credential.endpoint,
        "access_key": "AKROOT",
        "secret_key": "sk-of-root",
    }
    assert running.api("PUT", "/stores/s3", user="root", body=body).status == 200
    assert json.loads((running.home / "store.json").read_text())["s3"]["access_key"] == "AKROOT"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/stores/obs", {"region": "../x", "access_key": "a", "secret_key": "sk-secret"}, 422),
        ("/stores/obs", {"endpoint": "ftp://x", "access_key": "a", "secret_key": "sk-secret"}, 422),
        (
            "/stores/ftp",
            {"region": "cn-north-4", "access_key": "a", "secret_key": "sk-secret"},
            422,
        ),
        ("/stores/obs", {"region": "cn-north-4", "access_key": "", "secret_key": "sk-secret"}, 422),
        (
            "/stores/obs",
            {"endpoint": "http://127.0.0.1:1", "access_key": "a", "secret_key": "sk-secret"},
            503,
        ),
    ],
)
def test_a_key_that_cannot_be_checked_is_not_kept(
    running: Running, path: str, body: dict[str, str], status: int
) -> None:
    answer = running.api("PUT", path, body=body)
    assert answer.status == status, answer.text
    assert "sk-secret" not in answer.text
    assert not Path(running.home / "store-users").exists()
