"""v1, the API of the SDK before the present one; the chain of versions is in `test_obs`."""

import time
from pathlib import Path

import pytest
from tests.modelarts.conftest import Signer
from tests.server.conftest import serving

from jumar.client import Client
from jumar.server.process.certificate import OWN, own_certificate
from jumar.spec.states import JobState


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_v1_is_served_over_tls_to_clients_that_do_not_verify(tmp_path: Path) -> None:
    now = time.time()
    with serving(tmp_path, tls_cert=OWN) as server:
        trust = own_certificate(server.home, "127.0.0.1").text()
        with Client(server.url, server.token("ann"), trust=trust) as client:
            ann = Signer(client.modelarts_keys())
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
