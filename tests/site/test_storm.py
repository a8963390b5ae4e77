"""Many jobs of many users while server and root's program are killed: each runs once, as its user.

The size of every day is small; `tools/full_test.py` gives the full one by JUMAR_STORM."""

import json
import os
import random
import subprocess
from pathlib import Path

from tests.site.api import api
from tests.site.conftest import Host, until

# Jobs, users, kills.
_SIZE = tuple(map(int, os.environ.get("JUMAR_STORM", "12,4,3").split(",")))


def test_each_job_runs_once_as_its_user_whoever_is_killed(site: Host) -> None:
    jobs, people, kills = _SIZE
    mark = site.server[:-1]
    users = [f"{mark}u{number}" for number in range(people)]
    ledger = site.top / "ledger"
    ledger.mkdir()
    ledger.chmod(0o1777)
    try:
        for user in users:
            subprocess.run(
                ["useradd", "-M", "-d", "/nonexistent", "-s", "/bin/bash", user], check=True
            )
        made = _submit_all(site, users, jobs, kills, ledger)
        until(lambda: _all_over(site, made), "all have ended", 60 + 3 * jobs)
        ran = [path.read_text().split() for path in ledger.iterdir()]
        assert sorted(map(tuple, ran)) == sorted((job, user) for job, user in made.items())
        assert len(list(ledger.iterdir())) == jobs
        assert not [job for job in made if _lives(site, job)]
    finally:
        for user in users:
            subprocess.run(["userdel", "-f", user], check=False, capture_output=True)


def _submit_all(
    site: Host, users: list[str], jobs: int, kills: int, ledger: Path
) -> dict[str, str]:
    """The user of each job; between submits, one of the two programs is killed now and then."""
    chance = random.Random(1)
    kill_after = set(chance.sample(range(jobs), kills))
    made: dict[str, str] = {}
    for number in range(jobs):
        user = users[number % len(users)]
        # A second run of the same job would add a line to a file that is there.
        line = f'echo "$JUMAR_JOB_ID" "$(id -un)" >> {ledger}/$JUMAR_JOB_ID; sleep 0.2'
        spec = {"name": f"n{number}", "command": line, "workdir": "/", "retries": 0}
        made[api(site, user, "POST", "/jobs", spec, expect=201)["id"]] = user
        if number in kill_after:
            if chance.random() < 0.5:
                site.end_server()
                site.start_server()
            else:
                site.end_root()
                site.start_root()
    return made


def _all_over(site: Host, made: dict[str, str]) -> bool:
    page = api(site, "root", "GET", "/jobs?limit=500&state=succeeded")
    counts = page["counts"]
    assert set(counts) <= {"succeeded", "queued", "starting", "running"} or not any(
        counts[name] for name in counts if name in ("failed", "lost")
    ), counts
    return counts.get("succeeded", 0) >= len(made)


def _lives(site: Host, job: str) -> bool:
    result = site.control(job, "1", "node0", "result.json")
    return not json.loads(result.read_text())["is_empty"]
