"""The vendor's own SDK against a running server, unchanged but for where it goes."""

import os
import subprocess
import sys

import pytest
from tests.modelarts.conftest import Signer, put
from tests.modelarts.sdk_walk import WALK
from tests.store.served import Served
from tests.waiting import wait_for

TRAIN = """
import argparse, json, os
parser = argparse.ArgumentParser()
for name in ("data_url", "train_url", "lr", "note"):
    parser.add_argument("--" + name)
given = parser.parse_args()
told = dict(vars(given), file=open(__file__).read())
told["data"] = open(given.data_url + "/a.txt").read()
told["fixed"] = open("/home/ma-user/modelarts/inputs/data_url_0/a.txt").read()
told["chosen"] = open("/home/work/data/a.txt").read()
told["code"] = open("/home/ma-user/modelarts/user-job-dir/demo code/train.py").read()
open("/home/ma-user/modelarts/outputs/train_url_0/model.txt", "w").write("weights")
print("a line")
print(json.dumps(told))
"""
WAIT = "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n"


@pytest.mark.parametrize("how", ["endpoint", "environment"])
def test_the_sdk_does_every_operation(platform: Served, ann: Signer, how: str) -> None:
    bucket = f"lab-{how}"
    files = {"demo code/train.py": TRAIN, "demo code/wait.py": WAIT, "data/a.txt": "some data"}
    store = put(platform, bucket, files)
    variables = {
        "AK": ann.keys.ak,
        "SK": ann.keys.sk,
        "PROJECT": ann.keys.project_id,
        "ENDPOINT": ann.keys.endpoint,
    }
    if how == "environment":
        variables["HUAWEICLOUD_SDK_REGION_MODELARTS_CN_NORTH_4"] = ann.keys.endpoint
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK, bucket, how],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.stdout.endswith("walked\n"), done.stdout + done.stderr
    assert store.read(f"walk-{how}-out/model.txt") == b"weights"
    logs = wait_for(lambda: [entry.key for entry in store.walk("log/")])
    assert all(key.startswith("log/modelarts-job-") for key in logs)
