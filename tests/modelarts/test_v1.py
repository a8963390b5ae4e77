"""v1, the API of the SDK before the present one; the chain of versions is in `test_obs`."""

import time
from collections.abc import Generator
from typing import Any

import pytest
from tests.modelarts.conftest import Signer
from tests.server.conftest import Running, serving

from jumar.client import Client
from jumar.server.process.certificate import OWN, own_certificate
from jumar.spec.states import JobState

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("v1"), tls_cert=OWN) as made:
        yield made


class V1:
    """Asks v1 as one user; what is refused is an answer too."""

    def __init__(self, server: Running, user: str) -> None:
        trust = own_certificate(server.home, "127.0.0.1").text()
        with Client(server.url, server.token(user), trust=trust) as client:
            self.signer = Signer(client.modelarts_keys())

    def __call__(
        self, method: str, path: str, body: Any = None, status: int = 200, **more: Any
    ) -> Any:
        place, _, query = path.partition("?")
        found, said = self.signer(method, place, body, api="v1", query=query, **more)
        assert (found, said["is_success"]) == (status, status == 200), said
        return said


def test_v1_is_served_over_tls_to_clients_that_do_not_verify(server: Running) -> None:
    now = time.time()
    ann = V1(server, "ann").signer
    assert ann.keys.endpoint.startswith("https://")
    status, said = ann("GET", "/job/resource-specs", api="v1")
    assert (status, said["is_success"]) == (200, True)
    config = {"user_command": "train", "spec_id": 101}
    made = ann("POST", "/training-jobs", {"job_name": "tls", "config": config}, api="v1")[1]
    place = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"
    server.wait(made["resource_id"], JobState.RUNNING)
    status, said = ann("POST", f"{place}/stop", api="v1")
    assert (status, said["is_success"]) == (200, True)
    status, said = ann("GET", f"{place}9", api="v1")
    assert (status, said["is_success"]) == (404, False)
    job = f"/training-jobs/{made['job_id']}"
    again = ann("POST", f"{job}/versions", {"config": config}, api="v1")[1]
    versions = f"{job}/versions/{again['version_id']}"
    for _ in range(2):
        status, said = ann("DELETE", versions, api="v1", at=now)
        assert (status, said["is_success"]) == (200, True)
    assert ann("GET", f"{job}/versions", api="v1")[1]["version_count"] == 1
    assert ann("DELETE", job, api="v1", at=now)[0] == 200
    assert ann("GET", f"{job}/versions", api="v1")[0] == 404
    server.wait(again["resource_id"], JobState.STOPPED)


def test_what_is_told_of_a_version_names_spec_and_engine(server: Running) -> None:
    ann = V1(server, "ann")
    source = [{"type": "obs", "data_url": "/lab/data/"}]
    config = {"user_command": "train", "spec_id": 106, "engine_id": 204, "data_source": source}
    made = ann("POST", "/training-jobs", {"job_name": "told", "config": config})
    place = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"
    shown = ann("GET", place)
    told = (shown["spec_code"], shown["engine_name"], shown["engine_version"], shown["data_url"])
    assert told == (
        "modelarts.vm.gpu.v100",
        "PyTorch",
        "PyTorch-1.4.0-python3.6",
        "obs://lab/data/",
    )
    by_v2 = ann.signer("GET", f"/training-jobs/{made['resource_id']}")[1]
    assert by_v2["spec"]["resource"]["flavor_id"] == "modelarts.vm.gpu.v100"
    use = ann("GET", f"{place}/pod/worker-0.log/metric-statistic?metrics=CpuUsage,MemUsage")
    assert {one["metric"] for one in use["metrics"]} == {"cpuUsage", "memUsage"}
    for wrong in (
        {"dataset_id": "x", "dataset_version_id": "y"},
        {"data_source": [*source, *source]},
        {"data_url": "/lab/more/"},
        {"engine_id": 999},
        {"spec_id": 999},
    ):
        ann(
            "POST",
            "/training-jobs",
            {"job_name": "told", "config": {**config, **wrong}},
            status=400,
        )


def test_jobs_are_listed_by_the_field_asked_for(server: Running) -> None:
    bob = V1(server, "bob")
    for name in ("sort b", "sort c", "sort a"):
        bob(
            "POST",
            "/training-jobs",
            {"job_name": name, "config": {"user_command": "x", "spec_id": 101}},
        )

    def names(query: str) -> str:
        found = bob("GET", f"/training-jobs?search_content=sort{query}")["jobs"]
        return "".join(one["job_name"][-1] for one in found)

    assert names("") == names("&sortBy=none") == "acb"
    assert names("&sortBy=job_name") == "cba"
    assert names("&sortBy=job_name&order=asc&per_page=1&page=2") == "b"
    assert bob("GET", "/built-in-algorithms")["models"] == []


def test_configurations_are_kept_by_name_for_their_user(server: Running) -> None:
    ann, bob, now = V1(server, "ann"), V1(server, "bob"), time.time() - 60
    path = "/training-job-configs"
    config = {"worker_server_num": 1, "user_command": "train", "spec_id": 101, "engine_id": 204}
    sent = {"config_name": "free", "config_desc": "one hour 名", **config}
    for _ in range(2):
        # The second is the same request once more.
        ann("POST", path, sent, at=now)
    ann("POST", path, sent, status=409)
    bob("POST", path, {**sent, "config_desc": "bob's"})
    for name in ("../x", "a b", "", "x" * 65):
        ann("POST", path, {**sent, "config_name": name}, status=400)
    ann("POST", path, {"config_name": "bad", "spec_id": 101, "dataset_id": "x"}, status=400)
    shown = ann("GET", f"{path}/free")
    assert {name: shown[name] for name in sent} == sent | {"spec_id": "101", "engine_id": "204"}
    # What was kept makes a job.
    ann("POST", "/training-jobs", {"job_name": "kept", "config": shown})
    edit = "PUT", f"{path}/free", {**config, "worker_server_num": 2, "config_desc": "two"}
    ann(*edit, at=now)
    ann("PUT", f"{path}/free", {**config, "config_desc": "three"})
    ann(*edit, at=now)
    assert ann("GET", f"{path}/free")["config_desc"] == "three"
    listed = ann("GET", f"{path}?per_page=10&page=1&order=asc&search_content=fr")
    assert (listed["config_total_count"], listed["configs"][0]["config_name"]) == (1, "free")
    assert ann("GET", f"{path}?config_type=sample")["configs"] == []
    for method in ("GET", "PUT", "DELETE"):
        ann(method, f"{path}/none", config if method == "PUT" else None, status=404)
    ann("DELETE", f"{path}/free")
    assert bob("GET", f"{path}/free")["config_desc"] == "bob's"


def test_a_folder_is_shown_in_tensorboard(server: Running) -> None:
    ann, bob, now = V1(server, "ann"), V1(server, "bob"), time.time() - 60
    path = "/visualization-jobs"
    sent = {
        "job_name": "curves",
        "train_url": "/lab/free_train/out/",
        "schedule": [{"type": "stop", "time_unit": "HOURS", "duration": 1}],
    }
    made = [ann("POST", path, sent, at=now) for _ in range(2)]
    assert made[0]["job_id"] == made[1]["job_id"]
    one = f"{path}/{made[0]['job_id']}"
    job = server.wait(made[0]["resource_id"], JobState.RUNNING)
    assert job.spec["endpoints"] == ["tensorboard"]
    assert job.spec["time_limit"] == "1h"
    shown = ann("GET", one)
    assert (shown["status"], shown["train_url"]) == (8, "obs://lab/free_train/out/")
    assert shown["service_url"].endswith(f"/jobs/{job.id}")
    ann("PUT", one, {"job_desc": "of the chain"})
    listed = ann("GET", f"{path}?search_content=curv&status=8")
    assert [each["job_desc"] for each in listed["jobs"]] == ["of the chain"]
    names = [each["job_name"] for each in ann("GET", "/training-jobs")["jobs"]]
    assert "curves" not in names
    bob("GET", one, status=404)
    ann("POST", f"{one}/restart", status=409)
    ann("POST", f"{one}/stop")
    server.wait(job.id, JobState.STOPPED)
    ann("POST", f"{one}/restart")
    again = ann("GET", one)
    assert again["resource_id"] != job.id
    for _ in range(2):
        ann("DELETE", one, at=now)
    ann("GET", one, status=404)
    for wrong in ({"job_type": "mindinsight"}, {"train_url": "x"}, {"job_name": ""}):
        ann("POST", path, {**sent, **wrong}, status=400)
    # Not every job is one.
    other = ann(
        "POST", "/training-jobs", {"job_name": "x", "config": {"user_command": "x", "spec_id": 101}}
    )
    ann("GET", f"{path}/{other['job_id']}", status=404)
