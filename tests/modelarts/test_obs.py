"""The vendor's own client of OBS against the S3 door, unchanged but for where it goes."""

import os
import subprocess
import sys

import pytest
from tests.modelarts.conftest import Signer, signer
from tests.modelarts.obs_walk import WALK
from tests.store.served import Served


@pytest.mark.parametrize(
    ("part_mb", "parts"), [(5, 3), pytest.param(20, 100, marks=pytest.mark.full)]
)
def test_the_client_of_obs_does_what_scripts_do(
    platform: Served, ann: Signer, part_mb: int, parts: int
) -> None:
    own = signer(platform, "admin").keys
    assert own.obs_endpoint
    keys = {"AK": own.ak, "SK": own.sk, "OBS": own.obs_endpoint}
    keys |= {"MEMBER_AK": ann.keys.ak, "MEMBER_SK": ann.keys.sk}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK, f"obs-{parts}", str(part_mb), str(parts)],
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.endswith("walked\n"), done.stdout + done.stderr
