"""A script that chains free hours, as the tutorial's readers have them: a program of its own, as text.

It does what such scripts do with the SDK before the present one: it uploads with the client of OBS, creates a
job over TLS that it does not verify, waits, shows the log, and makes a next version as often as its config
says. As in the one that is passed around, what it gives as `pre_version_id` after the first is no number."""

# What the reader writes; the lines about ckpt are the tutorial's.
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
SCRIPT = r"""
import json
import os
import ssl
import time
import urllib.request
from urllib.parse import urlsplit

from obs import ObsClient

from jumar.modelarts.signing import Signed, authorization, canonical_query, date_header

config = json.load(open("config.json"))
BUCKET, PROJECT = config["OBS_NAME"], config["PROJECT_ID"]
HOST = urlsplit(config["ENDPOINT"]).netloc
obs = ObsClient(access_key_id=config["AK"], secret_access_key=config["SK"], server=config["OBS"])


def upload(folder, prefix):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            answer = obs.putFile(BUCKET, prefix + os.path.relpath(path, folder), path)
            assert answer.status < 300, (answer.status, answer.errorMessage)


def ask(method, path, body=None, query=""):
    data = b"" if body is None else json.dumps(body).encode()
    target = f"/v1/{PROJECT}{path}"
    headers = {"host": HOST, "x-sdk-date": date_header(time.time()),
               "content-type": "application/json", "x-project-id": PROJECT}
    request = Signed(method=method, path=target, query=query, headers=headers, body=data)
    headers["authorization"] = authorization(config["AK"], config["SK"], request)
    url = f"https://{HOST}{target}" + (f"?{canonical_query(query)}" if query else "")
    sent = urllib.request.Request(url, data if body is not None else None, headers, method=method)
    with urllib.request.urlopen(sent, timeout=180, context=ssl._create_unverified_context()) as got:
        said = json.load(got)
    assert said["is_success"] is True, said
    return said


def wait(made):
    place = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"
    until = time.monotonic() + 180
    while True:
        shown = ask("GET", place)
        if shown["status"] not in (7, 8):
            break
        assert time.monotonic() < until, shown
        time.sleep(0.2)
    names = ask("GET", f"{place}/log/file-names")["log_file_list"]
    log = ask("GET", f"{place}/aom-log", query=f"log_file={names[-1]}")
    print(json.dumps({"status": shown["status"], "log": log["content"], "version": shown["version_name"]}))
    assert (shown["job_id"], shown["version_id"]) == (made["job_id"], made["version_id"])


upload("code", "free_train/code/")
upload("data", "free_train/data/")
spec = [one for one in ask("GET", "/job/resource-specs")["specs"]
        if one["spec_code"] == "modelarts.vm.gpu.free"][0]
engine = [one for one in ask("GET", "/job/ai-engines")["engines"]
          if one["engine_version"] == "PyTorch-1.4.0-python3.6"][0]
job_config = {
    "priority": 2,
    "worker_server_num": 1,
    "app_url": f"/{BUCKET}/free_train/code/",
    "boot_file_url": f"/{BUCKET}/free_train/code/test.py",
    "train_url": f"/{BUCKET}/free_train/out/",
    "spec_id": spec["spec_id"],
    "parameter": [{"label": "epochs", "value": "2"}],
    "engine_id": engine["engine_id"],
    "log_url": f"/{BUCKET}/free_train/log/",
    "data_url": f"/{BUCKET}/free_train/data/",
}
made = ask("POST", "/training-jobs", {"job_name": "chain_0_____a", "job_desc": None, "job_type": None,
                                      "autosearch_config": {}, "config": job_config})
job, before = made["job_id"], made["version_id"]
wait(made)
for number in range(1, config["CONTINUE_ITERS"]):
    body = {"config": {**job_config, "pre_version_id": before}, "job_desc": f"train of iter {number}"}
    made = ask("POST", f"/training-jobs/{job}/versions", body)
    wait(made)
    before = ask("GET", f"/training-jobs/{job}/versions")
assert before["version_count"] == config["CONTINUE_ITERS"], before
assert [one["version_name"] for one in before["versions"]] == ["V0003", "V0002", "V0001"]
# What its reader does next: looks for the job, and describes it.
found = ask("GET", "/training-jobs", query="search_content=chain&order=asc&per_page=10&page=1&status=10|11")
assert [one["job_id"] for one in found["jobs"]] == [job], found
assert found["jobs"][0]["train_url"] == f"obs://{BUCKET}/free_train/out/"
assert ask("GET", "/training-jobs", query="search_content=other")["jobs"] == []
ask("PUT", f"/training-jobs/{job}", {"job_desc": "three hours 名"})
assert ask("GET", f"/training-jobs/{job}/versions")["versions"][0]["job_desc"] == "three hours 名"
"""
