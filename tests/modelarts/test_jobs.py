"""What the API says of jobs and does with them, beyond what the SDK's walk sees."""

import json
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.modelarts.conftest import Signer
from tests.modelarts.test_hostile import body, is_refused
from tests.server.conftest import Running, serving

from jumar.client import Client
from jumar.modelarts.catalogue import load_catalogue
from jumar.modelarts.measured import Machine, metrics_of
from jumar.modelarts.wanted import TrainingJob, job_spec
from jumar.server.modelarts.kept import Kept
from jumar.spec.devices import DeviceKind
from jumar.spec.usage import JobUsage, UsageCurve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("jobs")) as made:
        yield made


@pytest.fixture(scope="module")
def ann(server: Running) -> Signer:
    with Client(server.url, server.token("ann")) as client:
        return Signer(client.modelarts_keys())


def test_a_priority_is_edited_while_the_job_waits(server: Running, ann: Signer) -> None:
    blocker = server.running_job("bob", device="sim:8")

    def create(name: str) -> str:
        return ann("POST", "/training-jobs", body(name))[1]["metadata"]["id"]

    def line() -> list[str]:
        return [job.id for job in server.site.service.line(10)]

    def edit(job: str, priority: Any, at: float) -> tuple[int, Any]:
        sent = {"description": "soon", "spec": {"schedule_policy": {"priority": priority}}}
        return ann("PUT", f"/training-jobs/{job}", sent, at=at)

    one, two = create("one"), create("two")
    assert line() == [one, two]
    now = time.time()
    assert edit(two, 3, now)[0] == 200
    assert line() == [two, one]
    assert edit(two, 1, now)[0] == 200
    assert line() == [one, two]
    # The first once more: it was done, and is not done again.
    assert edit(two, 3, now)[0] == 200
    assert line() == [one, two]
    shown = ann("GET", f"/training-jobs/{two}")[1]
    assert shown["spec"]["schedule_policy"]["priority"] == 1
    assert shown["metadata"]["description"] == "soon"
    for wrong in (0, 4, "x", -1):
        assert is_refused(edit(two, wrong, now), 400)
    for job in (one, two):
        assert ann("DELETE", f"/training-jobs/{job}")[0] == 202
    server.finish(blocker.id)
    ended = server.finish(server.running_job().id)
    assert is_refused(edit(ended.id, 3, now), 409)


def test_what_was_answered_holds_as_long_as_its_signature(
    server: Running, ann: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    # By a clock that is fast: it is good for almost half an hour.
    ahead = now + 14 * 60
    job = ann("POST", "/training-jobs", body("ahead"), at=ahead)[1]["metadata"]["id"]
    place = f"/training-jobs/{job}"
    stop = ("POST", f"{place}/actions", {"action_type": "terminate"})
    stopped = ann(*stop, at=ahead)
    assert stopped[0] == 202
    deleted = ann("DELETE", place, at=ahead)
    later = now + 28 * 60
    monkeypatch.setattr("jumar.server.modelarts.caller.time", SimpleNamespace(time=lambda: later))
    Kept(server.site.service.database).forget_old(later)
    assert ann("POST", "/training-jobs", body("ahead"), at=ahead)[1]["metadata"]["id"] == job
    assert ann(*stop, at=ahead) == stopped
    assert ann("DELETE", place, at=ahead) == deleted
    later = now + 30 * 60
    assert is_refused(ann(*stop, at=ahead), 401, "APIGW.0301")


def test_a_link_gives_the_whole_log_or_a_part_of_it(server: Running, ann: Signer) -> None:
    job = ann("POST", "/training-jobs", body("long"))[1]["metadata"]["id"]
    text = b"\xff not text\n" + b"x" * (3 << 20) + b"\nend\n"
    place = f"/training-jobs/{job}/tasks/worker-0/logs/url"
    link = ann("GET", place)[1]["obs_url"].removeprefix(ann.keys.endpoint)
    assert is_refused(ann.send("GET", link, {}, b""), 404)
    server.log_path(job).write_bytes(text)
    assert ann.send("GET", link, {}, b"") == (200, text)
    assert ann.send("GET", link, {"range": "bytes=1-8"}, b"") == (206, b" not tex")
    assert ann.send("GET", link, {"range": f"bytes={len(text)}-"}, b"")[0] == 416


def test_use_is_told_in_percent_by_the_minute(server: Running, ann: Signer) -> None:
    job = server.running_job(device="sim:2")
    times = (100.0, 130.0, 161.0, 290.0)
    machine = Machine(4, 16.0, {DeviceKind.SIM: 64.0})
    usage = JobUsage(
        times=times,
        curves=(
            UsageCurve(name="cpu_cores", y=(1.0, 3.0, 4.0, None)),
            UsageCurve(name="memory_gb", y=(4.0, 4.0, 8.0, 16.0)),
            UsageCurve(name="use_pct", card="0", y=(50.0, 50.0, None, 0.0)),
            UsageCurve(name="use_pct", card="1", y=(100.0, 100.0, None, 50.0)),
            UsageCurve(name="memory_gb", card="0", y=(32.0, None, None, None)),
        ),
        revision=1,
    )
    told = {str(one["metric"]): one["value"] for one in metrics_of(usage, job, 0, machine)}
    assert told == {
        "cpuUsage": [50.0, 100.0],
        "memUsage": [25.0, 50.0, -1, 100.0],
        "gpuUtil": [],
        "gpuMemUsage": [],
        "npuUtil": [75.0, -1, -1, 25.0],
        "npuMemUsage": [50.0],
    }
    path = server.home / "usage" / f"{job.id}.jsonl"
    path.parent.mkdir(exist_ok=True)
    rows: list[Any] = [{"columns": [["cpu_cores", None]]}, [100.0, 0.5], [101.0, 0.5]]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    got = ann("GET", f"/training-jobs/{job.id}/metrics/worker-0")[1]["metrics"]
    assert [one["metric"] for one in got] == list(told)
    assert got[0]["value"][0] > 0
    assert is_refused(ann("GET", f"/training-jobs/{job.id}/metrics/worker-1"), 404)
    server.finish(job.id)


def test_inputs_and_outputs_are_where_the_client_wants_them(server: Running, ann: Signer) -> None:
    place = {"remote": {"obs": {"obs_url": "/lab/data/"}}}
    inputs = [
        {"name": "data_url", "local_dir": "/home/work/data", **place},
        {"name": "other", "access_method": "env", "local_dir": "/opt/other/", **place},
        {"name": "usual", "local_dir": "/home/ma-user/modelarts/inputs/usual_0/", **place},
    ]
    wanted = body("places", inputs=inputs, outputs=[{"name": "train_url", **place}])
    kinds = [DeviceKind.SIM]
    spec = job_spec(TrainingJob.model_validate(wanted), load_catalogue(server.home), kinds)
    assert json.loads(spec.environment["MA_LOCAL_DIRS"]) == {
        "data_url": "/home/work/data",
        "other": "/opt/other/",
    }
    assert spec.environment["other"] == "/opt/other/"
    made = ann("POST", "/training-jobs", wanted)[1]
    places = {one["name"]: one["local_dir"] for one in made["algorithm"]["inputs"]}
    assert places == {one["name"]: one["local_dir"] for one in inputs}
    (out,) = made["algorithm"]["outputs"]
    assert out["local_dir"] == "/home/ma-user/modelarts/outputs/train_url_0"
    for wrong in ("data", "/", "//", "/a/../b", "/a\0b", "/a//b"):
        refused = body("places", inputs=[{"name": "x", "local_dir": wrong, **place}])
        assert is_refused(ann("POST", "/training-jobs", refused), 400), wrong
