"""v1 as the scripts of the free-hour tutorial use it: a job, its versions, checkpoints in OBS between them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.modelarts.conftest import Signer, put, wait_until
from tests.server.conftest import serving
from tests.store.served import Served

from jumar.client import Client
from jumar.server.process.certificate import OWN, own_certificate
from jumar.spec.states import JobState

# The tutorial's own lines about ckpt; the loop is the reader's.
TRAIN = """
import argparse, os
import moxing as mox
parser = argparse.ArgumentParser()
for name in ("data_url", "train_url", "epochs"):
    parser.add_argument("--" + name)
given, _ = parser.parse_known_args()
mox.file.copy_parallel(given.data_url, '/cache/data')
assert os.listdir('/cache/data') == ['1.txt']
mox.file.copy_parallel('obs://BUCKET/free_train/ckpt', '/cache/ckpt')
path = "/cache/ckpt/last_epoch.txt"
epoch = int(open(path).read()) if os.path.exists(path) else 0
for epoch in range(epoch + 1, epoch + 1 + int(given.epochs)):
    print("epoch", epoch)
os.makedirs("/cache/ckpt", exist_ok=True)
open(path, "w").write(str(epoch))
mox.file.copy_parallel('/cache/ckpt', 'obs://BUCKET/free_train/ckpt')
mox.file.copy_parallel('/cache/ckpt', given.train_url)
"""
# What upload_files.py of the tutorial does, with the client of OBS as it signs by default.
UPLOAD = """
import os, sys
from obs import ObsClient
folder, bucket, prefix = sys.argv[1:]
client = ObsClient(
    access_key_id=os.environ["AK"], secret_access_key=os.environ["SK"], server=os.environ["OBS"]
)
for root, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(root, name)
        key = prefix + os.path.relpath(path, folder)
        answer = client.putFile(bucket, key, path)
        assert answer.status < 300, (answer.status, answer.errorCode, answer.errorMessage)
listed = client.listObjects(bucket, prefix=prefix, marker="", max_keys=1000)
assert listed.status < 300, listed
wrong = ObsClient(access_key_id=os.environ["AK"], secret_access_key="x" * 40, server=os.environ["OBS"])
assert wrong.putContent(bucket, prefix + "evil", "x").status == 403
print(len(listed.body.contents))
"""


def test_a_chain_of_versions_adds_up(platform: Served, ann: Signer, tmp_path: Path) -> None:
    bucket = "free-hour"
    store = put(platform, "ann", bucket, {})
    store.make_folder("free_train/ckpt/")
    source = tmp_path / "src"
    (source / "code").mkdir(parents=True)
    (source / "data").mkdir()
    (source / "code/test.py").write_text(TRAIN.replace("BUCKET", bucket))
    (source / "data/1.txt").write_text("one")
    assert ann.keys.obs_endpoint
    variables = {"AK": ann.keys.ak, "SK": ann.keys.sk, "OBS": ann.keys.obs_endpoint}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UPLOAD, str(source), bucket, "free_train/"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    # Two files, and the folder for checkpoints.
    assert done.stdout == "3\n", done.stdout + done.stderr

    def v1(method: str, path: str, body: Any = None, query: str = "") -> Any:
        status, said = ann(method, path, body, api="v1", query=query)
        assert status == 200, said
        assert said["is_success"] is True
        return said

    specs = v1("GET", "/job/resource-specs")["specs"]
    (free,) = [one for one in specs if one["spec_code"] == "modelarts.vm.gpu.free"]
    engine = v1("GET", "/job/ai-engines")["engines"][0]
    config = {
        "worker_server_num": 1,
        "app_url": f"/{bucket}/free_train/code/",
        "boot_file_url": f"/{bucket}/free_train/code/test.py",
        "parameter": [{"label": "epochs", "value": "2"}],
        "data_url": f"/{bucket}/free_train/data/",
        "train_url": f"/{bucket}/free_train/out/",
        "log_url": f"/{bucket}/free_train/log/",
        "engine_id": engine["engine_id"],
        "spec_id": free["spec_id"],
    }
    made = v1("POST", "/training-jobs", {"job_name": "chain", "config": config})
    job = made["job_id"]
    assert isinstance(job, int)
    assert made["version_name"] == "V0001"
    for number in range(1, 4):
        place = f"/training-jobs/{job}/versions/{made['version_id']}"
        shown = wait_until(lambda place=place: _ended(v1("GET", place)))
        log = v1("GET", f"{place}/aom-log", query="log_file=worker-0.log&order=asc&lines=100")
        assert shown["status"] == 10, log
        assert log["content"] == f"epoch {2 * number - 1}\nepoch {2 * number}\n"
        assert (log["lines"], log["start_line"], log["end_line"]) == (2, "1", "2")
        assert v1("GET", f"{place}/log/file-names")["log_file_list"] == ["worker-0.log"]
        if number < 3:
            following = {**config, "pre_version_id": made["version_id"]}
            made = v1("POST", f"/training-jobs/{job}/versions", {"config": following})
            assert (made["job_id"], made["version_name"]) == (job, f"V000{number + 1}")
    versions = v1("GET", f"/training-jobs/{job}/versions")
    assert versions["version_count"] == 3
    assert [one["version_name"] for one in versions["versions"]] == ["V0003", "V0002", "V0001"]
    assert [one["job_id"] for one in v1("GET", "/training-jobs")["jobs"]] == [job]
    assert store.read("free_train/out/ckpt/last_epoch.txt") == b"6"
    wait_until(lambda: len(list(store.walk("free_train/log/"))) == 3)


def _ended(shown: Any) -> Any:
    return shown if shown["status"] in (10, 11, 12) else None


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_v1_is_served_over_tls_to_clients_that_do_not_verify(tmp_path: Path) -> None:
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
